//! Open file that responses read, and what it takes up until it is closed.

use std::any::Any;
use std::fs::File;
use std::ops::Deref;

/// An open file.
#[derive(Debug)]
pub struct OpenFile {
    file: File,

    /// Dropped with the file.
    _permit: Option<Box<dyn Any + Send + Sync>>,
}

impl OpenFile {
    /// Returns the file, which keeps a permit until it is closed.
    pub fn with_permit(file: File, permit: impl Send + Sync + 'static) -> Self {
        Self { file, _permit: Some(Box::new(permit)) }
    }
}

impl From<File> for OpenFile {
    fn from(file: File) -> Self {
        Self { file, _permit: None }
    }
}

impl Deref for OpenFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}
