//! Open file as one response reads it, and what it takes up until the response is done with it.

use std::any::Any;
use std::fs::File;
use std::ops::Deref;
use std::sync::Arc;

/// An open file, which other responses may read, too.
#[derive(Debug)]
pub struct OpenFile {
    file: Arc<File>,

    /// Dropped after the file.
    _permit: Option<Box<dyn Any + Send + Sync>>,
}

impl OpenFile {
    /// Returns the file, which keeps a permit as long as the response reads it.
    pub fn with_permit(file: Arc<File>, permit: impl Send + Sync + 'static) -> Self {
        Self { file, _permit: Some(Box::new(permit)) }
    }
}

impl From<File> for OpenFile {
    fn from(file: File) -> Self {
        Self { file: Arc::new(file), _permit: None }
    }
}

impl Deref for OpenFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}
