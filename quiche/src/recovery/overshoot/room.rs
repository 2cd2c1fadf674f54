//! Room on a path after slow start has ended at a queue that the window did not
//! make: others did, and have left, or the RTT had risen by itself.

use std::time::Duration;
use std::time::Instant;

use super::doubling::least_queue;
use super::AckSample;
use super::PathHistory;

/// Within so many minimum RTTs of the end, a queue that is gone, if for a moment
/// only, was none: the RTTs of satellite and radio links swing that fast.
const SWING_RTTS: u32 = 8;

/// An RTT that has swung back exceeds the minimum by this part of it at most. A
/// queue whose bottleneck has become faster rarely is as short.
const BACK_DIVISOR: u32 = 48;

/// What the queue was that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// Packets of others, who have left.
    Others,

    /// None: the RTT exceeds the minimum by so much by itself, at times.
    Variation(Duration),
}

/// Watches, after slow start has ended at a queue, whether that goes. A window
/// that made the queue by itself keeps it.
#[derive(Debug, Default)]
pub(crate) struct Room {
    path: PathHistory,
    since: Option<Instant>,
    empty_since: Option<Instant>,
    /// The largest excess of the RTTs since.
    excess_max: Duration,
    /// The path's capacity was known, which a jump has used.
    is_known: bool,
}

impl Room {
    pub(crate) fn new(is_known: bool) -> Self {
        Room {
            is_known,
            ..Default::default()
        }
    }

    /// What the queue was, when the path has room. What a sender that has
    /// nothing to send sees is no room.
    pub(crate) fn on_ack(
        &mut self, ack: &AckSample, app_limited: bool,
    ) -> Option<Gone> {
        self.path.on_ack(ack);
        let since = *self.since.get_or_insert(ack.now);
        let excess = self.path.excess(ack)?;

        if app_limited || excess >= least_queue(ack) {
            self.empty_since = None;
            self.excess_max = self.excess_max.max(excess);
            return None;
        }
        let elapsed = ack.now.saturating_duration_since(since);

        let is_soon = elapsed <= ack.min_rtt * SWING_RTTS;
        let is_back = excess <= ack.min_rtt / BACK_DIVISOR;

        if !self.is_known && is_soon && is_back {
            return Some(Gone::Variation(self.excess_max));
        }
        let empty_since = *self.empty_since.get_or_insert(ack.now);
        let empty = ack.now.saturating_duration_since(empty_since);
        (empty >= ack.min_rtt).then_some(Gone::Others)
    }
}
