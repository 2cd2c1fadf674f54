//! Memory of HTTP/3, which an idle connection releases.

use super::*;

impl Connection {
    /// Releases unused memory, as
    /// [`shrink_to_fit()`](super::super::Connection::shrink_to_fit) does for
    /// the transport.
    pub fn shrink_to_fit(&mut self) {
        self.streams.shrink_to_fit();
    }
}
