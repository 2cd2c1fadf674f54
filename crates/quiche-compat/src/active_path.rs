//! Active path of a connection.

use fork::BufFactory;
use fork::Connection;
use fork::PathStats;

/// Finds the path that a connection uses, among those that it knows.
pub trait ActivePath {
    /// Returns the statistics of the path on which packets are sent.
    fn active_path(&self) -> Option<PathStats>;
}

impl<F: BufFactory> ActivePath for Connection<F> {
    fn active_path(&self) -> Option<PathStats> {
        self.path_stats().find(|path| path.active)
    }
}
