//! Transmitter of a link: one packet after the other, at the link's rate.
//!
//! It knows only when it is free again. It keeps the fraction of
//! a nanosecond that a division leaves over, so that a busy link carries
//! exactly its rate however long it runs. A rate changes at a whole nanosecond,
//! by when a whole number of bits / 1e9 has been sent: that is exact, too.

use crate::rate::Rate;
use crate::schedule::Timeline;

const NS_PER_S: u128 = 1_000_000_000;

/// The sending end of a link: one packet at a time, back to back.
#[derive(Clone, Debug)]
pub(crate) struct Transmitter {
    /// Asked about the time when the transmitter is free again.
    rate: Timeline<Rate>,
    /// Time at which the last bit of the last packet leaves: whole nanoseconds, and
    /// what is left over in units of 1 / the rate at that time nanoseconds.
    free_at_ns: u64,
    free_at_fraction: u64,
}

impl Transmitter {
    pub fn new(rate: Timeline<Rate>) -> Self {
        Self { rate, free_at_ns: 0, free_at_fraction: 0 }
    }

    /// Returns whether a packet that comes at `now_ns` starts at once.
    pub fn is_free(&self, now_ns: u64) -> bool {
        self.free_at_rounded_up_ns() <= now_ns
    }

    /// Returns when a packet that comes at `now_ns` starts, in whole nanoseconds,
    /// rounded up.
    pub fn first_bit_ns(&self, now_ns: u64) -> u64 {
        self.free_at_rounded_up_ns().max(now_ns)
    }

    /// Sends a packet as soon as the transmitter is free, at `now_ns` at the
    /// earliest. Tells when its last bit leaves, in whole nanoseconds, rounded
    /// up.
    pub fn send(&mut self, now_ns: u64, size_bytes: u32) -> u64 {
        if self.is_free(now_ns) {
            self.free_at_ns = now_ns;
            self.free_at_fraction = 0;
        }
        self.carry(u128::from(size_bytes) * 8 * NS_PER_S);
        self.free_at_rounded_up_ns()
    }

    /// Adds `work` bits / 1e9. A nanosecond does as many of them
    /// as the rate is bits per second.
    fn carry(&mut self, mut work: u128) {
        loop {
            let bits_per_s = self.rate.at(self.free_at_ns).bits_per_s();
            if bits_per_s == 0 {
                // An outage, which ends: a link refuses one that does not.
                self.free_at_ns = self.rate.next_change_ns().unwrap_or(u64::MAX);
                self.free_at_fraction = 0;
                if self.free_at_ns == u64::MAX {
                    return;
                }
                continue;
            }
            // From the start of the nanosecond.
            work += u128::from(self.free_at_fraction);
            let (whole_ns, fraction) = divide(work, bits_per_s);
            let done_ns = self.free_at_ns.saturating_add(whole_ns);
            match self.rate.next_change_ns() {
                Some(change_ns) if done_ns >= change_ns => {
                    // What is left of the work, possibly nothing, takes what
                    // the next rate makes of it.
                    work -= u128::from(change_ns - self.free_at_ns) * u128::from(bits_per_s);
                    self.free_at_ns = change_ns;
                    self.free_at_fraction = 0;
                }
                _ => {
                    self.free_at_ns = done_ns;
                    self.free_at_fraction = fraction;
                    return;
                }
            }
        }
    }

    fn free_at_rounded_up_ns(&self) -> u64 {
        self.free_at_ns.saturating_add(u64::from(self.free_at_fraction > 0))
    }
}

