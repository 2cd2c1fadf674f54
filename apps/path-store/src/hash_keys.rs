//! Pseudonyms of client subnets: keyed hashes, so that no client address is at rest.
//!
//! Owns the lines of the file of keys, which key is in force when, and the hash
//! (HMAC-SHA-256, cut to 128 bits). Whoever has a key can try all subnets: the file
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
use crate::key_file::KEY_BYTES;

/// After a key has taken over, nothing is claimed for so long: claims under the
/// one before lapse meanwhile, also those of machines whose clocks are late.
const SETTLING: Duration = Duration::from_secs(60);

/// Keys, each in force from its time until the next one's.
#[derive(Clone, Debug)]
pub struct HashKeys {
    /// In the order of their times.
    keys: Vec<(SystemTime, hmac::Key)>,
}

/// The keys of a file that may be edited while they are in use.
pub type WatchedHashKeys = KeyFile<HashKeys>;

/// Lines of a time (RFC 3339, such as `2026-01-31T00:00:00Z`) and 64 hexadecimal
/// digits. Empty lines and those that begin with # are skipped. The error says
/// why it is no file of keys, without the keys.
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

impl HashKeys {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// One line that names the file.
    pub fn read(path: &Path) -> Result<Self, KeyFileError> {
        key_file::read(path)
    }

    /// Returns the endpoint under its pseudonym of now: the prefix of the client is
    /// replaced by its hash. Before the first key's time, the first key counts.
    pub fn pseudonymize(&self, endpoint: RemoteEndpoint, wall_now: SystemTime) -> RemoteEndpoint {
        let (_, key) = &self.keys[self.current(wall_now)];
        pseudonymize_with(key, endpoint)
    }

    /// Returns the endpoint under all its pseudonyms, the latest first.
    pub fn names(&self, endpoint: &RemoteEndpoint) -> Vec<RemoteEndpoint> {
        let keys = self.keys.iter().rev();
        keys.map(|(_, key)| pseudonymize_with(key, endpoint.clone())).collect()
    }

    /// Tells whether a key has taken over from another a moment ago: nothing may be claimed.
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

    // The expected digits are of another implementation of HMAC-SHA-256.
    #[test]
    fn a_name_is_the_keyed_hash_of_the_prefix() {
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
            assert_eq!(keys.pseudonymize(here.clone(), time(now)), *name, "{now}");
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
            let error = text.parse::<HashKeys>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains("secret") && !error.contains(&KEY[2..10]), "{error}");
        }
    }
}
