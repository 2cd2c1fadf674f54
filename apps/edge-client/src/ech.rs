//! Encrypted Client Hello (RFC 9849): the server's configuration, and its rejection.

use std::str::FromStr;

use boring::base64;
use boring::ssl::SslRef;

use crate::failure::Failure;

quiche::stand_ins!();

/// Alert of a client whose ClientHello the server could not decrypt (RFC 9849, 5), as an error of QUIC
/// (RFC 9001, 4.8).
const ECH_REQUIRED: u64 = 0x100 + 121;

/// Name of the value in a DNS record (RFC 9848, 3).
const DNS_KEY: &str = "ech=";

/// ECHConfigList of a server.
#[derive(Clone, Debug)]
pub struct EchConfigs(Vec<u8>);

impl FromStr for EchConfigs {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let encoded = text.strip_prefix(DNS_KEY).unwrap_or(text);
        let list = base64::decode_block(encoded).ok().filter(|list| !list.is_empty());
        list.map(Self).ok_or("not the base64 value of ech in a DNS record")
    }
}

impl EchConfigs {
    /// Has a connection that has sent nothing yet encrypt its ClientHello.
    ///
    /// # Errors
    ///
    /// The list is damaged.
    pub fn offer(&self, quic: &mut quiche::Connection) -> Result<(), Failure> {
        let ssl: &mut SslRef = quic.as_mut();
        ssl.set_ech_config_list(&self.0).map_err(|_| {
            Failure::failed("--ech is a damaged list; take the value of ech in the DNS record")
        })
    }
}

/// Returns why a connection that offered a configuration has failed, if that is the reason.
pub fn rejection(quic: &mut quiche::Connection) -> Option<Failure> {
    let is_rejected = quic.local_error().is_some_and(|error| error.error_code == ECH_REQUIRED);
    let is_established = quic.is_established();
    let ssl: &mut SslRef = quic.as_mut();
    if is_rejected {
        let current = ssl.get_ech_retry_configs().filter(|list| !list.is_empty());
        let hint = match current.map(base64::encode_block) {
            Some(list) => format!("it offers --ech {list}"),
            None => "leave --ech out".to_owned(),
        };
        return Some(Failure::failed(format!(
            "the server cannot decrypt what --ech has encrypted; {hint}"
        )));
    }
    let is_ignored = is_established && !ssl.ech_accepted();
    is_ignored.then(|| {
        Failure::failed(
            "--ech has no configuration that this client knows; the server name was not encrypted",
        )
    })
}