/// Returns quotient and remainder. Packets of up to 2 GiB need no 128-bit division,
/// which is slow.
fn divide(work: u128, bits_per_s: u64) -> (u64, u64) {
    if let Ok(work) = u64::try_from(work) {
        return (work / bits_per_s, work % bits_per_s);
    }
    let divisor = u128::from(bits_per_s);
    // A remainder is smaller than its divisor, which came from a u64.
    (u64::try_from(work / divisor).unwrap_or(u64::MAX), (work % divisor) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Change;
    use std::time::Duration;

    fn transmitter(bits_per_s: u64) -> Transmitter {
        changing(&[(0, bits_per_s)])
    }

    /// Returns a transmitter whose rate changes at these times.
    fn changing(rates: &[(u64, u64)]) -> Transmitter {
        let rate = |bits_per_s| Rate::from_bits_per_s(bits_per_s).unwrap_or(Rate::ZERO);
        let change = |&(at_ns, bits_per_s)| Change {
            at: Duration::from_nanos(at_ns),
            rate: Some(rate(bits_per_s)),
            ..Change::default()
        };
        let changes: Vec<Change> = rates[1..].iter().map(change).collect();
        Transmitter::new(Timeline::new(rate(rates[0].1), &changes, None, |change| change.rate))
    }

    #[test]
    fn packet_takes_its_bits_over_the_rate() {
        let mut tx = transmitter(8_000_000);
        assert_eq!((tx.first_bit_ns(5_000), tx.send(5_000, 1_000)), (5_000, 1_005_000));
        assert_eq!((tx.first_bit_ns(6_000), tx.send(6_000, 500)), (1_005_000, 1_505_000));
    }

    #[test]
    fn fractions_of_a_nanosecond_do_not_accumulate() {
        // 7 Mbit/s: 1,000 bytes take 1,142,857 1/7 ns. A million packets take
        // 8e9 / 7e6 seconds, rounded up once and not a million times.
        let mut tx = transmitter(7_000_000);
        let last = (0..1_000_000).map(|_| tx.send(0, 1_000)).last();
        assert_eq!(last, Some(1_142_857_142_858));
    }

    #[test]
    fn idle_link_saves_no_credit() {
        let mut tx = transmitter(8_000_000);
        tx.send(0, 1_000);
        assert_eq!(tx.send(9_000_000, 1_000), 10_000_000);
    }

    #[test]
    fn packet_on_the_wire_continues_at_the_new_rate() {
        // A quarter of it at 8 Mbit/s, a quarter at 4, the rest at 16.
        let mut tx = changing(&[(0, 8_000_000), (250_000, 4_000_000), (750_000, 16_000_000)]);
        assert_eq!(tx.send(0, 1_000), 1_000_000);
        assert_eq!(tx.send(0, 1_000), 1_500_000);
    }

    #[test]
    fn packet_waits_for_the_end_of_an_outage() {
        let mut tx = changing(&[(0, 8_000_000), (250_000, 0), (700_000, 0), (900_000, 8_000_000)]);
        // A quarter of it before the outage, the rest after it.
        assert_eq!(tx.send(0, 1_000), 1_650_000);
        let mut idle = changing(&[(0, 8_000_000), (250_000, 0), (900_000, 8_000_000)]);
        assert_eq!(idle.send(500_000, 1_000), 1_900_000);
    }

    #[test]
    fn rate_change_between_packets_loses_no_time() {
        let mut tx = changing(&[(0, 8_000_000), (1_000_000, 4_000_000), (5_000_000, 8_000_000)]);
        assert_eq!(tx.send(0, 1_000), 1_000_000);
        assert_eq!(tx.send(0, 1_000), 3_000_000);
        assert_eq!(tx.send(6_000_000, 1_000), 7_000_000);
    }

    #[test]
    fn fractions_survive_a_rate_change() {
        // At 7 Mbit/s 142,857 1/7 ns a packet of 125 bytes; after 1 ms, 7,000
        // bits are sent, and of the eighth packet the last bit at 3 Mbit/s.
        let mut tx = changing(&[(0, 7_000_000), (1_000_000, 3_000_000)]);
        let left: Vec<u64> = (0..8).map(|_| tx.send(0, 125)).collect();
        assert_eq!((left[0], left[6], left[7]), (142_858, 1_000_000, 1_333_334));
    }

    #[test]
    fn longest_packet_takes_its_time_too() {
        assert_eq!(transmitter(1_000).send(0, u32::MAX), 34_359_738_360_000_000);
        let two_gib = (1 << 31) * 8;
        assert_eq!(transmitter(1_000).send(0, 1 << 31), two_gib * 1_000_000);
    }
}
