//! Findings of a chapter, and the published figures among them.

use super::verdict::Verdict;

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
    pub ours: String,
    pub bound: String,
}

impl Published {
    pub fn new(what: &str, published: &str, ours: String, bound: String) -> Self {
        Published { what: what.into(), published: published.into(), ours, bound }
    }
}
