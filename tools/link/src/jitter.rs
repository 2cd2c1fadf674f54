//! Jitter: a random delay of each packet, drawn from a seed.

use crate::schedule::ns;
use rand_pcg::rand_core::Rng;
use rand_pcg::rand_core::SeedableRng;
use rand_pcg::Pcg64;
use std::time::Duration;

/// Keeps the draws apart from those of the random loss, which has the same
/// seed.
const STREAM: u64 = 0x006a_6974_7465_7200;

/// Draws an extra delay, equally likely from 0 to its maximum. One draw is
/// made for every packet, whatever else happens to it.
#[derive(Clone, Debug)]
pub(crate) struct Jitter {
    rng: Pcg64,
    max_ns: u64,
}

impl Jitter {
    pub fn new(max: Duration, seed: u64) -> Self {
        Self { rng: Pcg64::seed_from_u64(seed ^ STREAM), max_ns: ns(max) }
    }

    /// Returns by how much the next packet is delayed.
    pub fn draw_ns(&mut self) -> u64 {
        if self.max_ns == 0 {
            return 0;
        }
        let values = u128::from(self.max_ns) + 1;
        // The share of 2^64 that was drawn, of all the values there are.
        ((u128::from(self.rng.next_u64()) * values) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws_ns(max_ns: u64, seed: u64, count: usize) -> Vec<u64> {
        let mut jitter = Jitter::new(Duration::from_nanos(max_ns), seed);
        (0..count).map(|_| jitter.draw_ns()).collect()
    }

    #[test]
    fn jitter_of_a_seed_never_changes() {
        // Recorded results must stay reproducible: a change of generator shows.
        assert_eq!(draws_ns(1_000_000, 1, 4), [431_509, 920_190, 232_443, 895_380]);
        assert_ne!(draws_ns(1_000_000, 1, 4), draws_ns(1_000_000, 2, 4));
    }

    #[test]
    fn jitter_is_uniform_up_to_its_maximum() {
        let mut counts = [0; 5];
        for drawn_ns in draws_ns(4, 7, 100_000) {
            counts[drawn_ns as usize] += 1;
        }
        assert!(counts.iter().all(|count| (19_500..20_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn jitter_stays_within_its_range() {
        assert_eq!(draws_ns(0, 7, 3), [0, 0, 0]);
        assert_eq!(draws_ns(u64::MAX, 7, 100).len(), 100);
    }
}
