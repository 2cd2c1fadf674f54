//! Statistics of several runs.

/// Returns the median; of an even number of values, the mean of the middle two.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some((values[low] + values[high]) / 2.0)
}

/// Returns the quantile at `share`, 0 to 1, of values in ascending order: linear between two of
/// them.
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let at = share * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(low + (high - low) * at.fract())
}

/// Returns Jain's index of fairness: 1 if all values are equal, 1 / n if one of n has all. None
/// without a positive value.
pub fn jain(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().sum();
    let squares: f64 = values.iter().map(|value| value * value).sum();
    (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
}

/// A mean, and how far it may be from that of endless runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    pub value: f64,
    /// Half of the 95 % confidence interval; 0 for a single run.
    pub error: f64,
    pub runs: usize,
}

/// Returns the mean of some runs.
pub fn mean(values: &[f64]) -> Option<Mean> {
    let runs = values.len();
    let count = runs as f64;
    let value = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|v| (v - value).powi(2)).sum();
    let error = match runs {
        0 => return None,
        1 => 0.0,
        // 1.96: the normal distribution's, as runs are many where it matters.
        _ => 1.96 * (squares / (count - 1.0) / count).sqrt(),
    };
    Some(Mean { value, error, runs })
}

/// Returns a number with `digits` decimals, or nothing.
pub fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or(String::new(), |v| positive(format!("{v:.digits$}")))
}

/// Removes the sign of a number that is rounded to zero.
fn positive(text: String) -> String {
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| matches!(c, '0' | '.')) => rest.into(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_has_no_sign() {
        for (value, text) in [(-0.04, "0.0"), (-0.06, "-0.1"), (0.04, "0.0"), (-10.0, "-10.0")] {
            assert_eq!(number(Some(value), 1), text);
        }
        assert_eq!(number(None, 1), "");
    }

    #[test]
    fn median_of_an_even_number_is_between() {
        assert_eq!(median([4.0, 1.0, 3.0, 2.0].into_iter()), Some(2.5));
        assert_eq!(median([4.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median(std::iter::empty()), None);
    }

    #[test]
    fn quantile_is_linear_between_values() {
        let sorted = [1.0, 2.0, 4.0, 8.0, 16.0];
        let all = [0.0, 0.25, 0.375, 0.5, 1.0].map(|share| quantile(&sorted, share));
        assert_eq!(all, [Some(1.0), Some(2.0), Some(3.0), Some(4.0), Some(16.0)]);
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn index_of_fairness_is_the_published_one() {
        assert_eq!(jain(&[5.0, 5.0, 5.0]), Some(1.0));
        assert_eq!(jain(&[7.0, 0.0, 0.0, 0.0]), Some(0.25));
        // Jain, Chiu, Hawe 1984: (1 + 2 + 3)² / (3 · 14).
        assert_eq!(jain(&[1.0, 2.0, 3.0]), Some(36.0 / 42.0));
        assert_eq!((jain(&[]), jain(&[0.0])), (None, None));
    }

    #[test]
    fn error_of_a_mean_shrinks_with_the_runs() {
        assert_eq!(mean(&[]), None);
        assert_eq!(mean(&[7.0]), Some(Mean { value: 7.0, error: 0.0, runs: 1 }));
        let few = mean(&[1.0, 3.0]).expect("two runs");
        assert_eq!(few.value, 2.0);
        assert!((few.error - 1.96).abs() < 1e-9, "{few:?}");
        let many = mean(&[1.0, 3.0].repeat(50)).expect("a hundred runs");
        assert!(many.error < 0.2, "{many:?}");
    }
}
