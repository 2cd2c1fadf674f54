//! TLS settings of the command line.

use std::path::PathBuf;

use boring::ssl::SslContextBuilder;
use boring::ssl::SslMethod;
use boring::ssl::SslVersion;

use crate::config::heading::TLS;

/// Groups by BoringSSL's names, and their names in the registry of IANA and with OpenSSL.
const GROUPS: [(&str, &[&str]); 7] = [
    ("X25519MLKEM768", &[]),
    ("X25519", &[]),
    ("P-256", &["secp256r1", "prime256v1"]),
    ("P-384", &["secp384r1"]),
    ("P-521", &["secp521r1"]),
    ("MLKEM1024", &[]),
    ("X25519Kyber768Draft00", &[]),
];

/// Settings for QUIC and TCP.
#[derive(Clone, Debug, clap::Args)]
pub struct TlsOptions {
    /// Certificate chain, PEM; may be repeated [default: a self-signed certificate]
    ///
    /// For hosts that have no certificate of their own. Of several, for example one with an ECDSA and
    /// one with an RSA key, a client gets the first that it can verify. Without any, the server makes a
    /// self-signed certificate, which clients reject unless they skip verification.
    #[arg(long, value_name = "F", requires = "key", help_heading = TLS)]
    pub cert: Vec<PathBuf>,

    /// Private key of the certificate, PEM; as often as --cert, in the same order
    #[arg(long, value_name = "F", requires = "cert", help_heading = TLS)]
    pub key: Vec<PathBuf>,

    /// Oldest version of TLS over TCP
    ///
    /// QUIC always has 1.3 (RFC 9001, 4.2).
    #[arg(long, value_enum, value_name = "1.2|1.3", default_value = "1.2", help_heading = TLS)]
    pub tls_min: TlsVersion,

    /// Key-exchange groups by preference, separated by colons [default: BoringSSL's]
    ///
    /// For example X25519MLKEM768:X25519:P-256, over QUIC and TCP; secp256r1 is P-256, too. A client that
    /// has none of them is refused.
    #[arg(long, value_name = "LIST", value_parser = groups, help_heading = TLS)]
    pub tls_groups: Option<String>,

    /// Authorities that clients' certificates must be from, PEM; clients without are refused
    ///
    /// Over QUIC and TCP, for all hosts. A reload reads the file again, and sessions from before a
    /// change are not resumed.
    #[arg(long, value_name = "F", help_heading = TLS)]
    pub client_ca: Option<PathBuf>,

    /// Key and configuration of Encrypted Client Hello, PEM; may be repeated, the newest first
    ///
    /// Clients that find the configuration in DNS encrypt the server name (RFC 9849), over QUIC and TCP.
    /// The others of several keys are for clients that still have their configurations. edge-server
    /// ech-keys makes a file.
    #[arg(long, value_name = "F", help_heading = TLS)]
    pub ech_keys: Vec<PathBuf>,
}

/// Version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TlsVersion {
    #[value(name = "1.2")]
    Tls12,
    #[value(name = "1.3")]
    Tls13,
}

impl From<TlsVersion> for SslVersion {
    fn from(version: TlsVersion) -> Self {
        match version {
            TlsVersion::Tls12 => Self::TLS1_2,
            TlsVersion::Tls13 => Self::TLS1_3,
        }
    }
}

/// Parses a list of groups. Returns it with BoringSSL's names.
fn groups(text: &str) -> Result<String, String> {
    let mut names = Vec::new();
    for word in text.split(':') {
        let name = group(word).ok_or_else(|| {
            let known: Vec<_> = known_groups().map(|(name, _)| name).collect();
            format!("there is no group '{word}'; use names of {}", known.join(", "))
        })?;
        if names.contains(&name) {
            return Err(format!("the group '{word}' is there twice; name it once"));
        }
        names.push(name);
    }
    Ok(names.join(":"))
}

/// Returns BoringSSL's name of a group.
fn group(word: &str) -> Option<&'static str> {
    let is_named = |(name, others): &(&str, &[&str])| {
        name.eq_ignore_ascii_case(word) || others.iter().any(|own| own.eq_ignore_ascii_case(word))
    };
    known_groups().find(is_named).map(|(name, _)| name)
}

/// Returns those of the groups that this BoringSSL has.
fn known_groups() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    GROUPS.into_iter().filter(|(name, _)| {
        let tls = SslContextBuilder::new(SslMethod::tls());
        tls.is_ok_and(|mut tls| tls.set_curves_list(name).is_ok())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_has_the_names_of_iana_and_openssl() {
        for (text, expected) in [
            ("X25519", Ok("X25519")),
            ("x25519:secp256r1", Ok("X25519:P-256")),
            ("P-256:secp384r1:SECP521R1", Ok("P-256:P-384:P-521")),
            ("X25519MLKEM768:prime256v1", Ok("X25519MLKEM768:P-256")),
            ("MLKEM1024", Ok("MLKEM1024")),
            (
                "X25519:x448",
                Err("there is no group 'x448'; use names of X25519MLKEM768, X25519, P-"),
            ),
            ("X25519:", Err("there is no group ''; use names of")),
            ("X25519, P-256", Err("there is no group 'X25519, P-256'; use names of")),
            ("P-256:secp256r1", Err("the group 'secp256r1' is there twice; name it once")),
        ] {
            match (groups(text), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(found), Err(expected)) => assert!(found.starts_with(expected), "{found}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
