//! Basic authentication (RFC 7617): users and their passwords, which a file holds as bcrypt hashes.
//!
//! To check a password takes a tenth of a second by design, so that threads of their own do it, and
//! the results are kept: a request whose credentials were checked before is decided at once.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use bcrypt::HashParts;
use path_store::key_file;
use path_store::key_file::KeyFile;
use path_store::key_file::KeyText;
use quick_cache::sync::Cache;
use ring::digest::SHA256_OUTPUT_LEN;
use ring::hmac;
use ring::rand::SystemRandom;

use crate::content::access::password_checker::CheckWaiter;
use crate::content::access::password_checker::PasswordChecker;
use crate::content::access::refusal::AccessRefusal;
use crate::http::request::Request;

/// Cost of a hash, the binary logarithm of its rounds. More would take a thread for seconds.
const COST_MAX: u32 = 14;

/// Results that are kept of one file: of right passwords, and of wrong ones apart, so that nobody
/// displaces the right ones.
const RESULTS_MAX: usize = 4096;

/// Authentication that a rule asks for.
#[derive(Clone, Debug)]
pub struct BasicAuth {
    pub users: KeyFile<Htpasswd>,
    pub realm: Arc<str>,
    pub checker: Arc<PasswordChecker>,
}

/// Users of a file, and the results of checks since it was read.
pub struct Htpasswd {
    hashes: HashMap<String, String>,

    /// Hash of the check that a name without one gets, so that it takes as long as that of the user for
    /// whom it takes longest.
    any_hash: String,

    /// Key of the digests by which results are kept.
    digest_key: hmac::Key,
    right: Cache<Digest, ()>,
    wrong: Cache<Digest, ()>,
}

type Digest = [u8; SHA256_OUTPUT_LEN];

/// Password to check, which takes long.
pub struct PasswordCheck {
    users: Arc<Htpasswd>,
    checker: Arc<PasswordChecker>,

    /// Client that waits for the result.
    client: IpAddr,
    hash: Option<String>,
    password: Vec<u8>,
    digest: Digest,
}

/// Reason why a request does not get what it asks for, now.
#[derive(Debug)]
pub enum Denial {
    Refused(AccessRefusal),

    /// A password has to be checked before.
    Unchecked(Box<PasswordCheck>),
}

impl From<AccessRefusal> for Denial {
    fn from(refusal: AccessRefusal) -> Self {
        Self::Refused(refusal)
    }
}

impl fmt::Debug for Htpasswd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Htpasswd").field("users", &self.hashes.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for PasswordCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordCheck").field("client", &self.client).finish_non_exhaustive()
    }
}

impl KeyText for Htpasswd {
    const MAKE: &'static str = "make one with htpasswd -B -c";
}

/// Parses lines of `htpasswd -B`. Empty lines and those that begin with # are skipped. The error
/// never repeats the text.
impl FromStr for Htpasswd {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut hashes = HashMap::new();
        let mut costliest = None;
        for (number, line) in key_file::lines(text) {
            let user = line.split_once(':').filter(|(name, _)| !name.is_empty());
            let (name, hash) = user.ok_or_else(|| {
                format!("line {number}: expected a user and a hash; add one with htpasswd -B")
            })?;
            let parts = HashParts::from_str(hash).map_err(|_| {
                format!("line {number}: the hash is not bcrypt; replace it with htpasswd -B")
            })?;
            if parts.get_cost() > COST_MAX {
                return Err(format!(
                    "line {number}: the hash has a cost of {}, more than {COST_MAX}; replace it with \
                     htpasswd -B -C 10",
                    parts.get_cost()
                ));
            }
            costliest = costliest.max(Some((parts.get_cost(), hash.to_owned())));
            if hashes.insert(name.to_owned(), hash.to_owned()).is_some() {
                return Err(format!("line {number}: the user is there already; remove one line"));
            }
        }
        let (_, any_hash) = costliest.ok_or("holds no user; add one with htpasswd -B")?;
        let digest_key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        let digest_key = digest_key.map_err(|_| "the system provides no random bytes")?;
        let (right, wrong) = (Cache::new(RESULTS_MAX), Cache::new(RESULTS_MAX));
        Ok(Self { hashes, any_hash, digest_key, right, wrong })
    }
}

