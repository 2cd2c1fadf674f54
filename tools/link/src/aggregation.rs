//! Aggregation: a medium that lets packets through in bunches, at grants of equal distance.
//!
//! Owns when the grants come. Wi-Fi stations wait for the medium and send what has gathered as one
//! aggregate; schedulers of mobile networks grant each terminal its turns.

use crate::schedule::ns;
use rand_pcg::rand_core::Rng;
use rand_pcg::rand_core::SeedableRng;
use rand_pcg::Pcg64;
use std::time::Duration;

/// Keeps the draw apart from those of losses and jitter, which have the same seed.
const STREAM: u64 = 0x6167_6772_6567_6174;

/// The grants: one in each period, from a phase that is drawn from the seed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aggregation {
    period_ns: u64,
    phase_ns: u64,
}

impl Aggregation {
    /// Creates grants. Without a period, every packet passes at once.
    pub fn new(period: Duration, seed: u64) -> Self {
        let period_ns = ns(period);
        let drawn = Pcg64::seed_from_u64(seed ^ STREAM).next_u64();
        // The share of 2^64 that was drawn, of a period.
        let phase_ns = ((u128::from(drawn) * u128::from(period_ns)) >> 64) as u64;
        Self { period_ns, phase_ns }
    }

    /// Returns the first grant at `now_ns` or later.
    pub fn next_grant_ns(self, now_ns: u64) -> u64 {
        if self.period_ns == 0 {
            return now_ns;
        }
        let periods = now_ns.saturating_sub(self.phase_ns).div_ceil(self.period_ns);
        self.phase_ns.saturating_add(periods.saturating_mul(self.period_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(period_ns: u64, seed: u64) -> Aggregation {
        Aggregation::new(Duration::from_nanos(period_ns), seed)
    }

    #[test]
    fn grants_come_once_in_each_period() {
        let grants = Aggregation { period_ns: 100, phase_ns: 30 };
        let next = [0, 30, 31, 130, 131, 1_000].map(|now_ns| grants.next_grant_ns(now_ns));
        assert_eq!(next, [30, 30, 130, 130, 230, 1_030]);
    }

    #[test]
    fn phase_of_a_seed_never_changes() {
        // Recorded results must stay reproducible: a change of generator shows.
        assert_eq!(grants(1_000_000, 1).phase_ns, 966_072);
        let mut counts = [0; 4];
        for seed in 0..4_000 {
            counts[grants(4, seed).phase_ns as usize] += 1;
        }
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
    }

    #[test]
    fn no_period_lets_every_packet_pass() {
        assert_eq!(
            [0, 7, u64::MAX].map(|now_ns| grants(0, 1).next_grant_ns(now_ns)),
            [0, 7, u64::MAX]
        );
        assert_eq!(grants(u64::MAX, 1).next_grant_ns(u64::MAX), u64::MAX);
    }
}
