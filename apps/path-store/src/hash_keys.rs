//! Pseudonyms of client subnets: keyed hashes, so that the store has no client address.
//!
//! Owns the lines of the key file, which key is in force when, and the hash
//! (HMAC-SHA-256, truncated to 128 bits). With a key, one can try all subnets: the file
//! is a secret.

use std::fmt::Write;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;
use std::time::SystemTime;

use quiche::path_state::RemoteEndpoint;
use ring::hmac;

use crate::key_file;
use crate::key_file::KeyFile;
use crate::key_file::KeyFileError;
use crate::key_file::KeyText;
use crate::key_file::KEY_BYTES;

/// How long nothing is claimed after a key takes over: claims under the key before it
/// expire meanwhile, also those of machines whose clocks are late.
const SETTLING_TIME: Duration = Duration::from_secs(60);

/// Keys, each in force from its time until the next one's.
#[derive(Clone, Debug)]
pub struct HashKeys {
    /// By ascending time.
    keys: Vec<(SystemTime, hmac::Key)>,
}

/// The keys of a file that is read again when it changes.
pub type WatchedHashKeys = KeyFile<HashKeys>;

/// Parses lines of a time (RFC 3339, such as `2026-01-31T00:00:00Z`) and 64 hexadecimal
/// digits. Skips empty lines and those that begin with #. The error does not repeat the keys.
impl FromStr for HashKeys {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut keys = Vec::new();
        for (number, line) in key_file::lines(text) {
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
}

impl KeyText for HashKeys {
    const MAKE: &'static str = "make one, of a time and what openssl rand -hex 32 prints";
}

impl HashKeys {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// One line that names the file.
    pub fn read(path: &Path) -> Result<Self, KeyFileError> {
        key_file::read(path)
    }

    /// Replaces the client's prefix by its hash with the key of now. Before the first key's time,
    /// that is the first key.
    pub fn pseudonymize(&self, endpoint: RemoteEndpoint, wall_now: SystemTime) -> RemoteEndpoint {
        let (_, key) = &self.keys[self.current(wall_now)];
        pseudonymize_with(key, endpoint)
    }

    /// Returns the endpoint under the pseudonym of each key, the latest first.
    pub fn pseudonyms(&self, endpoint: &RemoteEndpoint) -> Vec<RemoteEndpoint> {
        let keys = self.keys.iter().rev();
        keys.map(|(_, key)| pseudonymize_with(key, endpoint.clone())).collect()
    }

    /// Returns whether a key took over from another so recently that nothing may be claimed.
    pub fn is_settling(&self, wall_now: SystemTime) -> bool {
        match self.current(wall_now) {
            0 => false,
            current => {
                let (from, _) = self.keys[current];
                wall_now.duration_since(from).is_ok_and(|since| since < SETTLING_TIME)
            }
        }
    }

    fn current(&self, wall_now: SystemTime) -> usize {
        let begun = self.keys.iter().rposition(|(from, _)| *from <= wall_now);
        begun.unwrap_or(0)
    }
}

fn pseudonymize_with(key: &hmac::Key, endpoint: RemoteEndpoint) -> RemoteEndpoint {
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
    let key = key_file::parse_key(digits.trim())?;

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
        text.parse::<HashKeys>().unwrap()
    }

    fn endpoint(client: &str) -> RemoteEndpoint {
        RemoteEndpoint::new("192.0.2.1", client.parse().unwrap(), Default::default())
    }

    // Another implementation of HMAC-SHA-256 gave the expected digits.
    #[test]
    fn pseudonym_is_keyed_hash_of_prefix() {
        let keys = rotating();
        let name = keys.pseudonymize(endpoint("198.51.100.7"), time("2026-01-10T00:00:00Z"));
        assert_eq!(name.to_string(), "192.0.2.1>~314e7592f2a41820ab3b063781837f08");
        let neighbour = keys.pseudonymize(endpoint("198.51.100.9"), time("2026-01-10T00:00:00Z"));
        assert_eq!(neighbour, name);
        let other = keys.pseudonymize(endpoint("198.51.101.7"), time("2026-01-10T00:00:00Z"));
        assert_ne!(other, name);
        assert_eq!(keys.pseudonymize(name.clone(), time("2026-01-10T00:00:00Z")), name);
    }

    #[test]
    fn key_settles_for_a_minute_after_its_time() {
        let keys = rotating();
        let here = endpoint("198.51.100.7");
        let [next, first] = &keys.pseudonyms(&here)[..] else { panic!("two pseudonyms") };
        for (now, name, settling) in [
            ("2025-01-01T00:00:00Z", first, false),
            ("2026-01-01T00:00:10Z", first, false),
            ("2026-01-31T23:59:59Z", first, false),
            ("2026-02-01T00:00:00Z", next, true),
            ("2026-02-01T00:00:59Z", next, true),
            ("2026-02-01T00:01:00Z", next, false),
        ] {
            assert_eq!(keys.pseudonymize(here.clone(), time(now)), *name, "{now}");
            assert_eq!(keys.is_settling(time(now)), settling, "{now}");
        }
    }

    #[test]
    fn bad_hash_keys_are_refused_without_repeating_them() {
        for (text, expected) in [
            ("", "no key"),
            ("# nothing\n", "no key"),
            (KEY, "line 1"),
            ("\n2026-01-01T00:00:00Z secret\n", "line 2"),
            (&format!("tomorrow {KEY}"), "line 1"),
            (&format!("2026-01-01T00:00:00Z {KEY}00"), "line 1"),
            (&format!("2026-01-01T00:00:00Z +f{}", &KEY[2..]), "line 1"),
        ] {
            let error = text.parse::<HashKeys>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains("secret") && !error.contains(&KEY[2..10]), "{error}");
        }
    }
}