impl BasicAuth {
    /// Returns the user whose credentials a request of a client has.
    ///
    /// # Errors
    ///
    /// It has not, or the password has to be checked first.
    pub fn check(&self, request: &Request<'_>, client: IpAddr) -> Result<Box<str>, Denial> {
        let refused =
            || Denial::Refused(AccessRefusal::Credentials { realm: Arc::clone(&self.realm) });
        let (user, password) =
            request.value("authorization").and_then(credentials).ok_or_else(refused)?;
        let users = self.users.get();
        let digest = users.digest(&user, &password);
        if users.right.get(&digest).is_some() {
            return Ok(String::from_utf8_lossy(&user).into());
        }
        if users.wrong.get(&digest).is_some() {
            return Err(refused());
        }
        let hash = std::str::from_utf8(&user).ok().and_then(|user| users.hashes.get(user)).cloned();
        let checker = Arc::clone(&self.checker);
        let check = PasswordCheck { users, checker, client, hash, password, digest };
        Err(Denial::Unchecked(Box::new(check)))
    }
}

impl Htpasswd {
    fn digest(&self, user: &[u8], password: &[u8]) -> Digest {
        let text = [user, b":", password].concat();
        let mut digest = [0; SHA256_OUTPUT_LEN];
        digest.copy_from_slice(hmac::sign(&self.digest_key, &text).as_ref());
        digest
    }
}

impl PasswordCheck {
    /// Has the password checked on another thread, which then wakes the request.
    ///
    /// # Errors
    ///
    /// Too many wait.
    pub fn start(self, waiter: Box<dyn CheckWaiter>) -> Result<(), AccessRefusal> {
        let checker = Arc::clone(&self.checker);
        let client = self.client;
        checker.push(client, move || self.run(), waiter)
    }

    /// Checks the password. Takes long.
    pub fn run(&self) {
        let Self { users, digest, .. } = self;
        // Many requests of a page may have waited for the same.
        if users.right.get(digest).is_some() || users.wrong.get(digest).is_some() {
            return;
        }
        let hash = self.hash.as_deref().unwrap_or(&users.any_hash);
        let is_right = bcrypt::verify(&self.password, hash).unwrap_or(false);
        match is_right && self.hash.is_some() {
            true => users.right.insert(*digest, ()),
            false => users.wrong.insert(*digest, ()),
        }
    }
}

/// Returns the user and the password of an `authorization` field.
fn credentials(field: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    let (scheme, encoded) = field.split_once(' ')?;
    let encoded = Some(encoded.trim()).filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let decoded = boring::base64::decode_block(encoded).ok()?;
    let colon = decoded.iter().position(|byte| *byte == b':')?;
    let (user, password) = decoded.split_at(colon);
    Some((user.to_vec(), password[1..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: &str = "u:$2y$04$QZ3XsypPeDWrsJYv5f2y4.Y9.mTIOz3gJVWD1h7U2Rw3BHpUCpeji";

    #[test]
    fn field_has_user_and_password() {
        for (field, expected) in [
            ("Basic dTpw", Some(("u", "p"))),
            ("basic  dTpw ", Some(("u", "p"))),
            ("Basic dTpwOnE=", Some(("u", "p:q"))),
            ("Basic Og==", Some(("", ""))),
            ("Basic dXA=", None),
            ("Basic dTp", None),
            ("Basic dT*w", None),
            ("Basic", None),
            ("Bearer dTpw", None),
            ("", None),
        ] {
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            let found = credentials(field).map(|(user, password)| (text(user), text(password)));
            let expected = expected.map(|(user, password)| (user.to_owned(), password.to_owned()));
            assert_eq!(found, expected, "{field}");
        }
    }

    #[test]
    fn error_names_line_and_no_secret() {
        for (text, named) in [
            ("".to_owned(), "holds no user"),
            ("# nobody\n\n".to_owned(), "holds no user"),
            (format!("{USER}\nv"), "line 2: expected a user and a hash"),
            (":$2y$04$".to_owned(), "line 1: expected a user and a hash"),
            ("u:secret".to_owned(), "line 1: the hash is not bcrypt"),
            ("u:$apr1$12345678$secretsecretsecret".to_owned(), "line 1: the hash is not bcrypt"),
            (USER.replace("$04$", "$15$"), "line 1: the hash has a cost of 15"),
            (format!("{USER}\n{USER}"), "line 2: the user is there already"),
        ] {
            let error = text.parse::<Htpasswd>().unwrap_err();
            assert!(error.contains(named) && !error.contains("secret"), "{error}");
            assert!(!error.contains('\n') && !error.contains("XsypPeDWrs"), "{error}");
        }
        assert_eq!(format!("{USER}\nv{USER}").parse::<Htpasswd>().unwrap().hashes.len(), 2);
    }
}
