//! Gives memory of HTTP/3 back on a connection that is at rest.

use quiche::hooks;

use crate::h3::Session;

impl Session {
    /// Gives memory back that nothing is in.
    pub fn shrink_to_fit(&mut self) {
        hooks::shrink_http_to_fit(&mut self.h3);
        self.responses.shrink_to_fit();
        self.request_bodies.shrink_to_fit();
        self.exchanges.shrink_to_fit();
    }
}
