//! Room on a path after slow start has ended at a queue: others made it, and have
//! left.

use std::time::Instant;

use super::doubling::least_queue;
use super::Ack;
use super::Path;

/// Watches, after slow start has ended at a queue, for a round trip without any.
/// A window that made the queue by itself keeps it.
#[derive(Debug, Default)]
pub(crate) struct Room {
    path: Path,
    empty_since: Option<Instant>,
}

impl Room {
    /// Whether the path has had room for a round trip. What a sender that has
    /// nothing to send sees is no room.
    pub(crate) fn on_ack(&mut self, ack: &Ack, app_limited: bool) -> bool {
        self.path.on_ack(ack);
        let excess = self.path.excess(ack);
        let is_empty = excess.is_some_and(|excess| excess < least_queue(ack));

        if app_limited || !is_empty {
            self.empty_since = None;
            return false;
        }
        let since = *self.empty_since.get_or_insert(ack.now);
        ack.now.saturating_duration_since(since) >= ack.min_rtt
    }
}
