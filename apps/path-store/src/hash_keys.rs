//! Names for client subnets that do not tell the subnet: keyed hashes, so that
//! no client address is at rest.
//!
//! Owns the file of keys, which key is in force when, and the hash (HMAC-SHA-256,
//! cut to 128 bits). Whoever has a key can try all subnets: the file is a secret.

use std::fmt::Write;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::RwLock;
use std::time::Duration;
use std::time::SystemTime;

use quiche::path_state::RemoteEndpoint;
use ring::hmac;

/// Length of a key, in bytes.
const KEY_BYTES: usize = 32;

/// After a key has taken over, nothing is claimed for so long: claims under the
/// one before lapse meanwhile, also those of machines whose clocks are late.
const SETTLING: Duration = Duration::from_secs(60);

/// How often a file is looked at for changes.
const WATCH_INTERVAL: Duration = Duration::from_secs(10);

/// Why a file of keys cannot be used. The text is one line that names the file.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct HashKeysError {
    path: PathBuf,
    why: String,
}

/// Keys, each in force from its time until the next one's.
#[derive(Clone, Debug)]
pub struct HashKeys {
    /// In the order of their times.
    keys: Vec<(SystemTime, hmac::Key)>,
}

/// The keys of a file that may be edited while they are in use.
#[derive(Clone, Debug)]
pub struct WatchedHashKeys(Arc<RwLock<Arc<HashKeys>>>);

impl HashKeys {
    /// Reads lines of a time (RFC 3339, such as `2026-01-31T00:00:00Z`) and 64
    /// hexadecimal digits. Empty lines and those that begin with # are skipped.
    ///
    /// # Errors
    ///
    /// Why it is no file of keys, without the keys.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut keys = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let key = parse_line(line).ok_or_else(|| {
                format!(
                    "line {number}: expected a time and a key of {} hexadecimal digits, such as \
                     2026-01-31T00:00:00Z 00112233…",
                    2 * KEY_BYTES
                )
            })?;
            keys.push(key);
        }
        if keys.is_empty() {
            return Err("there is no key in it".to_string());
        }
        keys.sort_by_key(|(from, _)| *from);

        Ok(HashKeys { keys })
    }

    /// Reads a file; see [`HashKeys::parse()`].
    ///
    /// # Errors
    ///
    /// One line that names the file.
    pub fn read(path: &Path) -> Result<Self, HashKeysError> {
        let failed = |why| HashKeysError { path: path.to_path_buf(), why };
        let text = std::fs::read_to_string(path).map_err(|e| failed(e.to_string()))?;
        Self::parse(&text).map_err(failed)
    }

    /// The endpoint under its name of now: the prefix of the client is replaced by
    /// its hash. Before the first key's time, the first key counts.
    pub fn hide(&self, endpoint: RemoteEndpoint, wall_now: SystemTime) -> RemoteEndpoint {
        let (_, key) = &self.keys[self.current(wall_now)];
        hide_with(key, endpoint)
    }

    /// The endpoint under all its names, the latest first.
    pub fn names(&self, endpoint: &RemoteEndpoint) -> Vec<RemoteEndpoint> {
        let keys = self.keys.iter().rev();
        keys.map(|(_, key)| hide_with(key, endpoint.clone())).collect()
    }

    /// A key has taken over from another a moment ago: nothing may be claimed.
    pub fn is_settling(&self, wall_now: SystemTime) -> bool {
        match self.current(wall_now) {
            0 => false,
            current => {
                let (from, _) = self.keys[current];
                wall_now.duration_since(from).is_ok_and(|since| since < SETTLING)
            }
        }
    }

    fn current(&self, wall_now: SystemTime) -> usize {
        let begun = self.keys.iter().rposition(|(from, _)| *from <= wall_now);
        begun.unwrap_or(0)
    }
}

impl WatchedHashKeys {
    /// Reads a file, and again whenever it has changed. What cannot be used then
    /// leaves the keys as they are, with a warning.
    ///
    /// # Errors
    ///
    /// The file cannot be used now.
    pub fn watch(path: &Path) -> Result<Self, HashKeysError> {
        let keys = Self(Arc::new(RwLock::new(Arc::new(HashKeys::read(path)?))));
        let shared = Arc::downgrade(&keys.0);
        let path = path.to_path_buf();
        let look = move || {
            let mut seen = modified(&path);
            loop {
                std::thread::sleep(WATCH_INTERVAL);
                let Some(shared) = shared.upgrade() else { return };
                if modified(&path) != seen {
                    seen = modified(&path);
                    Self(shared).reload(&path);
                }
            }
        };
        let thread = std::thread::Builder::new().name("path-store-keys".into()).spawn(look);
        if let Err(e) = thread {
            log::warn!("the file of keys will not be read again: {e}");
        }

        Ok(keys)
    }

