//! CoDel (RFC 8289), decided when a packet arrives rather than when it leaves.
//!
//! Owns the control law: which packets of a queue are dropped, or marked if they are
//! ECN-capable, because it stays longer than a target. CoDel decides at the head of the queue, from the time
//! that a packet has waited there. In a first-in, first-out queue in front of a
//! known rate, both the time when a packet gets to the head and all that
//! happens before it follow from the packets in front, so the decision is known
//! when the packet comes, and is the same. Until it gets to the head, a packet
//! that will be dropped takes up its place in the buffer, as it would there.
//!
//! One rule depends on the packets behind: CoDel drops no packet that leaves at
//! most one packet (MTU) waiting. Those are not known yet. This one drops no packet
//! that finds at most one MTU waiting when it arrives. Over a queue's life
//! as many packets find a length as leave it behind, so a queue that lasts is
//! treated alike. What differs: the last two packets of a burst, or so, which
//! a real CoDel always spares, may be dropped here. On a link too slow to send
//! an MTU within the target, both spare a queue of one packet.

use crate::decision::Decision;
use crate::decision::Head;

const TARGET_NS: u64 = 5_000_000;
const INTERVAL_NS: u64 = 100_000_000;

/// Time after the end of dropping in which it starts again at its last rate.
const MEMORY_NS: u64 = 16 * INTERVAL_NS;

/// State of one queue after the last packet.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoDel {
    /// Time at which the wait will have been above the target for an interval; `None`
    /// while it is below.
    too_long_at_ns: Option<u64>,
    dropping: bool,
    /// Time of the next drop, or of the last one that was planned.
    drop_next_ns: u64,
    /// Packets dropped since dropping began, more or less; the rate of
    /// dropping grows with its root.
    count: u32,
    /// Initial value of `count`.
    first_count: u32,
    /// Whether the last packet was dropped in passing, and the time of the
    /// next drop depends on the packet after it.
    just_dropped: bool,
}

impl CoDel {
    /// Decides about the packet that gets to the head of the queue. One that found a short
    /// queue is spared.
    pub fn decide(&mut self, head: Head) -> Decision {
        if !self.is_due(head) {
            return Decision::Send;
        }
        if !head.capable {
            return Decision::Drop;
        }
        if std::mem::take(&mut self.just_dropped) {
            // A marked packet leaves, so that no further one gets to the head now.
            self.drop_next_ns = self.after(self.drop_next_ns);
        }
        Decision::Mark
    }

    /// Returns whether it is time to drop or mark a packet.
    fn is_due(&mut self, head: Head) -> bool {
        let now_ns = head.now_ns;
        let just_dropped = std::mem::take(&mut self.just_dropped);
        if !self.is_too_long(head) {
            self.dropping = false;
            return false;
        }
        if !self.dropping {
            self.start_dropping(now_ns);
            return true;
        }
        if just_dropped {
            self.drop_next_ns = self.after(self.drop_next_ns);
        }
        if now_ns < self.drop_next_ns {
            return false;
        }
        self.count = self.count.saturating_add(1);
        self.just_dropped = true;
        true
    }

    /// Returns whether the wait has been above the target (RFC 8289, 5.6) for at least
    /// an interval.
    fn is_too_long(&mut self, Head { now_ns, waited_ns, short_queue, .. }: Head) -> bool {
        if waited_ns < TARGET_NS || short_queue {
            self.too_long_at_ns = None;
            return false;
        }
        now_ns >= *self.too_long_at_ns.get_or_insert(now_ns.saturating_add(INTERVAL_NS))
    }

    /// Starts dropping (RFC 8289, 5.5): soon after the last time, at the rate that worked then.
    fn start_dropping(&mut self, now_ns: u64) {
        let grown = self.count - self.first_count;
        let recent = now_ns.saturating_sub(self.drop_next_ns) < MEMORY_NS;
        self.count = if grown > 1 && recent { grown } else { 1 };
        self.first_count = self.count;
        self.drop_next_ns = self.after(now_ns);
        self.dropping = true;
    }

