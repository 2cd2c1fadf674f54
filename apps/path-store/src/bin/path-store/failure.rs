//! Failure of a command: one human-readable line.

use std::io;

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Returns whether the reader of our output has closed it.
pub fn is_broken_pipe(failure: &Failure) -> bool {
    failure.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
