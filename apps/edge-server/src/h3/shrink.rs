//! Memory of an HTTP/3 session on an idle connection.

use crate::h3::Session;

quiche::stand_ins!();

impl Session {
    /// Frees unused memory.
    pub fn shrink_to_fit(&mut self) {
        self.h3.shrink_to_fit();
        self.responses.shrink_to_fit();
        self.request_bodies.shrink_to_fit();
        self.exchanges.shrink_to_fit();
    }
}
