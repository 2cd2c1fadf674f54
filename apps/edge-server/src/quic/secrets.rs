//! Secrets that the workers of a server, and servers, share: what tokens, stateless
//! resets and session tickets of one of them are made with, the others can open.
//!
//! Owns the lines of `--secrets` and the keys that come of a secret, by HKDF with
//! SHA-256 (RFC 5869). The first secret makes, every one opens; a byte names the
//! secret that something was made with.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use anyhow::bail;
use anyhow::Context;
use path_store::key_file;
use path_store::key_file::KeyFile;
use path_store::key_file::KEY_BYTES;
use ring::aead;
use ring::error::Unspecified;
use ring::hkdf;
use ring::hmac;
use ring::rand::SecureRandom;
use ring::rand::SystemRandom;

/// Sets these secrets apart from those of other programs.
const SALT: &[u8] = b"quiche-resume edge-server secrets 1";

/// What each key is for.
const NAME: &[u8] = b"name";
const TOKEN: &[u8] = b"token";
const STATELESS_RESET: &[u8] = b"stateless reset";
const TICKET_NAME: &[u8] = b"ticket name";
const TICKET_CIPHER: &[u8] = b"ticket cipher";
const TICKET_MAC: &[u8] = b"ticket mac";

/// Length of the salt of a token, in bytes.
pub const TOKEN_SALT_BYTES: usize = 16;

/// The secrets in force, which may change at any time.
pub type SharedSecrets = KeyFile<Secrets>;

/// Some secrets, at least one.
#[derive(Debug)]
pub struct Secrets {
    first: Secret,
    others: Vec<Secret>,
}

/// The keys that come of one secret.
pub struct Secret {
    name: u8,
    root: hkdf::Prk,
    stateless_reset: hmac::Key,
    ticket: TicketKeys,
}

/// What session tickets are sealed with.
pub struct TicketKeys {
    /// Tells, in a ticket, which keys it was sealed with.
    pub name: [u8; 16],
    pub cipher: [u8; 32],
    pub mac: [u8; 32],
}

/// Lines of 64 hexadecimal digits. Empty lines and those that begin with # are
/// skipped. The error says why they are no secrets, without them.
impl FromStr for Secrets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut secrets: Vec<Secret> = Vec::new();
        for (number, line) in key_file::lines(text) {
            let key = key_file::parse_key(line).ok_or_else(|| {
                format!("line {number}: expected a secret of {} hexadecimal digits", 2 * KEY_BYTES)
            })?;
            let secret = Secret::new(&key);
            if secrets.iter().any(|other| other.name == secret.name) {
                return Err(format!(
                    "line {number}: cannot be told from a line above, as one pair in 256; make \
                     another secret"
                ));
            }
            secrets.push(secret);
        }
        if secrets.is_empty() {
            return Err("there is no secret in it".to_owned());
        }
        let first = secrets.remove(0);
        Ok(Self { first, others: secrets })
    }
}

/// Those of a file, read again when it changes, or a random one.
///
/// # Errors
///
/// One line that names the file which cannot be used.
pub fn open(path: Option<&Path>) -> anyhow::Result<SharedSecrets> {
    match path {
        Some(path) => SharedSecrets::watch(path)
            .context("cannot use --secrets, name a readable file of secrets"),
        None => match Secrets::random() {
            Ok(secrets) => Ok(SharedSecrets::fixed(secrets)),
            Err(_) => bail!("cannot create a secret: the system provides no random bytes"),
        },
    }
}

impl Secrets {
    /// A random one.
    ///
    /// # Errors
    ///
    /// The system has no randomness.
    pub fn random() -> Result<Self, Unspecified> {
        let mut key = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut key)?;
        Ok(Self { first: Secret::new(&key), others: Vec::new() })
    }

    /// The secret to make something with.
    pub fn current(&self) -> &Secret {
        &self.first
    }

    /// The secret of this name.
    pub fn named(&self, name: u8) -> Option<&Secret> {
        self.iter().find(|secret| secret.name == name)
    }

    /// The keys of a ticket that bears this name.
    pub fn of_ticket(&self, name: &[u8; 16]) -> Option<&TicketKeys> {
        self.iter().map(|secret| &secret.ticket).find(|keys| keys.name == *name)
    }

    fn iter(&self) -> impl Iterator<Item = &Secret> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

