//! Key files, which are read again when they change.
//!
//! Owns their lines and when they are read; the types that are parsed from them own the
//! meaning of the keys.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::RwLock;
use std::time::Duration;
use std::time::SystemTime;

use quiche::clock;

use crate::small_file;

/// Length of a key, in bytes.
pub const KEY_BYTES: usize = 32;

/// How often a file is checked for changes.
const WATCH_INTERVAL: Duration = Duration::from_secs(10);

/// Text of a file that is parsed as a whole.
pub trait KeyText: FromStr<Err = String> {
    /// How to make such a file, for messages.
    const MAKE: &'static str;
}

/// Error of a key file. The text is one line that names the file.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct KeyFileError {
    path: PathBuf,
    why: String,
}

/// The keys of a file, as of its last change.
#[derive(Debug)]
pub struct KeyFile<T>(Arc<KeyFileState<T>>);

#[derive(Debug)]
struct KeyFileState<T> {
    keys: RwLock<Arc<T>>,
    last_read: RwLock<LastRead>,
}

/// The last reading of a key file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRead {
    /// Whether it succeeded.
    pub is_successful: bool,

    /// Time of the last one that did.
    pub last_success: SystemTime,
}

impl<T> Clone for KeyFile<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> KeyFile<T> {
    /// Wraps keys of no file, which never change.
    pub fn fixed(keys: T) -> Self {
        let last_read = LastRead { is_successful: true, last_success: clock::wall_now() };
        Self(Arc::new(KeyFileState {
            keys: RwLock::new(Arc::new(keys)),
            last_read: RwLock::new(last_read),
        }))
    }

