//! Bursty loss: the Gilbert-Elliott model, drawn from a seed.

use crate::error::ConfigError;
use rand_pcg::rand_core::Rng;
use rand_pcg::rand_core::SeedableRng;
use rand_pcg::Pcg64;

/// Keeps the draws apart from those of the random loss, which has the same seed.
const STREAM: u64 = 0x6275_7273_7400_0000;

/// A channel with a good and a bad state (Gilbert 1960, Elliott 1963), which may change before each
/// packet. In the good state packets are lost with [`LinkConfig::loss`](crate::LinkConfig::loss).
///
/// The share of packets in the bad state is `enter / (enter + leave)`, and a bad state lasts for
/// `1 / leave` packets on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BurstLoss {
    /// Probability of a change from good to bad.
    pub enter: f64,
    /// Probability of a change from bad to good.
    pub leave: f64,
    /// Probability that a packet is lost in the bad state.
    pub loss: f64,
}

impl BurstLoss {
    pub(crate) fn validate(self) -> Result<(), ConfigError> {
        let Self { enter, leave, loss } = self;
        let valid = [enter, leave, loss].iter().all(|share| (0.0..=1.0).contains(share));
        if valid && leave > 0.0 {
            Ok(())
        } else {
            Err(ConfigError::BurstLoss)
        }
    }
}

/// State of the channel. Two draws are made for every packet, whatever else happens to it.
#[derive(Clone, Debug)]
pub(crate) struct GilbertElliott {
    rng: Pcg64,
    burst: BurstLoss,
    is_bad: bool,
}

impl GilbertElliott {
    pub fn new(burst: BurstLoss, seed: u64) -> Self {
        Self { rng: Pcg64::seed_from_u64(seed ^ STREAM), burst, is_bad: false }
    }

    /// Returns whether the next packet is lost because the state is bad.
    pub fn draw(&mut self) -> bool {
        let (change, loss) = (self.uniform(), self.uniform());
        self.is_bad =
            if self.is_bad { change >= self.burst.leave } else { change < self.burst.enter };
        self.is_bad && loss < self.burst.loss
    }

    fn uniform(&mut self) -> f64 {
        // 53 random bits make every multiple of 2^-53 below 1 equally likely.
        (self.rng.next_u64() >> 11) as f64 * (-53_f64).exp2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKETS: usize = 1_000_000;

    fn losses(enter: f64, leave: f64, loss: f64, seed: u64) -> Vec<bool> {
        let mut channel = GilbertElliott::new(BurstLoss { enter, leave, loss }, seed);
        (0..PACKETS).map(|_| channel.draw()).collect()
    }

    /// Returns the share of lost packets, the mean length of runs of them, and how likely the
    /// packet after a lost one is lost.
    fn figures(losses: &[bool]) -> [f64; 3] {
        let lost = losses.iter().filter(|lost| **lost).count() as f64;
        let pairs = losses.windows(2).filter(|pair| pair[0] && pair[1]).count() as f64;
        [lost / losses.len() as f64, lost / (lost - pairs), pairs / lost]
    }

    #[test]
    fn shares_and_lengths_are_those_of_the_model() {
        for (enter, leave, loss) in [(0.01, 0.25, 1.0), (0.02, 0.1, 0.5), (0.2, 0.8, 1.0)] {
            let share = loss * enter / (enter + leave);
            // After a lost packet the state is bad, and stays so with 1 - leave.
            let again = (1.0 - leave) * loss;
            let found = figures(&losses(enter, leave, loss, 1));
            for (found, expected) in found.into_iter().zip([share, 1.0 / (1.0 - again), again]) {
                assert!((found / expected - 1.0).abs() < 0.03, "{found} and not {expected}");
            }
        }
    }

    #[test]
    fn losses_of_a_seed_never_change() {
        let lost = |seed| {
            let all = losses(0.05, 0.3, 1.0, seed);
            (1..=60).filter(|packet| all[packet - 1]).collect::<Vec<usize>>()
        };
        assert_eq!(lost(1), lost(1));
        assert_ne!(lost(1), lost(2));
    }

    #[test]
    fn channel_that_is_never_bad_loses_nothing() {
        assert!(!losses(0.0, 1.0, 1.0, 7).contains(&true));
    }
}
