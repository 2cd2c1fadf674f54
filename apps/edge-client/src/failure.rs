//! Failure of a download, as one line for the user.

use std::fmt;

/// Reason why a download has no complete response.
#[derive(Debug)]
pub enum Failure {
    /// No connection to this address; another address may answer.
    Unreachable(String),

    /// A failure that another address would not change.
    Failed(String),

    /// The user stopped the program.
    Interrupted,
}

impl Failure {
    /// Creates a [`Failure::Failed`].
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
