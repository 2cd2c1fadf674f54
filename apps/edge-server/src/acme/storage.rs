//! Files that servers share: written whole, for their own user alone.

use std::fs::DirBuilder;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::SystemTime;

use anyhow::Context;
use rustix::fs::flock;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

/// Mode of files and folders: of their owner alone.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// Suffix of a file that is being written.
const TEMPORARY: &str = "new";

/// Exclusive right to renew, which ends when it is dropped.
#[derive(Debug)]
pub struct RenewalLock {
    _file: File,
}

impl RenewalLock {
    /// Acquires the lock of a file, unless another server has it.
    ///
    /// # Errors
    ///
    /// The file cannot be made, or its file system has no locks.
    pub fn try_acquire(path: &Path) -> anyhow::Result<Option<Self>> {
        make_folder_of(path)?;
        let open = || {
            let mut options = OpenOptions::new();
            options.create(true).truncate(false).write(true).mode(FILE_MODE).open(path)
        };
        let file = open().with_context(|| format!("cannot open {}", path.display()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(e).with_context(|| format!("cannot lock {}", path.display())),
        }
    }
}

/// Writes a file in one step, and its folder if there is none: readers see the old one or the new.
///
/// # Errors
///
/// One line that names the file.
pub fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    make_folder_of(path)?;
    write_whole(path, content).with_context(|| format!("cannot write {}", path.display()))
}

fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    // Only the server that renews writes, and servers of one machine have process IDs of their own.
    name.push(format!(".{}.{TEMPORARY}", std::process::id()));
    let temporary = path.with_file_name(name);
    // With the mode, whatever a crash left there.
    let _ = std::fs::remove_file(&temporary);
    let mut options = OpenOptions::new();
    let mut file = options.create_new(true).write(true).mode(FILE_MODE).open(&temporary)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    let written = written.and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
        return written;
    }
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn make_folder_of(path: &Path) -> anyhow::Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let made = DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder);
    made.with_context(|| format!("cannot make the folder {}", folder.display()))
}

/// Removes files of a folder that have been there for some time.
pub fn remove_older(folder: &Path, age: Duration, now: SystemTime) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_old = |path: &PathBuf| {
        let written = path.metadata().and_then(|file| file.modified());
        written.is_ok_and(|written| now.duration_since(written).is_ok_and(|since| since > age))
    };
    for path in entries.map(|entry| entry.path()).filter(is_old) {
        let _ = std::fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn written_file_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b/key.pem");
        for content in ["one", "two"] {
            write(&path, content.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(mode(&dir.path().join("a")), 0o700);
        // Nothing else is left.
        assert_eq!(path.parent().unwrap().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn unwritable_folder_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let path = dir.path().join("file/key.pem");
        let errors = [write(&path, b"").unwrap_err(), RenewalLock::try_acquire(&path).unwrap_err()];
        assert!(errors.iter().all(|e| format!("{e:#}").contains("/file: ")), "{errors:?}");
    }

    #[test]
    fn one_server_has_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("authority/lock");
        let first = RenewalLock::try_acquire(&path).unwrap();
        assert!(first.is_some() && RenewalLock::try_acquire(&path).unwrap().is_none());
        drop(first);
        assert!(RenewalLock::try_acquire(&path).unwrap().is_some());
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn only_old_files_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (age, now) = (Duration::from_secs(60), quiche::clock::wall_now());
        for (name, written) in [("old", now - age * 2), ("new", now), ("later", now + age)] {
            let file = File::create(dir.path().join(name)).unwrap();
            file.set_modified(written).unwrap();
        }
        remove_older(dir.path(), age, now);
        let left: Vec<_> = ["old", "new", "later"]
            .into_iter()
            .filter(|name| dir.path().join(name).exists())
            .collect();
        assert_eq!(left, ["new", "later"]);
    }
}
