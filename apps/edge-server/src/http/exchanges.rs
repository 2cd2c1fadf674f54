//! What is under way on a connection: each exchange lasts from its request until the
//! client has acknowledged the whole response, or either side has given it up.

use std::collections::HashSet;

use crate::transport::Quic;

/// Exchanges that are not over, by their streams. Bounded by the number of requests
/// that a client may have under way.
#[derive(Default)]
pub struct Exchanges {
    under_way: HashSet<u64>,

    /// Those whose responses the transport has taken whole.
    written: Vec<u64>,
}

impl Exchanges {
    /// A request has come.
    pub fn begin(&mut self, stream: u64) {
        self.under_way.insert(stream);
    }

    /// The transport has all of its response.
    pub fn on_written(&mut self, stream: u64) {
        if self.under_way.contains(&stream) {
            self.written.push(stream);
        }
    }

    /// It has been given up.
    pub fn on_abort(&mut self, stream: u64) {
        self.under_way.remove(&stream);
        self.written.retain(|written| *written != stream);
    }

    /// Ends those that the client has acknowledged: the transport knows nothing of
    /// their streams any more.
    pub fn settle(&mut self, quic: &mut Quic) {
        self.written.retain(|stream| {
            let is_known = quic.stream_capacity(*stream).is_ok();
            if !is_known {
                self.under_way.remove(stream);
            }
            is_known
        });
    }

    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }
}
