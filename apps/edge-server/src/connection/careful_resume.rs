//! Careful Resume of one connection: path state that it observes and path state that it
//! uses, between the transport, which resumes, and the store.

use std::time::Instant;

use log::debug;
use path_store::claim_lifecycle::Action;
use path_store::claim_lifecycle::Outcome;
use quiche::careful_resume::Phase;
use quiche::clock;
use quiche::hooks;
use quiche::path_state::PathState;

use crate::connection::Connection;
use crate::h3::Session;
use crate::quic::INITIAL_WINDOW_BYTES;
use crate::resume::store::StoreClient;
use crate::telemetry::metrics::ConnectionSnapshot;
use crate::telemetry::metrics::WorkerMetrics;

impl Connection {
    /// Follows Careful Resume, and what the connection learns.
    pub(super) fn follow_resume(
        &mut self,
        store: &StoreClient,
        metrics: &WorkerMetrics,
        now: Instant,
    ) {
        while let Some(event) = hooks::careful_resume_event_next(&mut self.quic) {
            metrics.resume.on_event(&event, &self.snapshot());
            if let Some(summary) = &mut self.resume_summary {
                summary.on_event(&event);
            }
            let outcome = match event.new {
                Phase::Unvalidated => {
                    self.claim_lifecycle.on_jump();
                    continue;
                }
                Phase::SafeRetreat => Outcome::Retreat,
                Phase::Normal => Outcome::Normal,
                _ => continue,
            };
            let observed = self.observed();
            for action in self.claim_lifecycle.on_outcome(outcome, observed, now) {
                self.act(action, store);
            }
        }
        let lapsed = self.claim_lifecycle.on_claim_timeout(now);
        self.act(lapsed, store);
        if self.claim_lifecycle.lingers() && self.http.as_ref().is_none_or(Session::is_idle) {
            let observed = self.observed();
            for action in self.claim_lifecycle.on_idle(observed, now) {
                self.act(action, store);
            }
        }
        if self.stats_delta.is_due(now) {
            self.stats_delta.report(&self.quic.stats(), &metrics.traffic, now);
        }
        if self.is_ended() {
            self.finish(store, now);
        }
        if self.over {
            return;
        }
        // Early data may be somebody's who records it: no claim before the handshake
        // is complete.
        let queued = self.http.as_ref().map_or(0, Session::unsent_bytes);
        if queued > INITIAL_WINDOW_BYTES && self.quic.is_established() {
            let action = self.claim_lifecycle.on_data_queued(now);
            self.act(action, store);
        }
        if self.claim_lifecycle.next_observation().is_some_and(|at| at <= now) {
            let observed = self.observed();
            let record = self.claim_lifecycle.on_observation(observed, now);
            self.act(record, store);
        }
    }

    fn snapshot(&self) -> ConnectionSnapshot {
        let active = self.quic.path_stats().find(|path| path.active);
        ConnectionSnapshot {
            min_rtt: active.and_then(|path| path.min_rtt),
            limit: hooks::send_limit(&self.quic),
            jump_bytes: self.resume_summary.and_then(|report| report.jump_bytes).unwrap_or(0),
            max_jump: self.resume_summary.map_or(0, |report| report.max_jump),
            wall_now: clock::wall_now(),
        }
    }

    /// What may be recorded: only the path to a validated address, and to a client
    /// that keeps to the protocol, and that may teach.
    fn observed(&self) -> Option<PathState> {
        let may_teach = self.resume_summary.is_some();
        let believed =
            may_teach && self.quic.is_established() && !is_fault(self.quic.local_error());
        believed.then(|| hooks::path_state(&self.quic)).flatten()
    }

    pub(super) fn finish(&mut self, store: &StoreClient, now: Instant) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let observed = self.observed();
        for action in self.claim_lifecycle.on_close(observed, now) {
            self.act(action, store);
        }
    }

    pub(super) fn act(&mut self, action: Option<Action>, store: &StoreClient) {
        match action {
            None => (),
            Some(Action::Claim) => {
                let rtt = self.quic.path_stats().find(|path| path.active).map(|path| path.rtt);
                let asked = store.claim(self.handle, &self.endpoint, rtt.unwrap_or_default());
                if !asked {
                    self.on_claim(None, store);
                }
            }
            Some(Action::Resume { saved, jump_before }) => {
                debug!("{}: resumes from {saved:?}", self.quic.trace_id());
                if hooks::careful_resume_from(&mut self.quic, saved, jump_before).is_err() {
                    let action = self.claim_lifecycle.on_refusal();
                    self.act(action, store);
                }
            }
            Some(Action::Release(token)) => store.release(&self.endpoint, token),
            Some(Action::Forget { token, used }) => store.forget(&self.endpoint, token, used),
            Some(Action::Record(observed)) => {
                debug!("{}: records {observed:?}", self.quic.trace_id());
                store.record(&self.endpoint, &observed);
            }
        }
    }
}

/// Whether the transport closed the connection, for a fault of the client's as a
/// rule: who acknowledges what it has not received tells nothing of the path.
fn is_fault(error: Option<&quiche::ConnectionError>) -> bool {
    error.is_some_and(|error| !error.is_app)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiche::h3;
    use quiche::WireErrorCode;

    #[test]
    fn a_client_that_breaks_the_protocol_is_not_believed() {
        let error =
            |is_app, error_code| quiche::ConnectionError { is_app, error_code, reason: Vec::new() };
        assert!(!is_fault(None));
        assert!(!is_fault(Some(&error(true, h3::WireErrorCode::NoError as u64))));
        assert!(is_fault(Some(&error(false, WireErrorCode::ProtocolViolation as u64))));
    }
}
