//! Remote endpoint of a path state (RFC 9959, 2.2): the sending address, the
//! client's prefix or a pseudonym of it, and optionally a DSCP. Never ports.

use std::fmt;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;

/// Number of leading bits of a client's address that make its subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixLengths {
    /// For IPv4 addresses, at most 32.
    pub v4: u8,

    /// For IPv6 addresses, at most 128.
    pub v6: u8,
}

impl Default for PrefixLengths {
    fn default() -> Self {
        PrefixLengths { v4: 24, v6: 48 }
    }
}

/// The key of a path state. Its text form, `sender>prefix/length` or
/// `sender>~pseudonym`, with `#dscp` behind it if there is one, is unique and
/// may be the key of a database.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RemoteEndpoint {
    sender: String,
    client: Client,
    dscp: Option<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Client {
    Prefix(IpAddr, u8),
    Pseudonym([u8; 16]),
}

impl RemoteEndpoint {
    /// Returns the endpoint of `client` as seen from `sender`, which is the
    /// sending address or the name of a group of senders that share their
    /// paths.
    ///
    /// An IPv4-mapped IPv6 address is the IPv4 address. A length above the
    /// address's own is cut to it.
    pub fn new(sender: &str, client: IpAddr, lengths: PrefixLengths) -> Self {
        let client = client.to_canonical();

        let (prefix, prefix_len) = match client {
            IpAddr::V4(ip) => {
                let len = lengths.v4.min(32);
                let mask = u32::MAX.checked_shl(32 - u32::from(len));
                let bits = ip.to_bits() & mask.unwrap_or(0);
                (Ipv4Addr::from_bits(bits).into(), len)
            },
            IpAddr::V6(ip) => {
                let len = lengths.v6.min(128);
                let mask = u128::MAX.checked_shl(128 - u32::from(len));
                let bits = ip.to_bits() & mask.unwrap_or(0);
                (Ipv6Addr::from_bits(bits).into(), len)
            },
        };

        RemoteEndpoint {
            sender: sender.to_string(),
            client: Client::Prefix(prefix, prefix_len),
            dscp: None,
        }
    }

    /// Returns the same endpoint for packets marked with `dscp` (RFC 9959,
    /// 2.2).
    pub fn with_dscp(self, dscp: u8) -> Self {
        RemoteEndpoint {
            dscp: Some(dscp),
            ..self
        }
    }

    /// Returns the same endpoint under a name that does not tell the client's
    /// subnet, such as a keyed hash of it.
    pub fn with_pseudonym(self, pseudonym: [u8; 16]) -> Self {
        RemoteEndpoint {
            client: Client::Pseudonym(pseudonym),
            ..self
        }
    }

    /// Returns the client's subnet; None if a pseudonym takes its place.
    pub fn prefix(&self) -> Option<(IpAddr, u8)> {
        match self.client {
            Client::Prefix(prefix, length) => Some((prefix, length)),
            Client::Pseudonym(_) => None,
        }
    }
}

impl fmt::Display for RemoteEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}>", self.sender)?;

        match &self.client {
            Client::Prefix(prefix, length) => write!(f, "{prefix}/{length}")?,
            Client::Pseudonym(pseudonym) => {
                write!(f, "~{:032x}", u128::from_be_bytes(*pseudonym))?
            },
        }

        match self.dscp {
            Some(dscp) => write!(f, "#{dscp}"),
            None => Ok(()),
        }
    }
}
