//! TLS settings of the command line.

use std::path::PathBuf;

use boring::ssl::SslContextBuilder;
use boring::ssl::SslMethod;
use boring::ssl::SslVersion;

use crate::config::heading::TLS;

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
    /// For example X25519MLKEM768:X25519:P-256, over QUIC and TCP. A client that has none of them is
    /// refused.
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

fn groups(text: &str) -> Result<String, String> {
    let tls = SslContextBuilder::new(SslMethod::tls());
    match tls.and_then(|mut tls| tls.set_curves_list(text)) {
        Ok(()) => Ok(text.to_owned()),
        Err(_) => Err("not a list of groups that BoringSSL has, separated by colons".to_owned()),
    }
}
