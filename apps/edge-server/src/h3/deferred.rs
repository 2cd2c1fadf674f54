//! Deferred requests: those that wait until their password has been checked, or for an origin.

use foldhash::HashMap;
use quiche::h3;

use crate::content::origin::forwarding::PendingForward;
use crate::content::read_pool::CheckTicket;
use crate::h3::priority::Priority;
use crate::h3::request_body::RequestBody;
use crate::http::request::section_bytes;

/// Deferred requests of one connection, by stream. Bounded by the number of requests that a client
/// may have under way.
#[derive(Default)]
pub struct DeferredRequests {
    waiting: HashMap<u64, DeferredRequest>,

    /// Streams whose requests can be handled again.
    ready: Vec<u64>,
}

/// What of a request's content there is when the request is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentStage {
    More,

    /// The end alone is to come.
    Last,

    /// All came while the request waited.
    Complete,
}

/// What a request waits for.
pub enum Awaited {
    Check(#[expect(dead_code, reason = "ends the check when it is dropped")] CheckTicket),
    Origin(PendingForward),
}

/// A request that waits.
pub struct DeferredRequest {
    pub list: Vec<h3::Header>,
    pub priority: Priority,

    /// Dropped with the request.
    pub awaited: Awaited,

    /// Content that ended meanwhile.
    pub ended: Option<RequestBody>,
}

impl DeferredRequests {
    /// Keeps a request.
    pub fn insert(&mut self, stream: u64, request: DeferredRequest) {
        self.waiting.insert(stream, request);
    }

    /// Returns a request that waits.
    pub fn get_mut(&mut self, stream: u64) -> Option<&mut DeferredRequest> {
        self.waiting.get_mut(&stream)
    }

    /// Returns whether a request waits for the check of its password.
    pub fn awaits_check(&self, stream: u64) -> bool {
        let waiting = self.waiting.get(&stream);
        waiting.is_some_and(|request| matches!(request.awaited, Awaited::Check(_)))
    }

    pub fn contains(&self, stream: u64) -> bool {
        self.waiting.contains_key(&stream)
    }

    /// Returns the streams whose requests wait for an origin.
    pub fn awaiting_origin(&self) -> Vec<u64> {
        let waiting = self.waiting.iter();
        let at_origin =
            waiting.filter(|(_, request)| matches!(request.awaited, Awaited::Origin(_)));
        at_origin.map(|(stream, _)| *stream).collect()
    }

    /// Returns the bytes that are kept of the requests.
    pub fn kept_bytes(&self) -> u64 {
        self.waiting.values().map(|request| section_bytes(&request.list) as u64).sum()
    }

    /// Forgets a request. Returns it if it was there.
    pub fn remove(&mut self, stream: u64) -> Option<DeferredRequest> {
        self.waiting.remove(&stream)
    }

    /// Notes that a request need not wait any longer.
    pub fn on_ready(&mut self, stream: u64) {
        self.ready.push(stream);
    }

    /// Takes the streams whose requests can be handled again.
    pub fn take_ready(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.ready)
    }
}
