//! Memory of an HTTP/3 session on an idle connection.

use quiche::hooks;

use crate::h3::Session;

impl Session {
    /// Frees unused memory.
    pub fn shrink_to_fit(&mut self) {
        hooks::shrink_http_to_fit(&mut self.h3);
        self.responses.shrink_to_fit();
        self.request_bodies.shrink_to_fit();
        self.exchanges.shrink_to_fit();
    }
}
