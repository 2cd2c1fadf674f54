//! Gives memory of HTTP/3 back on a connection that is at rest.

use super::*;

impl Connection {
    /// Gives memory back that nothing is in, as
    /// [`shrink_to_fit()`](super::super::Connection::shrink_to_fit) does for the transport.
    pub fn shrink_to_fit(&mut self) {
        self.streams.shrink_to_fit();
    }
}
