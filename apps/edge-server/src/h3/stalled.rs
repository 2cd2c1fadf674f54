//! Stalled requests and responses: each is cancelled alone, because others on the connection
//! may progress.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Instant;
use std::time::SystemTime;

use quiche::clock;
use quiche::h3::WireErrorCode;
use quiche::Shutdown;

use crate::h3::stall_detector::ProgressSnapshot;
use crate::h3::stall_detector::ResponseProgress;
use crate::h3::stall_detector::StalledStreams;
use crate::h3::unacknowledged_bytes;
use crate::h3::Session;
use crate::h3::MALFORMED_MAX;
use crate::h3::STREAM_ID_STEP;
use crate::http::body_stream::StreamWriter;
use crate::http::response::Response;
use crate::quic::Quic;

quiche::stand_ins!();

/// Number of stalled requests and responses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StalledCounts {
    pub requests: usize,
    pub responses: usize,
}

impl Session {
    /// Returns when [`cancel_stalled()`](Self::cancel_stalled) is due, or more of a response.
    pub fn deadline(&self) -> Option<Instant> {
        self.limited_until.into_iter().chain(self.stall_detector.deadline()).min()
    }

    /// Cancels what has stalled, if it is time to compare.
    pub fn cancel_stalled(&mut self, quic: &mut Quic, now: Instant) -> StalledCounts {
        // The connection has a turn now.
        self.limited_until.take_if(|until| *until <= now);
        if !self.stall_detector.is_due(now) {
            return StalledCounts::default();
        }
        self.exchanges.finish_acknowledged(quic, now);
        let kept = unacknowledged_bytes(&self.exchanges, quic);
        let missing = self.exchanges.streams().map(|stream| quic.stream_missing(stream)).sum();
        let snapshot = ProgressSnapshot {
            responses: self.awaiting_client(quic),
            heads: self.awaiting_head(quic),
            contents: self.awaiting_content(),
            all: progress(self.written_bytes, missing, kept),
            received: self.received_bytes,
        };
        let StalledStreams { responses, heads, contents } =
            self.stall_detector.compare(snapshot, now);
        for stream in &responses {
            self.cancel(quic, *stream, WireErrorCode::RequestCancelled);
        }
        let mut requests = contents.len();
        for stream in heads {
            requests += usize::from(self.cancel_head(quic, stream));
        }
        for stream in contents {
            self.stop_content(quic, stream, clock::wall_now());
        }
        StalledCounts { requests, responses: responses.len() }
    }

    /// Returns the progress of the responses that wait for the client, and did not wait for the disk or
    /// their own rate. A stream whose request has not ended stays open whatever has been acknowledged,
    /// so that it counts only while something is kept.
    fn awaiting_client(&mut self, quic: &Quic) -> BTreeMap<u64, ResponseProgress> {
        let responses = self.responses.iter_mut().filter_map(|response| {
            let has_waited = response.take_waited();
            let is_awaiting = !has_waited && !response.is_fetching();
            is_awaiting.then(|| (response.stream, response.sent_bytes()))
        });
        let all = responses.chain(self.exchanges.written()).map(|(stream, written)| {
            let (missing, kept) = (quic.stream_missing(stream), quic.stream_unacknowledged(stream));
            (stream, progress(written, missing, kept))
        });
        let is_waiting = |(stream, progress): &(u64, ResponseProgress)| {
            progress.kept > 0 || !self.request_bodies.contains_key(stream)
        };
        all.filter(is_waiting).collect()
    }

    /// Returns the requests whose content has not ended, unless it waits for an origin.
    fn awaiting_content(&self) -> BTreeSet<u64> {
        let is_full = |stream| self.uploads.get(stream).is_some_and(StreamWriter::is_full);
        self.request_bodies.keys().filter(|stream| !is_full(*stream)).copied().collect()
    }

    /// Returns the open streams without a request.
    fn awaiting_head(&mut self, quic: &mut Quic) -> BTreeSet<u64> {
        // The client may open so many more, cancelled ones included.
        let more = STREAM_ID_STEP * (self.requests_max + u64::from(MALFORMED_MAX));
        let end = self.next_stream + more;
        let mut is_open = |stream| {
            !matches!(quic.stream_capacity(stream), Err(quiche::Error::InvalidStreamState(_)))
        };
        while self.closed_below < self.next_stream && !is_open(self.closed_below) {
            self.closed_below += STREAM_ID_STEP;
        }
        let streams = (self.closed_below..end).step_by(STREAM_ID_STEP as usize);
        streams.filter(|stream| is_open(*stream) && !self.exchanges.contains(*stream)).collect()
    }

    /// Cancels a request without a header section. Returns whether it was still open.
    fn cancel_head(&mut self, quic: &mut Quic, stream: u64) -> bool {
        let code = WireErrorCode::RequestIncomplete;
        let was_read = quic.stream_shutdown(stream, Shutdown::Read, code as u64).is_ok();
        self.cancel(quic, stream, code);
        self.malformed += u32::from(was_read);
        self.limit_abuse(quic);
        was_read
    }

    /// Stops reading the content of a request. An upload gets a response.
    fn stop_content(&mut self, quic: &mut Quic, stream: u64, wall_now: SystemTime) {
        let Some(body) = self.request_bodies.get(&stream).copied() else { return };
        if body.uploaded().is_some() {
            self.respond_to_upload(stream, Response::error(408), body, wall_now);
        }
        self.stop_request(quic, stream);
    }
}

fn progress(written: u64, missing: u64, kept: u64) -> ResponseProgress {
    // What is missing includes frame headers.
    ResponseProgress { acknowledged: written.saturating_sub(missing), kept }
}
