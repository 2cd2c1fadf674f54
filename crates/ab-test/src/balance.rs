//! Sample-ratio check: whether as many clients are in each arm as were to be.

use serde::Serialize;
use statrs::distribution::Binomial;
use statrs::distribution::DiscreteCDF;

/// Probability below which a deviation is no chance: a check that is made with every evaluation
/// must not cry wolf.
const CHANCE_MIN: f64 = 0.001;

/// Number of clients in the arm that may jump, and how probable it is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Balance {
    pub resume: u64,
    pub control: u64,

    /// Expected share of the former.
    pub share: f64,

    /// Probability of a deviation that is as large or larger, by the exact binomial test.
    pub p: f64,
}

impl Balance {
    /// Returns the check of these counts.
    pub fn new(resume: u64, control: u64, share: f64) -> Self {
        Self { resume, control, share, p: probability(resume, resume + control, share) }
    }

    /// Returns whether the deviation may be chance.
    pub fn is_plausible(&self) -> bool {
        self.p >= CHANCE_MIN
    }
}

/// Returns the two-sided probability of `resume` successes of `all`: twice the smaller tail.
fn probability(resume: u64, all: u64, share: f64) -> f64 {
    let Ok(binomial) = Binomial::new(share.clamp(0.0, 1.0), all) else { return 1.0 };
    let at_most = binomial.cdf(resume);
    let at_least = resume.checked_sub(1).map_or(1.0, |below| binomial.sf(below));
    (2.0 * at_most.min(at_least)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probability_is_that_of_both_tails() {
        for (resume, control, share, expected) in [
            // 2 x (1 + 10 + 45) / 1024.
            (2, 8, 0.5, 0.109_375),
            (8, 2, 0.5, 0.109_375),
            (5, 5, 0.5, 1.0),
            (0, 10, 0.5, 2.0 / 1024.0),
            (0, 0, 0.5, 1.0),
            (10, 0, 1.0, 1.0),
            (9, 1, 1.0, 0.0),
            (0, 7, 0.0, 1.0),
        ] {
            let p = Balance::new(resume, control, share).p;
            assert!((p - expected).abs() < 1e-9, "{resume} {control} {share}: {p}");
        }
    }

    #[test]
    fn lost_clients_of_one_arm_are_noticed() {
        assert!(Balance::new(9000, 1000, 0.9).is_plausible());
        assert!(Balance::new(9060, 1000, 0.9).is_plausible());
        assert!(!Balance::new(9000, 880, 0.9).is_plausible());
        assert!(!Balance::new(9000, 1130, 0.9).is_plausible());
    }
}
