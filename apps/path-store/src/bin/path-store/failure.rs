//! Failure of a command: one line for people.

use std::io;

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Tells whether whoever reads our output has seen enough.
pub fn is_broken_pipe(failure: &Failure) -> bool {
    failure.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
