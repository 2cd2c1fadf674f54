//! Signed URLs: an HMAC with SHA-256 over an expiry and a path, or a folder that the path is in.

use std::net::IpAddr;
use std::str::FromStr;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use ipnet::IpNet;
use path_store::key_file;
use path_store::key_file::KeyText;
use percent_encoding::percent_decode_str;
use ring::hmac;

use crate::config::subnets::Subnets;
use crate::content::access::refusal::AccessRefusal;

/// Parameters of the query.
const EXPIRES: &str = "expires";
const CLIENT: &str = "client";
const SIGNATURE: &str = "signature";

/// Shortest secret, in characters.
const SECRET_CHARS_MIN: usize = 32;

/// Folders of a path, from the root, that a signature may be for.
const FOLDERS_MAX: usize = 32;

/// Secrets of a file. Any of them may have signed a URL.
#[derive(Debug)]
pub struct SigningSecrets(Vec<hmac::Key>);

/// Parameters of a signed URL, as they were signed.
#[derive(Default)]
struct SignedQuery {
    expires: Option<String>,

    /// Subnet of the clients that may use the URL, if it is for some alone.
    client: Option<String>,
    signature: Option<String>,
}

impl KeyText for SigningSecrets {
    const MAKE: &'static str = "make one with openssl rand -hex 32";
}

/// Parses lines of a secret each, whose characters are the key. Empty lines and those that begin
/// with # are skipped. The error never repeats the text.
impl FromStr for SigningSecrets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let key = |(number, line): (usize, &str)| {
            let is_plain = line.bytes().all(|byte| byte.is_ascii_graphic());
            match is_plain && line.len() >= SECRET_CHARS_MIN {
                true => Ok(hmac::Key::new(hmac::HMAC_SHA256, line.as_bytes())),
                false => Err(format!(
                    "line {number}: expected a secret of at least {SECRET_CHARS_MIN} printable \
                     characters; make one with openssl rand -hex 32"
                )),
            }
        };
        let keys = key_file::lines(text).map(key).collect::<Result<Vec<_>, _>>()?;
        match keys.is_empty() {
            true => Err("holds no secret; make one with openssl rand -hex 32".to_owned()),
            false => Ok(Self(keys)),
        }
    }
}

impl SigningSecrets {
    /// Checks that a query has a signature for a decoded path, at this time and for these clients.
    ///
    /// # Errors
    ///
    /// It has none that is valid, or no longer.
    pub fn check(
        &self,
        path: &str,
        query: &str,
        clients: &[IpAddr],
        wall_now: SystemTime,
    ) -> Result<(), AccessRefusal> {
        let invalid = || AccessRefusal::Signature;
        let query = SignedQuery::read(query).ok_or_else(invalid)?;
        let (expires, signature) =
            query.expires.as_ref().zip(query.signature.as_ref()).ok_or_else(invalid)?;
        let signature = key_file::parse_key(signature).ok_or_else(invalid)?;
        let expiry: u64 = digits(expires).ok_or_else(invalid)?;
        let subnet =
            query.client.as_deref().map(parse_subnet).map(|subnet| subnet.ok_or_else(invalid));
        let subnet = subnet.transpose()?;
        let start = query.signed_start(expires);
        if !self.0.iter().any(|key| is_signed(key, &start, path, &signature)) {
            return Err(invalid());
        }
        let is_client =
            |client: &IpAddr| subnet.as_ref().is_none_or(|subnet| subnet.contains(*client));
        if !clients.iter().all(is_client) {
            return Err(invalid());
        }
        let now = wall_now.duration_since(UNIX_EPOCH).unwrap_or_default();
        match now.as_secs() < expiry {
            true => Ok(()),
            false => Err(AccessRefusal::Expired),
        }
    }
}