    /// Returns the current keys.
    pub fn get(&self) -> Arc<T> {
        Arc::clone(&self.0.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns how the last reading of the file ended.
    pub fn last_read(&self) -> LastRead {
        *self.0.last_read.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: KeyText + Send + Sync + 'static> KeyFile<T> {
    /// Reads a file, and again whenever it changes. A change that cannot be used leaves
    /// the keys as they are, with a warning.
    ///
    /// # Errors
    ///
    /// The file cannot be used now.
    pub fn watch(path: &Path) -> Result<Self, KeyFileError> {
        Self::watch_as("key file", path)
    }

    /// Does as [`watch()`](Self::watch()) for a file of another `kind`, such as passwords, which warnings
    /// name.
    ///
    /// # Errors
    ///
    /// The file cannot be used now.
    pub fn watch_as(kind: &'static str, path: &Path) -> Result<Self, KeyFileError> {
        let keys = Self::fixed(read(path)?);
        let shared = Arc::downgrade(&keys.0);
        let path = path.to_path_buf();
        let look = move || {
            let mut seen = changed(&path);
            loop {
                std::thread::sleep(WATCH_INTERVAL);
                let Some(shared) = shared.upgrade() else { return };
                if changed(&path) != seen {
                    seen = changed(&path);
                    Self(shared).reload(kind, &path);
                }
            }
        };
        let thread = std::thread::Builder::new().name("key-file".into()).spawn(look);
        if let Err(e) = thread {
            log::warn!("changes of the {kind} will not be noticed: {e}");
        }

        Ok(keys)
    }

    fn reload(&self, kind: &str, path: &Path) {
        let mut last_read = self.0.last_read.write().unwrap_or_else(PoisonError::into_inner);
        match read(path) {
            Ok(keys) => {
                *self.0.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
                *last_read = LastRead { is_successful: true, last_success: clock::wall_now() };
            }
            Err(error) => {
                last_read.is_successful = false;
                log::warn!("{}", kept(kind, &error));
            }
        }
    }
}

fn kept(kind: &str, error: &KeyFileError) -> String {
    format!("{kind} {error}; what it held before stays in use")
}

/// Reads a file once.
///
/// # Errors
///
/// One line that names the file.
pub fn read<T: KeyText>(path: &Path) -> Result<T, KeyFileError> {
    let failed = |why| KeyFileError { path: path.to_path_buf(), why };
    let text = small_file::read_text(path);
    let unreadable = |e: io::Error| format!("{e}; {}", small_file::remedy(e.kind(), T::MAKE));
    let text = text.map_err(|e| failed(unreadable(e)))?;
    let keys = text.parse().map_err(failed)?;
    check_mode(path).map_err(failed)?;
    Ok(keys)
}

/// Checks who else may use a file of secrets, and warns if other users may read it: in a container
/// there may be none.
///
/// # Errors
///
/// Other users may write the file, and so choose the secrets.
pub fn check_mode(path: &Path) -> Result<(), String> {
    let mode = check_writers(path, "o-rwx")?;
    if mode & 0o004 != 0 {
        log::warn!(
            "{}: other users may read it (mode {mode:04o}); run chmod o-rwx",
            path.display()
        );
    }
    Ok(())
}

/// Checks that only its user and group may write a file. Returns its mode.
///
/// # Errors
///
/// Other users may write it, and so choose what it holds. `remedy` is what chmod is to do.
pub fn check_writers(path: &Path, remedy: &str) -> Result<u32, String> {
    let mode = path.metadata().map_err(|e| e.to_string())?.permissions().mode() & 0o777;
    match mode & 0o002 {
        0 => Ok(mode),
        _ => Err(format!("other users may write it (mode {mode:04o}); run chmod {remedy}")),
    }
}

/// Returns the lines that are neither empty nor begin with #, with their numbers. Editors of some
/// systems put a byte order mark before the first.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let text = text.trim_start_matches('\u{feff}');
    let lines = (1..).zip(text.lines().map(str::trim));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Parses a key of 64 hexadecimal digits.
pub fn parse_key(digits: &str) -> Option<[u8; KEY_BYTES]> {
    let mut key = [0; KEY_BYTES];
    hex::decode_to_slice(digits, &mut key).ok()?;
    Some(key)
}

/// Returns which file is at the path, and when it or its mode changed, in seconds and nanoseconds.
fn changed(path: &Path) -> Option<(u64, i64, i64)> {
    let metadata = path.metadata().ok()?;
    Some((metadata.ino(), metadata.ctime(), metadata.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    struct Keys(Vec<[u8; KEY_BYTES]>);

    impl FromStr for Keys {
        type Err = String;

        fn from_str(text: &str) -> Result<Self, String> {
            let keys = lines(text).map(|(number, line)| {
                parse_key(line).ok_or_else(|| format!("line {number}: no key"))
            });
            Ok(Self(keys.collect::<Result<_, _>>()?))
        }
    }

    impl KeyText for Keys {
        const MAKE: &'static str = "make one";
    }

    #[test]
    fn key_is_sixty_four_hexadecimal_digits() {
        let key = parse_key(KEY).unwrap();
        assert_eq!((key[0], key[1], key[31]), (0, 1, 0x1f));
        assert_eq!(parse_key(&KEY.to_uppercase()), Some(key));
        for bad in ["", &KEY[1..], &format!("{KEY}00"), &format!("+f{}", &KEY[2..])] {
            assert_eq!(parse_key(bad), None, "{bad}");
        }
    }

    #[test]
    fn bad_reload_keeps_keys() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        std::fs::write(&path, format!("# one\n\n{KEY}\n")).unwrap();
        let keys = KeyFile::<Keys>::watch(&path).unwrap();

        std::fs::write(&path, "rubbish").unwrap();
        let before = keys.last_read();
        keys.reload("key file", &path);
        assert_eq!(keys.get().0.len(), 1);
        assert_eq!(keys.last_read(), LastRead { is_successful: false, ..before });

        std::fs::write(&path, format!("{KEY}\n{KEY}")).unwrap();
        keys.reload("key file", &path);
        assert_eq!(keys.get().0.len(), 2);
        let after = keys.last_read();
        assert!(before.is_successful && after.is_successful);
        assert!(after.last_success > before.last_success);
    }

    #[test]
    fn file_that_others_may_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        std::fs::write(&path, KEY).unwrap();
        for (mode, is_usable) in [
            (0o600, true),
            (0o640, true),
            (0o644, true),
            (0o660, true),
            (0o666, false),
            (0o602, false),
        ] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let keys = read::<Keys>(&path).map(drop);
            assert_eq!(keys.is_ok(), is_usable, "{mode:o}");
            assert!(keys
                .err()
                .is_none_or(|e| e.to_string().contains(&format!("(mode {mode:04o})"))));
        }
    }

    // The remedy that the error names.
    #[test]
    fn change_of_mode_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        std::fs::write(&path, KEY).unwrap();
        let before = changed(&path);
        // File systems keep time in ticks.
        let is_noticed = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
            changed(&path) != before
        });
        assert!(before.is_some() && is_noticed);
    }

    #[test]
    fn error_names_the_file() {
        let error = KeyFileError { path: "/a/users".into(), why: "line 2: no hash".into() };
        let line = "password file /a/users: line 2: no hash; what it held before stays in use";
        assert_eq!(kept("password file", &error), line);

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        let error = |path: &Path| read::<Keys>(path).map(drop).unwrap_err().to_string();
        let missing = "No such file or directory (os error 2); make one";
        assert_eq!(error(&path), format!("{}: {missing}", path.display()));
        let endless = "/dev/zero: it is no regular file; name a readable file";
        assert_eq!(error(Path::new("/dev/zero")), endless);
        std::fs::write(&path, "\nrubbish").unwrap();
        assert_eq!(error(&path), format!("{}: line 2: no key", path.display()));
    }
}
