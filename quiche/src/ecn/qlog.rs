//! qlog event `quic:ecn_state_updated` (draft-ietf-quic-qlog-quic-events).

use std::time::Instant;

use qlog::events::quic;
use qlog::events::EventData;
use qlog::streamer::QlogStreamer;

use super::EcnState;
use super::PathEcn;

impl PathEcn {
    /// Writes the state if it has changed since the last call.
    pub(crate) fn write_log(
        &mut self, streamer: &mut QlogStreamer, now: Instant,
    ) {
        let state = self.state();
        let old = self.logged.replace(state);

        if old != Some(state) {
            let event = EventData::QuicEcnStateUpdated(quic::EcnStateUpdated {
                old: old.map(EcnState::to_qlog),
                new: state.to_qlog(),
            });
            streamer.add_event_data_with_instant(event, now).ok();
        }
    }
}

impl EcnState {
    fn to_qlog(self) -> quic::EcnState {
        match self {
            EcnState::Testing => quic::EcnState::Testing,
            EcnState::Unknown => quic::EcnState::Unknown,
            EcnState::Failed => quic::EcnState::Failed,
            EcnState::Capable => quic::EcnState::Capable,
        }
    }
}
