//! Paired bootstrap: how far a ratio of two means over the same seeds may be off.

use rand_pcg::rand_core::SeedableRng;
use rand_pcg::Pcg64;

use crate::seeds;

/// Replicates, from the same draws for all pairs of so many runs.
const REPLICATES: usize = 2_000;

const SEED: u64 = 0x0070_6169_7265_6400;

/// A ratio with its 95 % interval, by percentiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RatioInterval {
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
    pub pairs: usize,
}

/// Returns the mean of the first values over that of the second ones. A replicate draws pairs,
/// with replacement, so that what a seed does to both does not count. None for fewer than two.
pub fn ratio_of_means(pairs: &[(f64, f64)]) -> Option<RatioInterval> {
    if pairs.len() < 2 {
        return None;
    }
    let mut rng = Pcg64::seed_from_u64(SEED);
    let mut ratios: Vec<f64> = (0..REPLICATES)
        .map(|_| {
            let drawn = (0..pairs.len())
                .map(|_| pairs[(seeds::uniform(&mut rng) * pairs.len() as f64) as usize]);
            ratio(drawn)
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let at = |share: f64| ratios[(share * (REPLICATES - 1) as f64).round() as usize];
    let ratio = ratio(pairs.iter().copied());
    Some(RatioInterval { ratio, low: at(0.025), high: at(0.975), pairs: pairs.len() })
}

fn ratio(pairs: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (first, second) = pairs.fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    first / second
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_of_a_constant_ratio_has_no_width() {
        let pairs: Vec<(f64, f64)> = (1..20).map(|i| (0.5 * f64::from(i), f64::from(i))).collect();
        let found = ratio_of_means(&pairs).expect("pairs");
        assert_eq!((found.ratio, found.low, found.high, found.pairs), (0.5, 0.5, 0.5, 19));
        assert_eq!(ratio_of_means(&pairs[..1]), None);
    }

    /// Against the delta method: the standard error of a ratio of means.
    #[test]
    fn interval_is_that_of_the_delta_method() {
        let mut rng = Pcg64::seed_from_u64(1);
        let mut draw = || seeds::uniform(&mut rng);
        let pairs: Vec<(f64, f64)> = (0..400)
            .map(|_| {
                let path = 100.0 + 50.0 * draw();
                (path * 0.7 + 10.0 * draw(), path + 10.0 * draw())
            })
            .collect();
        let found = ratio_of_means(&pairs).expect("pairs");
        let count = pairs.len() as f64;
        let second = pairs.iter().map(|pair| pair.1).sum::<f64>() / count;
        let residuals = pairs.iter().map(|pair| (pair.0 - found.ratio * pair.1).powi(2));
        let error = (residuals.sum::<f64>() / (count - 1.0) / count).sqrt() / second;
        let half = (found.high - found.low) / 2.0;
        assert!((half / (1.96 * error) - 1.0).abs() < 0.1, "{found:?} {error}");
        assert_eq!(ratio_of_means(&pairs), Some(found));
    }
}
