//! Cluster bootstrap: quantiles of resampled clients.
//!
//! The responses of a client depend on each other, because they share its path. So a replicate
//! draws clients, with replacement, and takes all responses of each as often as it was drawn.

use rand_pcg::rand_core::Rng;
use rand_pcg::rand_core::SeedableRng;
use rand_pcg::Pcg64;

use crate::samples::Sample;

/// Draws how often each client is in a replicate.
pub(crate) struct Resampling {
    random: Pcg64,
    weights: Vec<u32>,
}

impl Resampling {
    /// Returns a resampling of so many clients; a seed always draws the same.
    pub(crate) fn new(clients: usize, seed: u64) -> Self {
        Self { random: Pcg64::seed_from_u64(seed), weights: vec![0; clients] }
    }

    /// Draws a replicate. Returns each client's weight.
    pub(crate) fn draw(&mut self) -> &[u32] {
        self.weights.fill(0);
        let clients = self.weights.len() as u128;
        for _ in 0..clients {
            let client = (u128::from(self.random.next_u64()) * clients) >> 64;
            self.weights[client as usize] += 1;
        }
        &self.weights
    }
}

/// Returns the quantiles of `samples`, which are in ascending order, at `fractions`, which are so,
/// too: the smallest time with at least this fraction of the weight up to it. `None` without
/// weight.
pub(crate) fn quantiles<const N: usize>(
    samples: &[Sample],
    fractions: [f64; N],
    weight: impl Fn(u32) -> u32,
) -> Option<[f64; N]> {
    let total: u64 = samples.iter().map(|sample| u64::from(weight(sample.client))).sum();
    let last = samples.last().filter(|_| total > 0)?;
    let mut quantiles = [last.ms; N];
    let (mut sum, mut next) = (0, 0);
    for sample in samples {
        sum += u64::from(weight(sample.client));
        while next < N && sum as f64 >= fractions[next] * total as f64 && sum > 0 {
            quantiles[next] = sample.ms;
            next += 1;
        }
        if next == N {
            break;
        }
    }
    Some(quantiles)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(times: &[f64]) -> Vec<Sample> {
        times.iter().zip(0..).map(|(ms, client)| Sample { ms: *ms, client }).collect()
    }

    #[test]
    fn quantile_follows_weights() {
        let samples = samples(&[1.0, 2.0, 3.0, 4.0]);
        let at = [0.25, 0.5, 0.99];
        assert_eq!(quantiles(&samples, at, |_| 1), Some([1.0, 2.0, 4.0]));
        let weights = [0, 0, 5, 1];
        assert_eq!(quantiles(&samples, at, |c| weights[c as usize]), Some([3.0, 3.0, 4.0]));
        assert_eq!(quantiles(&samples, at, |_| 0), None);
        assert_eq!(quantiles(&[], at, |_| 1), None);
    }

    #[test]
    fn replicate_draws_each_client_once_on_average() {
        let mut resampling = Resampling::new(100, 7);
        let mut sums = vec![0; 100];
        for _ in 0..1000 {
            let weights = resampling.draw();
            assert_eq!(weights.iter().sum::<u32>(), 100);
            sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += weight);
        }
        // Five standard deviations.
        assert!(sums.iter().all(|sum| (840..1160).contains(sum)), "{sums:?}");
    }
}
