//! Open files of a root: responses with the same file share one file descriptor, so that a client
//! with many requests does not take them all.

use std::collections::HashMap;
use std::fs::File;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::Weak;

use rustix::io::Errno;

use crate::admission::file_limits::FilePermit;
use crate::http::open_file::OpenFile;

/// Device and inode.
type FileId = (u64, u64);

/// Files that responses have open.
#[derive(Debug, Default)]
pub struct OpenFiles(Mutex<FileTable>);

#[derive(Debug, Default)]
struct FileTable {
    open: HashMap<FileId, Weak<OpenFile>>,

    /// Size of the table at which closed files are removed.
    cleaning_at: usize,
}

impl OpenFiles {
    /// Returns the open file that is the same as `file`, if there is one, and `file` otherwise,
    /// for which it needs a permit.
    ///
    /// # Errors
    ///
    /// There is no permit.
    pub fn share(
        &self,
        file: File,
        metadata: &Metadata,
        permit: impl FnOnce() -> Option<FilePermit>,
    ) -> io::Result<Arc<OpenFile>> {
        let id = (metadata.dev(), metadata.ino());
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = files.open.get(&id).and_then(Weak::upgrade) {
            return Ok(same);
        }
        let permit = permit().ok_or(Errno::MFILE)?;
        let file = Arc::new(OpenFile::with_permit(file, permit));
        files.open.insert(id, Arc::downgrade(&file));
        files.clean();
        Ok(file)
    }
}

impl FileTable {
    /// Removes closed files, once the table has doubled since the last time.
    fn clean(&mut self) {
        if self.open.len() > self.cleaning_at {
            self.open.retain(|_, file| file.strong_count() > 0);
            self.cleaning_at = 2 * self.open.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::file_limits::tests::account;
    use std::fs;

    #[test]
    fn same_file_is_shared_while_it_is_open() {
        let dir = tempfile::tempdir().unwrap();
        let account = account();
        let open = |files: &OpenFiles, name: &str| {
            let path = dir.path().join(name);
            fs::write(&path, name).unwrap();
            let file = File::open(path).unwrap();
            let metadata = file.metadata().unwrap();
            files.share(file, &metadata, || account.try_open(1000)).unwrap()
        };
        let files = OpenFiles::default();
        let (one, again, other) = (open(&files, "one"), open(&files, "one"), open(&files, "other"));
        assert!(Arc::ptr_eq(&one, &again) && !Arc::ptr_eq(&one, &other));

        // A new file of the same name is another one.
        fs::remove_file(dir.path().join("one")).unwrap();
        assert!(!Arc::ptr_eq(&one, &open(&files, "one")));

        for number in 0..100 {
            open(&files, &number.to_string());
        }
        assert!(files.0.lock().unwrap().open.len() < 10);
        assert_eq!(account.open(), 2, "of those that are closed, none counts");
    }
}
