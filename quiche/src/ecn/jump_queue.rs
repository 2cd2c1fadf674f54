//! The queue that a jump leaves in front of a bottleneck that marks.
//!
//! The safe retreat answers its marks, also those on packets that were sent
//! since and stood behind the jump: to answer these, too, would end slow start
//! at a window far below what the path has carried. Congestion is answered once
//! in a recovery period (RFC 9002, 7.3.2); that of a retreat lasts until what
//! was sent before it is acknowledged.

use std::time::Instant;

#[derive(Debug, Default)]
pub(super) struct JumpQueue {
    /// When the last mark came on a packet that was sent before the retreat.
    seen: Option<Instant>,
}

impl JumpQueue {
    /// Returns whether this queue has marked a packet, by its number and when it
    /// was sent. `last_before` is the number of the last one before the retreat.
    pub(super) fn has_marked(
        &mut self, (pkt_num, time_sent): (u64, Instant), last_before: u64,
        now: Instant,
    ) -> bool {
        if pkt_num <= last_before {
            self.seen = Some(now);
        }
        self.seen.is_some_and(|seen| time_sent <= seen)
    }
}
