//! Shared secrets of a fleet (`--secrets`): keys for tokens, stateless resets, session tickets and
//! forwarded packets that any worker of any server accepts.
//!
//! Keys are derived from a secret by HKDF with SHA-256 (RFC 5869). The first secret in the file
//! seals; every secret opens. A byte in what was sealed names the secret.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use anyhow::bail;
use anyhow::Context;
use path_store::key_file;
use path_store::key_file::KeyFile;
use path_store::key_file::KeyText;
use path_store::key_file::KEY_BYTES;
use ring::aead;
use ring::error::Unspecified;
use ring::hkdf;
use ring::hmac;
use ring::rand::SecureRandom;
use ring::rand::SystemRandom;

/// Separates these keys from those of other programs with the same secret.
const SALT: &[u8] = b"quiche-resume edge-server secrets 1";

/// HKDF labels, one for each use.
const NAME: &[u8] = b"name";
const TOKEN: &[u8] = b"token";
const STATELESS_RESET: &[u8] = b"stateless reset";
const TICKET_NAME: &[u8] = b"ticket name";
const TICKET_CIPHER: &[u8] = b"ticket cipher";
const TICKET_MAC: &[u8] = b"ticket mac";
const ARM: &[u8] = b"resume arm";
const ENVELOPE: &[u8] = b"envelope";
const ID_MASK: &[u8] = b"connection ID mask";

/// Key of the arms without a file of secrets. A client's arm has to outlive the process, which a
/// random secret does not, and is no secret itself.
const ARM_KEY: &[u8] = b"quiche-resume edge-server resume arm 1";

/// Length of the salt of a token, in bytes.
pub const TOKEN_SALT_BYTES: usize = 16;

/// The secrets in use, which are reloaded when the file changes.
pub type SharedSecrets = KeyFile<Secrets>;

/// List of secrets, at least one.
#[derive(Debug)]
pub struct Secrets {
    first: Secret,
    others: Vec<Secret>,
    arm: hmac::Key,
}

/// Keys derived from one secret.
pub struct Secret {
    name: u8,
    root: hkdf::Prk,
    stateless_reset: hmac::Key,
    envelope: hmac::Key,
    id_mask: hmac::Key,
    ticket: TicketKeys,
}

/// Keys that seal session tickets.
pub struct TicketKeys {
    /// Key name in the ticket (RFC 5077, 4).
    pub name: [u8; 16],
    pub cipher: [u8; 32],
    pub mac: [u8; 32],
}

/// Parses lines of 64 hexadecimal digits. Empty lines and those that begin with # are skipped.
/// The error never repeats the text.
impl FromStr for Secrets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut secrets: Vec<Secret> = Vec::new();
        let mut keys: Vec<(usize, [u8; KEY_BYTES])> = Vec::new();
        for (number, line) in key_file::lines(text) {
            let key = key_file::parse_key(line).ok_or_else(|| {
                format!(
                    "line {number}: expected a secret of {} hexadecimal digits; {}",
                    2 * KEY_BYTES,
                    Self::MAKE
                )
            })?;
            let secret = Secret::new(&key);
            if let Some(same) = secrets.iter().position(|other| other.name == secret.name) {
                let (earlier, other) = keys[same];
                return Err(match other == key {
                    true => format!("lines {earlier} and {number} have the same secret; remove one"),
                    false => format!(
                        "lines {earlier} and {number} have secrets of the same one-byte name; replace \
                         the newer one, which is first as a rule, with another random secret"
                    ),
                });
            }
            secrets.push(secret);
            keys.push((number, key));
        }
        if secrets.is_empty() {
            return Err(format!("holds no secret; {}", Self::MAKE));
        }
        let first = secrets.remove(0);
        let arm: [u8; 32] = expand(&first.root, ARM);
        let arm = hmac::Key::new(hmac::HMAC_SHA256, &arm);
        Ok(Self { first, others: secrets, arm })
    }
}

impl KeyText for Secrets {
    const MAKE: &'static str = "make one with openssl rand -hex 32";
}

/// Reads the secrets from a file and watches it for changes, or generates a random one.
///
/// # Errors
///
/// One line that names the unusable file.
pub fn open(path: Option<&Path>) -> anyhow::Result<SharedSecrets> {
    match path {
        Some(path) => SharedSecrets::watch(path).context("cannot use --secrets"),
        None => match Secrets::random() {
            Ok(secrets) => Ok(SharedSecrets::fixed(secrets)),
            Err(_) => bail!("cannot create a secret: the system provides no random bytes"),
        },
    }
}