    /// The keys as they are now.
    pub fn get(&self) -> Arc<HashKeys> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn reload(&self, path: &Path) {
        match HashKeys::read(path) {
            Ok(keys) => *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys),
            Err(error) => log::warn!("{error}; the keys stay as they were"),
        }
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).ok()
}

fn hide_with(key: &hmac::Key, endpoint: RemoteEndpoint) -> RemoteEndpoint {
    let Some((prefix, length)) = endpoint.prefix() else { return endpoint };
    let mut text = String::new();
    let _ = write!(text, "{prefix}/{length}");
    let tag = hmac::sign(key, text.as_bytes());
    let mut pseudonym = [0; 16];
    pseudonym.copy_from_slice(&tag.as_ref()[..16]);

    endpoint.with_pseudonym(pseudonym)
}

fn parse_line(line: &str) -> Option<(SystemTime, hmac::Key)> {
    let (time, digits) = line.split_once(char::is_whitespace)?;
    let from = humantime::parse_rfc3339(time).ok()?;
    let digits = digits.trim();
    if digits.len() != 2 * KEY_BYTES || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let byte = |i: usize| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).ok();
    let key: Vec<u8> = (0..KEY_BYTES).map(byte).collect::<Option<_>>()?;

    Some((from, hmac::Key::new(hmac::HMAC_SHA256, &key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const NEXT: &str = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    fn time(text: &str) -> SystemTime {
        humantime::parse_rfc3339(text).unwrap()
    }

    fn rotating() -> HashKeys {
        let text = format!("# two\n2026-02-01T00:00:00Z {NEXT}\n\n2026-01-01T00:00:00Z {KEY}\n");
        HashKeys::parse(&text).unwrap()
    }

    fn endpoint(client: &str) -> RemoteEndpoint {
        RemoteEndpoint::new("192.0.2.1", client.parse().unwrap(), Default::default())
    }

    // The expected digits are of another implementation of HMAC-SHA-256.
    #[test]
    fn a_name_is_the_keyed_hash_of_the_prefix() {
        let keys = rotating();
        let name = keys.hide(endpoint("198.51.100.7"), time("2026-01-10T00:00:00Z"));
        assert_eq!(name.to_string(), "192.0.2.1>~314e7592f2a41820ab3b063781837f08");
        let neighbour = keys.hide(endpoint("198.51.100.9"), time("2026-01-10T00:00:00Z"));
        assert_eq!(neighbour, name);
        let other = keys.hide(endpoint("198.51.101.7"), time("2026-01-10T00:00:00Z"));
        assert_ne!(other, name);
        assert_eq!(keys.hide(name.clone(), time("2026-01-10T00:00:00Z")), name);
    }

    #[test]
    fn a_key_takes_over_at_its_time_and_nothing_is_claimed_for_a_minute() {
        let keys = rotating();
        let here = endpoint("198.51.100.7");
        let [next, first] = &keys.names(&here)[..] else { panic!("two names") };
        for (now, name, settling) in [
            ("2025-01-01T00:00:00Z", first, false),
            ("2026-01-01T00:00:10Z", first, false),
            ("2026-01-31T23:59:59Z", first, false),
            ("2026-02-01T00:00:00Z", next, true),
            ("2026-02-01T00:00:59Z", next, true),
            ("2026-02-01T00:01:00Z", next, false),
        ] {
            assert_eq!(keys.hide(here.clone(), time(now)), *name, "{now}");
            assert_eq!(keys.is_settling(time(now)), settling, "{now}");
        }
    }

    #[test]
    fn what_is_no_file_of_keys_is_refused_without_repeating_it() {
        for (text, expected) in [
            ("", "no key"),
            ("# nothing\n", "no key"),
            (KEY, "line 1"),
            ("\n2026-01-01T00:00:00Z secret\n", "line 2"),
            (&format!("tomorrow {KEY}"), "line 1"),
            (&format!("2026-01-01T00:00:00Z {KEY}00"), "line 1"),
            (&format!("2026-01-01T00:00:00Z +f{}", &KEY[2..]), "line 1"),
        ] {
            let error = HashKeys::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains("secret") && !error.contains(&KEY[2..10]), "{error}");
        }
        let error = HashKeys::read(Path::new("/nowhere/keys")).unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/keys: "), "{error}");
    }

    #[test]
    fn a_file_that_cannot_be_used_any_more_leaves_the_keys_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        std::fs::write(&path, format!("2026-01-01T00:00:00Z {KEY}")).unwrap();
        let keys = WatchedHashKeys::watch(&path).unwrap();

        std::fs::write(&path, "rubbish").unwrap();
        keys.reload(&path);
        assert_eq!(keys.get().keys.len(), 1);

        let more = format!("2026-01-01T00:00:00Z {KEY}\n2026-02-01T00:00:00Z {NEXT}");
        std::fs::write(&path, more).unwrap();
        keys.reload(&path);
        assert_eq!(keys.get().keys.len(), 2);
    }
}
