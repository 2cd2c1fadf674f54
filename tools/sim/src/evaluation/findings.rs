//! Findings of a chapter, and the published figures among them.

use super::verdict::Verdict;
use crate::interval::Interval;

/// Findings of a chapter about its outcomes.
#[derive(Debug, Default)]
pub struct Findings {
    /// HTML: what came out, tables and plots.
    pub html: String,
    pub published: Vec<Published>,
    pub verdicts: Vec<Verdict>,
}

/// A published figure, ours, and what a fluid model allows; as text.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Published result and its source: `P8, 6.25 MB over 500 Mbit/s, 50 ms`.
    pub what: String,
    pub published: String,
    /// Ours, with its interval.
    pub ours: String,
    pub bound: String,
    pub reproduction: Reproduction,
    /// A sentence on why it is, or is not, reproduced.
    pub why: String,
}

/// Whether a published figure lies in our interval, or what was claimed holds in all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reproduction {
    Yes,
    #[default]
    No,
    /// There is no published figure, or none of it could be measured.
    Open,
}

impl Published {
    pub fn new(what: &str, published: &str, ours: String, bound: String) -> Self {
        Published {
            what: what.into(),
            published: published.into(),
            ours,
            bound,
            reproduction: Reproduction::No,
            why: String::new(),
        }
    }

    /// Judges it: `why` begins with what is so if it is reproduced, and if not.
    pub fn judged(mut self, is_reproduced: bool, [yes, no]: [&str; 2]) -> Self {
        (self.reproduction, self.why) = match is_reproduced {
            true => (Reproduction::Yes, yes.into()),
            false => (Reproduction::No, no.into()),
        };
        self
    }

    /// Judges a published figure by whether our interval holds it. `about` is a sentence on how the
    /// two can be compared.
    pub fn figure(self, published: f64, ours: Interval, about: &str) -> Self {
        let side = if published < ours.value { "above" } else { "below" };
        let yes = format!("The published figure lies in our interval. {about}");
        let no = format!("Our whole interval is {side} the published figure. {about}");
        self.judged(ours.holds(published), [&yes, &no])
    }

    /// Leaves it open, with the reason.
    pub fn open(mut self, why: &str) -> Self {
        self.reproduction = Reproduction::Open;
        self.why = why.into();
        self
    }
}

impl Reproduction {
    pub fn words(self) -> &'static str {
        match self {
            Self::Yes => "✓ reproduced",
            Self::No => "✗ not reproduced",
            Self::Open => "– no figure",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_figure_is_reproduced_if_it_lies_in_the_interval() {
        let judged = |published: f64| {
            let ours = Interval { value: 0.93, low: 0.90, high: 0.96, runs: 200 };
            let all = Published::new("P", "", String::new(), String::new());
            let found = all.figure(published, ours, "Because.");
            (found.reproduction, found.why)
        };
        assert_eq!(judged(0.95).0, Reproduction::Yes);
        let (found, why) = judged(0.646);
        assert_eq!(found, Reproduction::No);
        assert_eq!(why, "Our whole interval is above the published figure. Because.");
        assert!(judged(0.99).1.contains("below"));
    }
}
