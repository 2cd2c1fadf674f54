//! Identity of a file's content, as its metadata tell it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

/// Identity of a file and of its content: a change of the content changes it, unless it follows
/// another within a tick of the file system's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    device: u64,
    inode: u64,

    /// Length in bytes.
    pub length: u64,

    /// Times of the last changes of the content, which programs may set, and of content or
    /// metadata, in nanoseconds since 1970.
    modified: i64,
    changed: i64,
}

impl FileIdentity {
    /// Returns the identity of the file with these metadata.
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Returns the identity of a file that does not exist.
    #[cfg(test)]
    pub fn numbered(inode: u64) -> Self {
        Self { device: 1, inode, length: 1, modified: 0, changed: 1_000_500_000_000 }
    }

    /// Returns whether the last change is at least so long ago: never if the clock was set back.
    pub fn is_older_than(&self, age: Duration, wall_now: SystemTime) -> bool {
        let Ok(changed) = u64::try_from(self.changed) else { return false };
        let changed = UNIX_EPOCH + Duration::from_nanos(changed);
        wall_now.duration_since(changed).is_ok_and(|since| since >= age)
    }
}

/// Returns a time, or the closest that there is: from 1677 to 2262.
fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn identity_changes_with_content_and_metadata() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let identity = || FileIdentity::of(&fs::metadata(&path).unwrap());
        fs::write(&path, "a").unwrap();
        let first = identity();
        assert_eq!(identity(), first);
        fs::write(&path, "ab").unwrap();
        let longer = identity();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(UNIX_EPOCH).unwrap();
        let older = identity();
        fs::write(dir.path().join("other"), "ab").unwrap();
        fs::rename(dir.path().join("other"), &path).unwrap();
        let all = [first, longer, older, identity()];
        for (number, one) in all.iter().enumerate() {
            assert!(all[..number].iter().all(|other| other != one), "{number}");
        }
    }

    #[test]
    fn age_is_that_of_the_last_change() {
        let identity = FileIdentity::numbered(1);
        let at = |ms| UNIX_EPOCH + Duration::from_millis(ms);
        for (wall_now, expected) in
            [(at(1_001_499), false), (at(1_001_500), true), (at(999_000), false)]
        {
            assert_eq!(identity.is_older_than(Duration::from_secs(1), wall_now), expected);
        }
    }
}