impl SignedQuery {
    /// Reads the parameters. Returns `None` if one is there twice.
    fn read(query: &str) -> Option<Self> {
        let mut found = Self::default();
        for (name, value) in parameters(query) {
            let slot = match name {
                EXPIRES => &mut found.expires,
                CLIENT => &mut found.client,
                SIGNATURE => &mut found.signature,
                _ => continue,
            };
            let value = percent_decode_str(value).decode_utf8().ok()?.into_owned();
            if slot.replace(value).is_some() {
                return None;
            }
        }
        Some(found)
    }

    /// Returns the first line of what was signed.
    fn signed_start(&self, expires: &str) -> String {
        let client = self.client.as_ref().map(|client| format!("&{CLIENT}={client}"));
        format!("{EXPIRES}={expires}{}\n", client.unwrap_or_default())
    }
}

/// Returns a query, which may begin with its question mark, without the parameters of the signature.
pub fn without_signature(query: &str) -> String {
    let Some(parts) = query.strip_prefix('?') else { return query.to_owned() };
    let is_kept = |part: &&str| {
        let name = part.split_once('=').map_or(*part, |(name, _)| name);
        ![EXPIRES, CLIENT, SIGNATURE].contains(&name)
    };
    let kept: Vec<_> = parts.split('&').filter(is_kept).collect();
    match kept.is_empty() {
        true => String::new(),
        false => format!("?{}", kept.join("&")),
    }
}

/// Returns the parameters of a query, which may begin with its question mark.
fn parameters(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let query = query.strip_prefix('?').unwrap_or(query);
    query.split('&').filter_map(|part| part.split_once('='))
}

/// Returns whether a signature is for a path, or for one of the folders that it is in.
fn is_signed(key: &hmac::Key, start: &str, path: &str, signature: &[u8; 32]) -> bool {
    let is_equal =
        |context: &hmac::Context| boring::memcmp::eq(context.clone().sign().as_ref(), signature);
    let mut context = hmac::Context::with_key(key);
    context.update(start.as_bytes());
    let mut is_found = false;
    let mut parts = path.split_inclusive('/');
    for part in parts.by_ref().take(FOLDERS_MAX) {
        context.update(part.as_bytes());
        is_found |= part.ends_with('/') && is_equal(&context);
    }
    parts.for_each(|part| context.update(part.as_bytes()));
    is_found || is_equal(&context)
}

