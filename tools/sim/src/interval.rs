//! Figures with their 95 % intervals, by a bootstrap over runs.
//!
//! A replicate draws runs with replacement. What two scenarios are compared by is drawn in pairs of
//! the same seed, so that what a seed does to both does not count.

use rand_pcg::rand_core::SeedableRng;
use rand_pcg::Pcg64;

use crate::seeds;

/// Replicates, from the same draws for all figures of so many runs.
const REPLICATES: usize = 2_000;

const SEED: u64 = 0x0070_6169_7265_6400;

/// A figure with its 95 % interval, by percentiles. The ends of fewer than two runs are no numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub value: f64,
    pub low: f64,
    pub high: f64,
    /// How many runs, or pairs of runs, it is of.
    pub runs: usize,
}

impl Interval {
    /// Returns a statistic of so many runs, given as their indices.
    pub fn of(runs: usize, statistic: impl Fn(&[usize]) -> f64) -> Self {
        let mut drawn: Vec<usize> = (0..runs).collect();
        let value = if runs == 0 { f64::NAN } else { statistic(&drawn) };
        if runs < 2 || !value.is_finite() {
            return Self { value, low: f64::NAN, high: f64::NAN, runs };
        }
        let mut rng = Pcg64::seed_from_u64(SEED);
        let mut replicate = || {
            drawn.fill_with(|| (seeds::uniform(&mut rng) * runs as f64) as usize);
            statistic(&drawn)
        };
        let mut all: Vec<f64> = (0..REPLICATES).map(|_| replicate()).collect();
        all.sort_by(f64::total_cmp);
        let at = |share: f64| all[(share * (REPLICATES - 1) as f64).round() as usize];
        Self { value, low: at(0.025), high: at(0.975), runs }
    }

    /// Returns a figure that is not measured, such as a count of what must not be.
    pub fn exact(value: f64) -> Self {
        Self { value, low: value, high: value, runs: 1 }
    }

    /// Returns the mean of a figure of each run.
    pub fn mean(values: &[f64]) -> Self {
        Self::of(values.len(), |drawn| {
            drawn.iter().map(|run| values[*run]).sum::<f64>() / drawn.len() as f64
        })
    }

    /// Returns the median of a figure of each run.
    pub fn median(values: &[f64]) -> Self {
        Self::of(values.len(), |drawn| {
            let drawn = drawn.iter().map(|run| values[*run]);
            report::stats::median(drawn).unwrap_or(f64::NAN)
        })
    }

    /// Returns the mean of the first values over that of the second ones; nothing over nothing is 1.
    pub fn ratio_of_means(pairs: &[(f64, f64)]) -> Self {
        Self::of(pairs.len(), |drawn| {
            let (first, second) = drawn.iter().fold((0.0, 0.0), |sum, run| {
                let pair = pairs[*run];
                (sum.0 + pair.0, sum.1 + pair.1)
            });
            if first == second {
                1.0
            } else {
                first / second
            }
        })
    }

    /// Returns the median of the first values over that of the second ones.
    pub fn ratio_of_medians(pairs: &[(f64, f64)]) -> Self {
        Self::of(pairs.len(), |drawn| {
            let median = |of: fn(&(f64, f64)) -> f64| {
                let drawn = drawn.iter().map(|run| of(&pairs[*run]));
                report::stats::median(drawn).unwrap_or(f64::NAN)
            };
            median(|pair| pair.0) / median(|pair| pair.1)
        })
    }

    /// Returns by how much the mean of the first values exceeds that of the second ones.
    pub fn difference(pairs: &[(f64, f64)]) -> Self {
        Self::mean(&pairs.iter().map(|pair| pair.0 - pair.1).collect::<Vec<_>>())
    }

    /// Returns the same in another unit, or under another function that does not change the order.
    pub fn map(self, function: impl Fn(f64) -> f64) -> Self {
        let (low, high) = (function(self.low), function(self.high));
        let (low, high) = if low > high { (high, low) } else { (low, high) };
        Self { value: function(self.value), low, high, ..self }
    }

    /// Returns whether a figure that others published lies in it.
    pub fn holds(&self, published: f64) -> bool {
        (self.low..=self.high).contains(&published)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_of_a_constant_ratio_has_no_width() {
        let pairs: Vec<(f64, f64)> = (1..20).map(|i| (0.5 * f64::from(i), f64::from(i))).collect();
        let found = Interval::ratio_of_means(&pairs);
        assert_eq!((found.value, found.low, found.high, found.runs), (0.5, 0.5, 0.5, 19));
        assert!(found.holds(0.5) && !found.holds(0.51));
        assert_eq!(Interval::ratio_of_means(&[(0.0, 0.0); 3]).high, 1.0);
    }

    #[test]
    fn one_run_has_no_interval() {
        let found = Interval::ratio_of_means(&[(1.0, 2.0)]);
        assert!(found.value == 0.5 && found.low.is_nan() && found.high.is_nan());
        assert!(Interval::mean(&[]).value.is_nan());
    }

    #[test]
    fn change_of_sign_exchanges_the_ends() {
        let found = Interval::mean(&[1.0, 2.0, 4.0]).map(|value| -value);
        assert!(found.low < found.value && found.value < found.high, "{found:?}");
    }

    #[test]
    fn medians_are_those_of_the_runs_drawn() {
        let found = Interval::median(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 90.0]);
        assert_eq!((found.value, found.low, found.high), (1.0, 1.0, 1.0));
        let pairs: Vec<(f64, f64)> = (1..30).map(|i| (f64::from(i), 2.0 * f64::from(i))).collect();
        assert_eq!(Interval::ratio_of_medians(&pairs).value, 0.5);
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
        let found = Interval::ratio_of_means(&pairs);
        let count = pairs.len() as f64;
        let second = pairs.iter().map(|pair| pair.1).sum::<f64>() / count;
        let residuals = pairs.iter().map(|pair| (pair.0 - found.value * pair.1).powi(2));
        let error = (residuals.sum::<f64>() / (count - 1.0) / count).sqrt() / second;
        let half = (found.high - found.low) / 2.0;
        assert!((half / (1.96 * error) - 1.0).abs() < 0.1, "{found:?} {error}");
        assert_eq!(Interval::ratio_of_means(&pairs), found);
    }
}
