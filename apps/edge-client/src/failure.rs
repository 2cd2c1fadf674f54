//! Reasons why a download failed, in words for the one line the user gets.

use std::fmt;

/// The reason a download ended without a complete response.
#[derive(Debug)]
pub enum Failure {
    /// No connection to this address; the next address may still answer.
    Unreachable(String),

    /// Anything that another address would not put right.
    Failed(String),

    /// The user stopped the program.
    Interrupted,
}

impl Failure {
    /// Any failure that is neither an unreachable address nor the user's stop.
    pub fn failed(reason: impl Into<String>) -> Self {
        Failure::Failed(reason.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Unreachable(reason) | Failure::Failed(reason) => f.write_str(reason),
            Failure::Interrupted => f.write_str("interrupted"),
        }
    }
}
