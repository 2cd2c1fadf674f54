//! Errors that end a run.

use std::fmt;
use std::time::Duration;

use crate::invariants::Violation;

/// A run that failed: when, where, why, and the seed that brings it back. The
/// text leaves the seed to the caller, who knows how to run it again.
#[derive(Clone, Debug, PartialEq)]
pub struct RunError {
    pub seed: u64,
    /// Virtual time since the start of the run.
    pub at: Duration,
    /// Which flow, counted from 0 over all flows of the scenario, and its name.
    pub flow: Option<(usize, String)>,
    pub failure: Failure,
}

/// Cause of a failure.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// A rule that always holds did not.
    Violation(Violation),
    /// The download did not complete.
    Stall(String),
}

impl From<Violation> for Failure {
    fn from(violation: Violation) -> Self {
        Self::Violation(violation)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Violation(violation) => violation.fmt(f),
            Self::Stall(why) => write!(f, "stalled: {why}"),
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {:.6} s", self.at.as_secs_f64())?;
        if let Some((index, name)) = &self.flow {
            write!(f, ", flow {index} {name:?}")?;
        }
        write!(f, ": {}", self.failure)
    }
}

impl std::error::Error for RunError {}
