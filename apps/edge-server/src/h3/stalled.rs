//! Stalled requests and responses: each is given up for itself, as what else the
//! connection carries may be well.

use std::collections::BTreeSet;
use std::time::Instant;
use std::time::SystemTime;

use quiche::clock;
use quiche::h3::WireErrorCode;
use quiche::Shutdown;

use crate::h3::kept_bytes;
use crate::h3::stall_detector::ProgressSnapshot;
use crate::h3::stall_detector::StalledStreams;
use crate::h3::Session;
use crate::h3::MALFORMED_MAX;
use crate::h3::STREAM_ID_STEP;
use crate::http::response::Response;
use crate::quic::Quic;

/// How many have stalled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StalledCounts {
    pub requests: usize,
    pub responses: usize,
}

impl Session {
    /// When [`give_up_stalled()`](Self::give_up_stalled) has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.stall_detector.deadline()
    }

    /// Looks whether it is time for what has stalled, and gives it up.
    pub fn give_up_stalled(&mut self, quic: &mut Quic, now: Instant) -> StalledCounts {
        if !self.stall_detector.is_due(now) {
            return StalledCounts::default();
        }
        self.exchanges.settle(quic, now);
        let snapshot = ProgressSnapshot {
            responses: self.waiting(),
            heads: self.headless(quic),
            contents: self.request_bodies.keys().copied().collect(),
            taken: self.written_bytes.saturating_sub(kept_bytes(&self.exchanges, quic)),
            received: self.received_bytes,
        };
        let StalledStreams { responses, heads, contents } =
            self.stall_detector.judge(snapshot, now);
        for stream in &responses {
            self.give_up(quic, *stream, WireErrorCode::RequestCancelled);
        }
        let mut requests = contents.len();
        for stream in heads {
            requests += usize::from(self.give_up_head(quic, stream));
        }
        for stream in contents {
            self.give_up_content(quic, stream, clock::wall_now());
        }
        StalledCounts { requests, responses: responses.len() }
    }

    /// Streams whose responses the client could take, or acknowledge. A stream whose
    /// request has not ended is known until it does, whatever has been acknowledged.
    fn waiting(&self) -> BTreeSet<u64> {
        let responses = self.responses.iter().filter(|response| !response.is_fetching());
        let responses = responses.map(|response| response.stream);
        let all = responses.chain(self.exchanges.written());
        all.filter(|stream| !self.request_bodies.contains_key(stream)).collect()
    }

    /// Streams that have not brought a request.
    fn headless(&mut self, quic: &mut Quic) -> BTreeSet<u64> {
        // It may open so many more, and those that it has taken back.
        let more = STREAM_ID_STEP * (self.requests_max + u64::from(MALFORMED_MAX));
        let end = self.next_stream + more;
        let mut is_open = |stream| {
            !matches!(quic.stream_capacity(stream), Err(quiche::Error::InvalidStreamState(_)))
        };
        while self.ended_below < self.next_stream && !is_open(self.ended_below) {
            self.ended_below += STREAM_ID_STEP;
        }
        let streams = (self.ended_below..end).step_by(STREAM_ID_STEP as usize);
        streams.filter(|stream| is_open(*stream) && !self.exchanges.contains(*stream)).collect()
    }

    /// Returns whether there was still something to give up.
    fn give_up_head(&mut self, quic: &mut Quic, stream: u64) -> bool {
        let code = WireErrorCode::RequestIncomplete;
        let was_read = quic.stream_shutdown(stream, Shutdown::Read, code as u64).is_ok();
        self.give_up(quic, stream, code);
        self.malformed += u32::from(was_read);
        self.bound_harm(quic);
        was_read
    }

    /// Content that nothing waits for is just not read any more.
    fn give_up_content(&mut self, quic: &mut Quic, stream: u64, wall_now: SystemTime) {
        let Some(body) = self.request_bodies.get(&stream).copied() else { return };
        if body.uploaded().is_some() {
            self.conclude(stream, Response::error(408), body, wall_now);
        }
        self.stop_request(quic, stream);
    }
}