fn digits(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

fn parse_subnet(text: &str) -> Option<Subnets> {
    let subnet = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    Some(Subnets::new(&[subnet.ok()?]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";
    const OTHER: &str = "an-older-secret-of-the-same-length";

    /// Returns a query, signed for a path or folder.
    fn signed(secret: &str, parameters: &str, path: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let tag = hmac::sign(&key, format!("{parameters}\n{path}").as_bytes());
        let digits: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("?{parameters}&signature={digits}")
    }

    #[test]
    fn signature_is_for_path_or_folder_until_it_expires() {
        let secrets: SigningSecrets = format!("# new\n{SECRET}\n{OTHER}\n").parse().unwrap();
        let now = UNIX_EPOCH + Duration::from_secs(1000);
        let of = |parameters, path| signed(SECRET, parameters, path);
        let (valid, invalid) = (Ok(()), Err(AccessRefusal::Signature));
        let file = of("expires=1001", "/video/42/a b.ts");
        let tampered = file.replace("1001", "2001");
        let upper =
            file.to_uppercase().replace("EXPIRES", "expires").replace("SIGNATURE", "signature");
        for (path, query, expected) in [
            ("/video/42/a b.ts", file.clone(), valid.clone()),
            ("/video/42/a b.ts", upper, valid.clone()),
            ("/video/42/a b.ts", format!("{file}&x=1"), valid.clone()),
            ("/video/42/a b.ts", signed(OTHER, "expires=1001", "/video/42/a b.ts"), valid.clone()),
            ("/video/42/a b.ts", signed("x", "expires=1001", "/video/42/a b.ts"), invalid.clone()),
            ("/video/42/a b.tss", file.clone(), invalid.clone()),
            ("/video/42/", file.clone(), invalid.clone()),
            ("/video/42/a b.ts", tampered, invalid.clone()),
            ("/video/42/a b.ts", format!("{file}&expires=1001"), invalid.clone()),
            ("/video/42/a b.ts", format!("{file}&client=192.0.2.7"), invalid.clone()),
            ("/video/42/a b.ts", "?expires=1001".to_owned(), invalid.clone()),
            ("/video/42/a b.ts", String::new(), invalid.clone()),
            ("/video/42/x", of("expires=+1001", "/video/42/x"), invalid.clone()),
            ("/video/42/x", of("expires=1000", "/video/42/x"), Err(AccessRefusal::Expired)),
            // A folder, and all below.
            ("/video/42/x/y", of("expires=1001", "/video/42/"), valid.clone()),
            ("/video/42/", of("expires=1001", "/video/42/"), valid.clone()),
            ("/video/42/x", of("expires=1001", "/"), valid.clone()),
            ("/video/42", of("expires=1001", "/video/42/"), invalid.clone()),
            ("/video/421/x", of("expires=1001", "/video/42/"), invalid.clone()),
            ("/video/42/x", of("expires=1001", "/video/42"), invalid.clone()),
            // For some clients.
            ("/x", of("expires=1001&client=192.0.2.0/24", "/x"), valid.clone()),
            ("/x", of("expires=1001&client=192.0.2.0/24", "/x").replace('/', "%2F"), valid.clone()),
            ("/x", of("expires=1001&client=192.0.2.7", "/x"), valid.clone()),
            ("/x", of("expires=1001&client=192.0.3.0/24", "/x"), invalid.clone()),
            ("/x", of("expires=1001&client=x", "/x"), invalid.clone()),
            (
                "/x",
                of("expires=1001&client=192.0.2.0/24", "/x").replace("&client=192.0.2.0/24", ""),
                invalid.clone(),
            ),
        ] {
            let clients = ["::ffff:192.0.2.7".parse().unwrap()];
            assert_eq!(secrets.check(path, &query, &clients, now), expected, "{path}{query}");
        }
        let clients = ["192.0.2.7", "192.0.3.7"].map(|client| client.parse().unwrap());
        let query = of("expires=1001&client=192.0.2.0/24", "/x");
        assert_eq!(secrets.check("/x", &query, &clients, now), invalid);
    }

    #[test]
    fn deep_path_is_signed_by_itself_and_its_first_folders() {
        let secrets: SigningSecrets = SECRET.parse().unwrap();
        let path = "/x".repeat(3000);
        let check = |signed_path: &str| {
            let query = signed(SECRET, "expires=1001", signed_path);
            secrets.check(&path, &query, &[], UNIX_EPOCH).is_ok()
        };
        assert!(check(&path) && check("/x/x/"));
        assert!(!check(&format!("{}/", "/x".repeat(2000))));
    }

    #[test]
    fn parameters_of_the_signature_are_removed() {
        for (query, expected) in [
            ("?expires=1&signature=2", ""),
            ("?a=1&expires=1&client=3&b&signature=2", "?a=1&b"),
            ("?signatures=1", "?signatures=1"),
            ("", ""),
            ("?", "?"),
        ] {
            assert_eq!(without_signature(query), expected);
        }
    }

    #[test]
    fn error_names_line_and_no_secret() {
        for (text, named) in [
            ("", "holds no secret"),
            ("# secret\n", "holds no secret"),
            ("short-secret", "line 1: expected a secret of at least 32"),
            (&format!("{SECRET}\nsecret with spaces, but long enough, as it is"), "line 2: "),
        ] {
            let error = text.parse::<SigningSecrets>().unwrap_err();
            assert!(error.contains(named) && !error.contains("spaces"), "{error}");
        }
    }
}
