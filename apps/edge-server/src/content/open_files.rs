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

use crate::admission::file_limits::FilePermit;
use crate::admission::file_limits::FileReaders;
use crate::admission::file_limits::SubnetLimitReached;
use crate::http::open_file::OpenFile;

/// Device and inode.
type FileId = (u64, u64);

/// Files that responses have open.
#[derive(Debug, Default)]
pub struct OpenFiles(Mutex<FileTable>);

#[derive(Debug, Default)]
struct FileTable {
    open: HashMap<FileId, (Weak<File>, FileReaders)>,

    /// Size of the table at which closed files are removed.
    cleaning_at: usize,
}

impl OpenFiles {
    /// Returns the open file that is the same as `file`, if there is one, and `file` otherwise.
    /// `permit` gives a permit to be one of the file's readers.
    ///
    /// # Errors
    ///
    /// There is no permit.
    pub fn share(
        &self,
        file: File,
        metadata: &Metadata,
        permit: impl FnOnce(&FileReaders) -> Option<FilePermit>,
    ) -> io::Result<OpenFile> {
        let id = (metadata.dev(), metadata.ino());
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((same, readers)) = files.open.get(&id) {
            if let Some(same) = same.upgrade() {
                let permit = permit(readers).ok_or_else(subnet_limit)?;
                return Ok(OpenFile::with_permit(same, permit));
            }
        }
        let readers = FileReaders::default();
        let permit = permit(&readers).ok_or_else(subnet_limit)?;
        let file = Arc::new(file);
        files.open.insert(id, (Arc::downgrade(&file), readers));
        files.clean();
        Ok(OpenFile::with_permit(file, permit))
    }
}

fn subnet_limit() -> io::Error {
    io::Error::other(SubnetLimitReached)
}

impl FileTable {
    /// Removes closed files, once the table has doubled since the last time.
    fn clean(&mut self) {
        if self.open.len() > self.cleaning_at {
            self.open.retain(|_, (file, _)| file.strong_count() > 0);
            self.cleaning_at = 2 * self.open.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::file_limits::tests::account;
    use std::fs;

    fn is_same(one: &OpenFile, other: &OpenFile) -> bool {
        std::ptr::eq::<File>(&**one, &**other)
    }

    #[test]
    fn same_file_is_shared_while_it_is_open() {
        let dir = tempfile::tempdir().unwrap();
        let account = account();
        let open = |files: &OpenFiles, name: &str| {
            let path = dir.path().join(name);
            fs::write(&path, name).unwrap();
            let file = File::open(path).unwrap();
            let metadata = file.metadata().unwrap();
            files.share(file, &metadata, |readers| account.try_read(readers, 1000)).unwrap()
        };
        let files = OpenFiles::default();
        let (one, again, other) = (open(&files, "one"), open(&files, "one"), open(&files, "other"));
        assert!(is_same(&one, &again) && !is_same(&one, &other));

        // A new file of the same name is another one.
        fs::remove_file(dir.path().join("one")).unwrap();
        assert!(!is_same(&one, &open(&files, "one")));

        for number in 0..100 {
            open(&files, &number.to_string());
        }
        assert!(files.0.lock().unwrap().open.len() < 10);
        assert_eq!(account.open(), 2, "of those that are closed, none counts");
    }
}
