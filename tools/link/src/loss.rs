//! Random loss, drawn from a seed.

use crate::schedule::Timeline;
use rand_pcg::rand_core::Rng;
use rand_pcg::rand_core::SeedableRng;
use rand_pcg::Pcg64;

/// Loses each packet with the same probability. One draw is made for every
/// packet, whatever else happens to it: which packets are lost depends on the
/// seed and the packet's place in the order, and on nothing else.
#[derive(Clone, Debug)]
pub(crate) struct RandomLoss {
    rng: Pcg64,
    probability: Timeline<f64>,
}

impl RandomLoss {
    pub fn new(probability: Timeline<f64>, seed: u64) -> Self {
        Self { rng: Pcg64::seed_from_u64(seed), probability }
    }

    /// Returns whether the next packet, which is offered at `now_ns`, is lost.
    pub fn draw(&mut self, now_ns: u64) -> bool {
        // 53 random bits make every multiple of 2^-53 below 1 equally likely.
        let uniform = (self.rng.next_u64() >> 11) as f64 * (-53_f64).exp2();
        uniform < self.probability.at(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constant(probability: f64, seed: u64) -> RandomLoss {
        RandomLoss::new(Timeline::new(probability, &[], None, |change| change.loss), seed)
    }

    fn lost(probability: f64, seed: u64) -> Vec<usize> {
        let mut loss = constant(probability, seed);
        (1..=200).filter(|_| loss.draw(0)).collect()
    }

    #[test]
    fn losses_of_a_seed_never_change() {
        // Recorded results must stay reproducible: a change of generator shows.
        assert_eq!(lost(0.05, 1), [2, 11, 50, 62, 79, 131, 159, 176]);
        assert_ne!(lost(0.05, 1), lost(0.05, 2));
    }

    #[test]
    fn loss_of_0_or_1_is_never_or_always() {
        assert!(lost(0.0, 7).is_empty());
        assert_eq!(lost(1.0, 7).len(), 200);
    }

    #[test]
    fn loss_share_is_the_probability() {
        let mut loss = constant(0.02, 3);
        let lost = (0..1_000_000).filter(|_| loss.draw(0)).count();
        assert!((19_500..20_500).contains(&lost), "{lost}");
    }
}
