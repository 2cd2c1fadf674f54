//! Lateness of packets: by how much they leave later than in the model.
//!
//! Owns its distribution, and the judgement whether this machine keeps up with the link. A single
//! late packet says nothing: every machine pauses a program now and then.

use std::time::Duration;

/// Share of packets that may be later than the limit: one in so many.
const ONE_IN: u64 = 100;

/// A relay that wakes up for each packet cannot be expected to be more exact.
const LIMIT_MIN: Duration = Duration::from_millis(1);

/// Part of the RTT by which a packet may be late: about as much later is a download that waits for
/// such packets in each round trip.
const LIMIT_RTT_PART: u32 = 20;

/// Fewest packets of which a part is late, rather than a few.
const RECENT_PACKETS_MIN: u64 = 1_000;

/// Buckets per power of two, as a power of two: figures are at most 1/32 too high.
const STEP_BITS: u32 = 5;
const STEPS: u64 = 1 << STEP_BITS;
const BUCKETS: usize = (64 - STEP_BITS as usize + 1) << STEP_BITS;

/// Returns by how much 1 % of the packets may be late on a path with this RTT.
pub fn limit(rtt: Duration) -> Duration {
    LIMIT_MIN.max(rtt / LIMIT_RTT_PART)
}

/// Distribution of lateness, in microseconds.
#[derive(Clone, Debug)]
pub struct Lateness {
    limit: Duration,
    packets: u64,
    sum: Duration,
    max: Duration,
    /// Packets by their lateness.
    counts: Vec<u64>,
    recent_packets: u64,
    recent_late_packets: u64,
}

impl Lateness {
    /// Creates one of no packets, of which 1 % may be later than `limit`.
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            packets: 0,
            sum: Duration::ZERO,
            max: Duration::ZERO,
            counts: vec![0; BUCKETS],
            recent_packets: 0,
            recent_late_packets: 0,
        }
    }

    /// Adds a packet that leaves `late`.
    pub fn record(&mut self, late: Duration) {
        self.packets += 1;
        self.sum += late;
        self.max = self.max.max(late);
        self.counts[bucket(u64::try_from(late.as_micros()).unwrap_or(u64::MAX))] += 1;
        self.recent_packets += 1;
        self.recent_late_packets += u64::from(late > self.limit);
    }

    /// Returns the limit.
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Returns the mean, zero without packets.
    pub fn mean(&self) -> Duration {
        self.sum.div_f64(self.packets.max(1) as f64)
    }

    /// Returns the largest.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// Returns the 99th percentile: 1 % of the packets are later. Zero if they are too few to tell.
    pub fn p99(&self) -> Duration {
        if self.packets < ONE_IN {
            return Duration::ZERO;
        }
        let within = self.packets - self.packets / ONE_IN;
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= within
        });
        Duration::from_micros(upper_us(found.unwrap_or(0))).min(self.max)
    }

    /// Judges the packets since the last judgement, once they are enough: returns whether more than
    /// 1 % of them were later than the limit.
    pub fn was_over(&mut self) -> bool {
        if self.recent_packets < RECENT_PACKETS_MIN {
            return false;
        }
        let packets = std::mem::take(&mut self.recent_packets);
        std::mem::take(&mut self.recent_late_packets) > packets / ONE_IN
    }
}

/// Returns the bucket of a lateness: exact below 2 * STEPS.
fn bucket(us: u64) -> usize {
    let doublings = us.checked_ilog2().unwrap_or(0).saturating_sub(STEP_BITS);
    (u64::from(doublings) * STEPS + (us >> doublings)) as usize
}

/// Returns the largest lateness of a bucket.
fn upper_us(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let doublings = (bucket / STEPS).saturating_sub(1);
    let first = (bucket - doublings * STEPS) << doublings;
    first + ((1 << doublings) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns the lateness of so many packets each.
    fn lateness(packets: &[(u64, Duration)]) -> Lateness {
        let mut lateness = Lateness::new(2 * MS);
        for (count, late) in packets {
            (0..*count).for_each(|_| lateness.record(*late));
        }
        lateness
    }

    #[test]
    fn limit_is_part_of_the_rtt_but_no_less_than_one_ms() {
        assert_eq!(
            [0, 20, 50, 600].map(|rtt_ms| limit(rtt_ms * MS)),
            [MS, MS, MS * 5 / 2, 30 * MS]
        );
    }

    #[test]
    fn every_lateness_has_its_bucket() {
        for us in (0..5_000).chain([1 << 20, (1 << 40) + 12_345, u64::MAX]) {
            let upper = upper_us(bucket(us));
            assert!(us <= upper && upper - us <= us >> STEP_BITS, "{us} {upper}");
        }
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn percentile_leaves_one_in_a_hundred() {
        assert_eq!((lateness(&[]).p99(), lateness(&[]).mean()), (Duration::ZERO, Duration::ZERO));
        let some = lateness(&[(990, MS / 20), (10, 7 * MS)]);
        assert_eq!((some.p99(), some.max()), (MS / 20, 7 * MS));
        assert_eq!(some.mean(), MS * 119_500 / 1_000_000);
        let more = lateness(&[(989, MS / 20), (11, 7 * MS)]);
        assert_eq!(more.p99(), 7 * MS);
        assert_eq!(
            (lateness(&[(99, MS)]).p99(), lateness(&[(100, MS)]).p99()),
            (Duration::ZERO, MS)
        );
    }

    #[test]
    fn recent_packets_are_judged_once_if_enough() {
        let mut late = lateness(&[(999, 3 * MS)]);
        assert!(!late.was_over());
        late.record(MS);
        assert!(late.was_over() && !late.was_over());
        (0..1_000).for_each(|_| late.record(2 * MS));
        assert!(!late.was_over());
        let mut fine = lateness(&[(990, MS), (10, 3 * MS)]);
        assert!(!fine.was_over());
    }
}