impl Secret {
    fn new(secret: &[u8; KEY_BYTES]) -> Self {
        let root = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT).extract(secret);
        let [name] = expand(&root, NAME);
        let stateless_reset: [u8; 32] = expand(&root, STATELESS_RESET);
        let ticket = TicketKeys {
            name: expand(&root, TICKET_NAME),
            cipher: expand(&root, TICKET_CIPHER),
            mac: expand(&root, TICKET_MAC),
        };
        let stateless_reset = hmac::Key::new(hmac::HMAC_SHA256, &stateless_reset);
        Self { name, root, stateless_reset, ticket }
    }

    pub fn name(&self) -> u8 {
        self.name
    }

    /// The key of the one token that has this salt.
    pub fn token_key(&self, salt: &[u8; TOKEN_SALT_BYTES]) -> aead::LessSafeKey {
        let info = [TOKEN, salt];
        let key = self.root.expand(&info, &aead::AES_256_GCM).map(aead::UnboundKey::from);
        aead::LessSafeKey::new(key.expect("HKDF makes keys of this length"))
    }

    /// What stateless reset tokens are made with.
    pub fn stateless_reset_key(&self) -> &hmac::Key {
        &self.stateless_reset
    }

    pub fn ticket_keys(&self) -> &TicketKeys {
        &self.ticket
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("name", &self.name).finish_non_exhaustive()
    }
}

fn expand<const N: usize>(root: &hkdf::Prk, label: &[u8]) -> [u8; N] {
    struct Length(usize);

    impl hkdf::KeyType for Length {
        fn len(&self) -> usize {
            self.0
        }
    }

    let mut key = [0; N];
    let filled = root.expand(&[label], Length(N)).and_then(|okm| okm.fill(&mut key));
    filled.expect("HKDF makes keys of this length");
    key
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub const ONE: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    pub const OTHER: &str = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    /// Secrets of no file.
    pub fn shared(lines: &[&str]) -> SharedSecrets {
        SharedSecrets::fixed(lines.join("\n").parse().unwrap())
    }

    #[test]
    fn the_first_secret_makes_and_every_one_is_found() {
        let secrets: Secrets = format!("# two\n{ONE}\n\n{OTHER}\n").parse().unwrap();
        let turned: Secrets = format!("{OTHER}\n{ONE}").parse().unwrap();
        let (one, other) = (secrets.current(), turned.current());
        assert_ne!(one.name(), other.name());
        for secrets in [&secrets, &turned] {
            for secret in [one, other] {
                let found = secrets.named(secret.name()).unwrap();
                assert_eq!(found.ticket.cipher, secret.ticket.cipher);
                let found = secrets.of_ticket(&secret.ticket.name).unwrap();
                assert_eq!(found.mac, secret.ticket.mac);
            }
        }
        let alone: Secrets = ONE.parse().unwrap();
        assert!(alone.named(other.name()).is_none());
        assert!(alone.of_ticket(&other.ticket.name).is_none());
    }

    #[test]
    fn keys_of_one_secret_have_nothing_in_common() {
        let secrets: Secrets = ONE.parse().unwrap();
        let keys = secrets.current().ticket_keys();
        assert_ne!(keys.cipher, keys.mac);
        assert_ne!(keys.name, keys.cipher[..16]);
        let random = Secrets::random().unwrap();
        assert_ne!(random.current().ticket.cipher, Secrets::random().unwrap().first.ticket.cipher);
    }

    // The expected digits are of another implementation of HKDF.
    #[test]
    fn keys_are_those_of_other_nodes() {
        let secrets: Secrets = ONE.parse().unwrap();
        let keys = secrets.current().ticket_keys();
        let hex: String = keys.name.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "eef72533c3e0d4516fa86808c420c4c9");
    }

    #[test]
    fn what_is_no_file_of_secrets_is_refused_without_repeating_it() {
        let twice = format!("{ONE}\n{ONE}");
        for (text, expected) in [
            ("", "no secret"),
            ("# nothing\n", "no secret"),
            ("\nhunter2\n", "line 2"),
            (&ONE[1..], "line 1"),
            (&twice, "line 2"),
        ] {
            let error = text.parse::<Secrets>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains("hunter2") && !error.contains(&ONE[2..10]), "{error}");
        }
        assert!(!format!("{:?}", ONE.parse::<Secrets>()).contains("cipher"));
    }
}
