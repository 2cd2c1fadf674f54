//! Files that a scenario file names, each read once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

/// Files of one kind.
pub struct NamedFiles<T> {
    /// The folder that names count from: the scenario file's.
    folder: PathBuf,
    read: RefCell<BTreeMap<String, Arc<T>>>,
}

impl<T> NamedFiles<T> {
    /// Creates the files of the scenario file at `source`.
    pub fn of(source: &str) -> Self {
        let folder = Path::new(source).parent().unwrap_or(Path::new("")).to_owned();
        Self { folder, read: RefCell::default() }
    }

    /// Returns the file of that name, by `read` if it has not been read.
    ///
    /// # Errors
    ///
    /// Those of `read`.
    pub fn get(
        &self,
        name: &str,
        read: impl FnOnce(&Path) -> anyhow::Result<T>,
    ) -> anyhow::Result<Arc<T>> {
        if let Some(file) = self.read.borrow().get(name) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(read(&self.folder.join(name))?);
        self.read.borrow_mut().insert(name.to_owned(), Arc::clone(&file));
        Ok(file)
    }
}