    /// Returns the time of the next drop after one at `time_ns` (RFC 8289, 5.6): the time between
    /// drops falls with the root of their count.
    fn after(&self, time_ns: u64) -> u64 {
        let gap_ns = INTERVAL_NS as f64 / f64::from(self.count).sqrt();
        time_ns.saturating_add(gap_ns as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    fn head(now_ms: u64, waited_ms: u64) -> Head {
        Head {
            now_ns: now_ms * 1_000_000,
            waited_ns: waited_ms * 1_000_000,
            short_queue: false,
            capable: false,
        }
    }

    /// Has a packet get to the head every ms, and the next one in place of
    /// each that is dropped. Tells when packets are dropped.
    fn drops_ms(codel: &mut CoDel, times_ms: Range<u64>, waited_ms: u64, spared: bool) -> Vec<u64> {
        let mut drops_ms = Vec::new();
        for now_ms in times_ms {
            let head = Head { short_queue: spared, ..head(now_ms, waited_ms) };
            while codel.decide(head) == Decision::Drop {
                drops_ms.push(now_ms);
            }
        }
        drops_ms
    }

    /// Has an ECN-capable packet get to the head every ms. Tells when packets are marked.
    fn marks_ms(codel: &mut CoDel, times_ms: Range<u64>, waited_ms: u64) -> Vec<u64> {
        let capable = |now_ms| Head { capable: true, ..head(now_ms, waited_ms) };
        times_ms.filter(|now_ms| codel.decide(capable(*now_ms)) == Decision::Mark).collect()
    }

    #[test]
    fn standing_queue_is_dropped_at_growing_rate() {
        let mut codel = CoDel::default();
        // 100 ms, and 100 ms over the root of 1, 2, 3… after each other.
        let expected = [100, 200, 271, 329, 379, 424, 464, 502, 538, 571];
        assert_eq!(drops_ms(&mut codel, 0..600, 10, false), expected);
    }

    #[test]
    fn short_wait_or_queue_is_not_dropped() {
        assert_eq!(drops_ms(&mut CoDel::default(), 0..1_000, 4, false), []);
        assert_eq!(drops_ms(&mut CoDel::default(), 0..1_000, 50, true), []);
    }

    #[test]
    fn short_wait_restarts_the_interval() {
        for spared in [false, true] {
            let mut codel = CoDel::default();
            assert_eq!(drops_ms(&mut codel, 0..99, 5, false), []);
            assert_eq!(drops_ms(&mut codel, 99..100, if spared { 5 } else { 4 }, spared), []);
            assert_eq!(drops_ms(&mut codel, 100..201, 5, false), [200]);
        }
    }

    #[test]
    fn returning_queue_resumes_the_drop_rate() {
        let mut codel = CoDel::default();
        assert_eq!(drops_ms(&mut codel, 0..480, 10, false).len(), 7);
        drops_ms(&mut codel, 480..490, 0, false);
        // Seven drops, less the one it began with: 100 ms over the root of 6.
        assert_eq!(drops_ms(&mut codel, 490..670, 10, false), [590, 631, 669]);
        drops_ms(&mut codel, 670..671, 0, false);
        // Two further drops, then long after.
        assert_eq!(drops_ms(&mut codel, 3_000..3_290, 10, false), [3_100, 3_200, 3_271]);
    }

    #[test]
    fn standing_queue_is_marked_at_the_same_growing_rate() {
        let expected = [100, 200, 271, 329, 379, 424, 464, 502, 538, 571];
        assert_eq!(marks_ms(&mut CoDel::default(), 0..600, 10), expected);
        assert_eq!(marks_ms(&mut CoDel::default(), 0..1_000, 4), []);
    }

    /// A marked packet leaves, so that the next one is decided about when that has left.
    #[test]
    fn late_marks_are_made_one_packet_at_a_time() {
        let mut codel = CoDel::default();
        assert_eq!(marks_ms(&mut codel, 0..101, 10), [100]);
        assert_eq!(marks_ms(&mut codel, 400..420, 400), [400, 401, 402, 403]);
    }

    #[test]
    fn long_queue_may_lose_consecutive_packets() {
        let mut codel = CoDel::default();
        assert_eq!(drops_ms(&mut codel, 0..101, 10, false), [100]);
        // No packet reached the head meanwhile.
        let late = drops_ms(&mut codel, 400..401, 400, false);
        assert_eq!(late, [400; 4]);
    }
}
