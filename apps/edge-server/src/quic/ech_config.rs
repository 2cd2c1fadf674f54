//! ECHConfig of Encrypted Client Hello (RFC 9849, 4) and its key, and the PEM file of both.

use std::slice;

use anyhow::ensure;
use anyhow::Context;
use boring::base64;
use boring::hpke::HpkeKey;
use boring::pkey::Id;
use boring::pkey::PKey;
use boring::pkey::Private;
use boring::ssl::SslEchKeys;

use crate::quic::random;

/// Version of the only ECHConfig that there is.
const VERSION: u16 = 0xfe0d;

/// DHKEM(X25519, HKDF-SHA256) (RFC 9180, 7.1).
const KEM: u16 = 0x0020;
const KEY_BYTES: usize = 32;

/// HKDF-SHA256 with AES-128-GCM and with ChaCha20-Poly1305 (RFC 9180, 7.2 and 7.3).
const CIPHER_SUITES: [[u16; 2]; 2] = [[1, 1], [1, 3]];

/// Length to which clients pad shorter names, so that they look the same.
const NAME_BYTES: u8 = 64;

/// Length of the longest host name (RFC 1035, 2.3.4), without the final dot.
const NAME_BYTES_MAX: usize = 253;

/// Bytes in front of an ECHConfig's contents: version and length.
const HEADER_BYTES: usize = 4;

/// Label of a configuration in PEM form, and the length of a line.
const LABEL: &str = "ECHCONFIG";
const LINE_BYTES: usize = 64;

/// Key of Encrypted Client Hello with the configurations that are published for it.
pub struct EchKey {
    private: PKey<Private>,

    /// ECHConfigList, as DNS has it.
    list: Vec<u8>,
}

impl EchKey {
    /// Makes a key, for which clients send `public_name` in the clear.
    ///
    /// # Errors
    ///
    /// That is no host name, or the system has no randomness.
    pub fn generate(public_name: &str) -> anyhow::Result<Self> {
        let length = public_name.len();
        ensure!(
            length <= NAME_BYTES_MAX,
            "the public name has {length} characters; a host name has {NAME_BYTES_MAX} at most"
        );
        let private = PKey::generate(Id::X25519).context("cannot make a key")?;
        let mut id = [0];
        random::fill(&mut id).context("the system provides no random bytes")?;
        let config = encode(id[0], &private, public_name)?;
        let made = Self { private, list: with_length(&config)? };
        ensure!(
            usable(slice::from_ref(&made)).is_ok(),
            "'{public_name}' is no host name; name one that the server has a certificate for"
        );
        Ok(made)
    }

    /// Reads the key and the configurations in a file.
    ///
    /// # Errors
    ///
    /// A part of the line about the file that says what it lacks.
    pub fn from_pem(pem: &[u8]) -> anyhow::Result<Self> {
        let private = PKey::private_key_from_pem(pem).ok().filter(|key| key.id() == Id::X25519);
        let private = private.context("holds no X25519 private key in PEM form")?;
        let list = block(&String::from_utf8_lossy(pem), LABEL)
            .context("holds no ECHCONFIG in PEM form")?;
        let key = Self { private, list };
        ensure!(!key.configs()?.is_empty(), "has an ECHCONFIG without a configuration");
        Ok(key)
    }

    /// Returns the PEM file.
    ///
    /// # Errors
    ///
    /// The key cannot be written.
    pub fn to_pem(&self) -> anyhow::Result<String> {
        let key = String::from_utf8(self.private.private_key_to_pem_pkcs8()?)?;
        let encoded = self.dns_value();
        let lines = encoded.as_bytes().chunks(LINE_BYTES).map(String::from_utf8_lossy);
        let lines: Vec<_> = lines.collect();
        Ok(format!("{key}-----BEGIN {LABEL}-----\n{}\n-----END {LABEL}-----\n", lines.join("\n")))
    }

    /// Returns the value of `ech` in a DNS record (RFC 9848, 3).
    pub fn dns_value(&self) -> String {
        base64::encode_block(&self.list)
    }

    /// Returns the names that clients send in the clear.
    pub fn public_names(&self) -> Vec<String> {
        let configs = self.configs().unwrap_or_default();
        configs.into_iter().filter_map(public_name).collect()
    }

    fn configs(&self) -> anyhow::Result<Vec<&[u8]>> {
        let damaged = "has a damaged ECHCONFIG";
        let (length, mut rest) = self.list.split_first_chunk().context(damaged)?;
        ensure!(usize::from(u16::from_be_bytes(*length)) == rest.len(), damaged);
        let mut configs = Vec::new();
        while !rest.is_empty() {
            let length = rest.get(2..HEADER_BYTES).context(damaged)?;
            let length = usize::from(u16::from_be_bytes([length[0], length[1]]));
            let (config, more) = rest.split_at_checked(HEADER_BYTES + length).context(damaged)?;
            configs.push(config);
            rest = more;
        }
        Ok(configs)
    }
}

