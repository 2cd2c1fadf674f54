//! Gives memory back on a connection that is at rest.
//!
//! Queues and tables keep the room of the busiest moment that a connection has had.
//! Most connections of a server are idle most of the time, and what they were ready
//! for is more than what they are.

use crate::*;

impl<F: BufFactory> Connection<F> {
    /// Gives memory back that nothing is in. What comes next takes some of it again:
    /// this is for a connection on which nothing has happened for a while.
    pub fn shrink_to_fit(&mut self) {
        self.streams.shrink_to_fit();

        for (_, path) in self.paths.iter_mut() {
            path.recovery.shrink_to_fit();
        }
    }
}