impl Secrets {
    /// Generates a random secret.
    ///
    /// # Errors
    ///
    /// The system has no randomness.
    pub fn random() -> Result<Self, Unspecified> {
        let mut key = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut key)?;
        let arm = hmac::Key::new(hmac::HMAC_SHA256, ARM_KEY);
        Ok(Self { first: Secret::new(&key), others: Vec::new(), arm })
    }

    /// Returns the secret that seals.
    pub fn current(&self) -> &Secret {
        &self.first
    }

    /// Returns the key from which clients' arms are drawn (`--resume-share`).
    pub fn arm_key(&self) -> &hmac::Key {
        &self.arm
    }

    /// Returns the secret of this name.
    pub fn named(&self, name: u8) -> Option<&Secret> {
        self.iter().find(|secret| secret.name == name)
    }

    /// Returns the ticket keys of this key name.
    pub fn ticket_keys_named(&self, name: &[u8; 16]) -> Option<&TicketKeys> {
        self.iter().map(|secret| &secret.ticket).find(|keys| keys.name == *name)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Secret> {
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
        let envelope: [u8; 32] = expand(&root, ENVELOPE);
        let envelope = hmac::Key::new(hmac::HMAC_SHA256, &envelope);
        let id_mask: [u8; 32] = expand(&root, ID_MASK);
        let id_mask = hmac::Key::new(hmac::HMAC_SHA256, &id_mask);
        Self { name, root, stateless_reset, envelope, id_mask, ticket }
    }

    pub fn name(&self) -> u8 {
        self.name
    }

    /// Returns the key of the one token with this salt.
    pub fn token_key(&self, salt: &[u8; TOKEN_SALT_BYTES]) -> aead::LessSafeKey {
        let info = [TOKEN, salt];
        let key = self.root.expand(&info, &aead::AES_256_GCM).map(aead::UnboundKey::from);
        aead::LessSafeKey::new(key.expect("HKDF derives keys of this length"))
    }

    /// Returns the key from which stateless reset tokens are derived.
    pub fn stateless_reset_key(&self) -> &hmac::Key {
        &self.stateless_reset
    }

    /// Returns the key that hides the secret's name in connection IDs.
    pub fn id_mask_key(&self) -> &hmac::Key {
        &self.id_mask
    }

    /// Returns the key that authenticates what servers forward to each other.
    pub fn envelope_key(&self) -> &hmac::Key {
        &self.envelope
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
    struct KeyLength(usize);

    impl hkdf::KeyType for KeyLength {
        fn len(&self) -> usize {
            self.0
        }
    }

    let mut key = [0; N];
    let filled = root.expand(&[label], KeyLength(N)).and_then(|okm| okm.fill(&mut key));
    filled.expect("HKDF derives keys of this length");
    key
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub const ONE: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    pub const OTHER: &str = "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    /// Secrets from lines, without a file.
    pub fn shared(lines: &[&str]) -> SharedSecrets {
        SharedSecrets::fixed(lines.join("\n").parse().unwrap())
    }

    #[test]
    fn first_secret_seals_and_all_are_found() {
        let secrets: Secrets = format!("# two\n{ONE}\n\n{OTHER}\n").parse().unwrap();
        let turned: Secrets = format!("{OTHER}\n{ONE}").parse().unwrap();
        let (one, other) = (secrets.current(), turned.current());
        assert_ne!(one.name(), other.name());
        for secrets in [&secrets, &turned] {
            for secret in [one, other] {
                let found = secrets.named(secret.name()).unwrap();
                assert_eq!(found.ticket.cipher, secret.ticket.cipher);
                let found = secrets.ticket_keys_named(&secret.ticket.name).unwrap();
                assert_eq!(found.mac, secret.ticket.mac);
            }
        }
        let alone: Secrets = ONE.parse().unwrap();
        assert!(alone.named(other.name()).is_none());
        assert!(alone.ticket_keys_named(&other.ticket.name).is_none());
    }

    #[test]
    fn derived_keys_differ() {
        let secrets: Secrets = ONE.parse().unwrap();
        let keys = secrets.current().ticket_keys();
        assert_ne!(keys.cipher, keys.mac);
        assert_ne!(keys.name, keys.cipher[..16]);
        let random = Secrets::random().unwrap();
        assert_ne!(random.current().ticket.cipher, Secrets::random().unwrap().first.ticket.cipher);
    }

    // The expected digits are from another implementation of HKDF.
    #[test]
    fn derived_key_matches_test_vector() {
        let secrets: Secrets = ONE.parse().unwrap();
        let keys = secrets.current().ticket_keys();
        let hex: String = keys.name.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "eef72533c3e0d4516fa86808c420c4c9");
    }

    #[test]
    fn byte_order_mark_is_no_part_of_a_secret() {
        let name = |text: &str| text.parse::<Secrets>().unwrap().current().name();
        assert_eq!(name(&format!("\u{feff}{ONE}\r\n")), name(ONE));
    }

    #[test]
    fn invalid_secrets_error_hides_text() {
        let twice = format!("{ONE}\n{ONE}");
        let name = |key: &String| key.parse::<Secrets>().unwrap().current().name();
        let mut keys = (0..).map(|number| format!("{number:064x}"));
        let namesake = keys.find(|key| name(key) == name(&ONE.to_owned())).unwrap();
        let alike = format!("{ONE}\n{namesake}");
        for (text, expected) in [
            ("", "holds no secret"),
            ("# nothing\n", "holds no secret"),
            ("\nhunter2\n", "line 2"),
            (&ONE[1..], "line 1"),
            (&twice, "lines 1 and 2 have the same secret; remove one"),
            (&alike, "lines 1 and 2 have secrets of the same one-byte name"),
        ] {
            let error = text.parse::<Secrets>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains("hunter2") && !error.contains(&ONE[2..10]), "{error}");
        }
        assert!(!format!("{:?}", ONE.parse::<Secrets>()).contains("cipher"));
    }
}