/// Returns what BoringSSL decrypts with. Clients that have used another key get the configurations of
/// the first.
///
/// # Errors
///
/// A configuration is for another key, or of another kind.
pub fn usable(keys: &[EchKey]) -> anyhow::Result<SslEchKeys> {
    let mut builder = SslEchKeys::builder()?;
    for (at, key) in keys.iter().enumerate() {
        let mut private = [0; KEY_BYTES];
        key.private.raw_private_key(&mut private)?;
        for config in key.configs()? {
            // The crate names it after another curve than it is of.
            let hpke_key = HpkeKey::dhkem_p256_sha256(&private)?;
            builder.add_key(at == 0, config, hpke_key).context(
                "has an ECHCONFIG that is not of its private key, or of an unknown kind",
            )?;
        }
    }
    Ok(builder.build())
}

/// Encodes a configuration.
fn encode(id: u8, private: &PKey<Private>, public_name: &str) -> anyhow::Result<Vec<u8>> {
    let mut public = [0; KEY_BYTES];
    let public = private.raw_public_key(&mut public)?;
    let suites: Vec<_> =
        CIPHER_SUITES.as_flattened().iter().flat_map(|id| id.to_be_bytes()).collect();
    let name_bytes = u8::try_from(public_name.len()).context("the public name is too long")?;
    let mut contents = vec![id];
    contents.extend(KEM.to_be_bytes());
    contents.extend(with_length(public)?);
    contents.extend(with_length(&suites)?);
    contents.extend([NAME_BYTES, name_bytes]);
    contents.extend(public_name.as_bytes());
    // Extensions.
    contents.extend(with_length(&[])?);
    Ok([&VERSION.to_be_bytes(), &*with_length(&contents)?].concat())
}

fn with_length(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let length = u16::try_from(bytes.len()).context("a part of an ECHCONFIG is too long")?;
    Ok([&length.to_be_bytes(), bytes].concat())
}

/// Returns the public name of a configuration.
fn public_name(config: &[u8]) -> Option<String> {
    /// Takes a part off that follows its length, in two bytes.
    fn skip(bytes: &[u8]) -> Option<&[u8]> {
        let (length, rest) = bytes.split_first_chunk()?;
        rest.get(usize::from(u16::from_be_bytes(*length))..)
    }
    // Behind the identifiers of configuration and KEM: key, suites, and the length of names.
    let rest = skip(skip(config.get(HEADER_BYTES + 3..)?)?)?;
    let (length, rest) = rest.get(1..)?.split_first()?;
    String::from_utf8(rest.get(..usize::from(*length))?.to_vec()).ok()
}

/// Returns what a PEM file has between the lines with this label.
fn block(pem: &str, label: &str) -> Option<Vec<u8>> {
    let (_, rest) = pem.split_once(&format!("-----BEGIN {label}-----"))?;
    let (encoded, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let encoded: String = encoded.split_whitespace().collect();
    base64::decode_block(&encoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pem_file_has_key_and_configuration() {
        let made = EchKey::generate("public.example").unwrap();
        let read = EchKey::from_pem(made.to_pem().unwrap().as_bytes()).unwrap();
        assert_eq!(read.dns_value(), made.dns_value());
        assert_eq!(read.public_names(), ["public.example"]);
        assert!(usable(&[read, made]).is_ok());
    }

    #[test]
    fn error_tells_what_a_file_lacks() {
        let [one, two] = [(); 2].map(|()| EchKey::generate("a.example").unwrap().to_pem().unwrap());
        let (key, config) = one.split_at(one.find("-----BEGIN ECHCONFIG").unwrap());
        let (other_key, _) = two.split_at(two.find("-----BEGIN ECHCONFIG").unwrap());
        let rsa = PKey::generate(Id::ED25519).unwrap().private_key_to_pem_pkcs8().unwrap();
        let rsa = String::from_utf8(rsa).unwrap();
        let encoded = |text: &str| {
            format!("{key}-----BEGIN ECHCONFIG-----\n{text}\n-----END ECHCONFIG-----\n")
        };
        for (pem, expected) in [
            (String::new(), "holds no X25519 private key"),
            (config.to_owned(), "holds no X25519 private key"),
            (format!("{rsa}{config}"), "holds no X25519 private key"),
            (key.to_owned(), "holds no ECHCONFIG"),
            (encoded("*"), "holds no ECHCONFIG"),
            (encoded("AAA="), "without a configuration"),
            (encoded("AAX+DQAB"), "damaged ECHCONFIG"),
            (encoded("AAT+DQAB"), "damaged ECHCONFIG"),
            (encoded("AAX+DQABAA=="), "not of its private key"),
            (format!("{other_key}{config}"), "not of its private key"),
        ] {
            let result = EchKey::from_pem(pem.as_bytes()).and_then(|key| usable(&[key]));
            let error = format!("{}", result.map(drop).unwrap_err());
            assert!(error.contains(expected), "{pem}: {error}");
        }
        for name in ["", "a b", "192.0.2.1", &"a.".repeat(200), &"a".repeat(254)] {
            assert!(EchKey::generate(name).is_err(), "{name}");
        }
        let long = ["a".repeat(63), "b".repeat(63), "c".repeat(63), "d".repeat(61)].join(".");
        assert!(EchKey::generate(&long).is_ok());
        let error = EchKey::generate(&format!("{long}d")).map(drop).unwrap_err().to_string();
        assert_eq!(error, "the public name has 254 characters; a host name has 253 at most");
    }
}
