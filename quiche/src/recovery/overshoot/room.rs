//! Slow start continued after an exit: the queue was not this flow's, or the
//! RTT had varied.

use std::time::Duration;
use std::time::Instant;

use super::doubling::least_queue;
use super::AckSample;
use super::PathHistory;

/// Minimum RTTs after the end within which a queue that goes, if only for a
/// moment, was none: the RTTs of satellite and radio links swing that fast.
const SWING_RTTS: u32 = 8;

/// The largest excess, as a part of the minimum RTT, of an RTT that has swung
/// back. A queue whose bottleneck has become faster is rarely so short.
const BACK_DIVISOR: u32 = 48;

/// What made the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// Packets of other flows, which have left.
    Others,

    /// No queue: at times the RTT exceeds the minimum by this by itself.
    Variation(Duration),
}

/// Watch, after slow start has ended at a queue, for its end. A queue that the
/// window itself made stays.
#[derive(Debug, Default)]
pub(crate) struct Room {
    path: PathHistory,
    since: Option<Instant>,
    empty_since: Option<Instant>,
    /// The largest excess since the end of slow start.
    excess_max: Duration,
    /// A jump has used the known capacity of the path.
    is_known: bool,
}

impl Room {
    pub(crate) fn new(is_known: bool) -> Self {
        Room {
            is_known,
            ..Default::default()
        }
    }

    /// Returns what the queue was, once the path has room. A sender that the
    /// application limits sees no room.
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
