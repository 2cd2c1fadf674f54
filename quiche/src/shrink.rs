//! Memory of an idle connection, which it releases.
//!
//! Queues and tables keep the capacity of a connection's busiest moment, which
//! is most of its memory. Most connections of a server are idle most of the
//! time.

use crate::*;

impl<F: BufFactory> Connection<F> {
    /// Releases unused memory. The next packets allocate some of it again: call
    /// it on a connection that has been idle for a while.
    pub fn shrink_to_fit(&mut self) {
        self.streams.shrink_to_fit();

        for (_, path) in self.paths.iter_mut() {
            path.recovery.shrink_to_fit();
        }
    }
}
