//! Selector of entries by a client prefix or address.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use path_store::HashKeys;
use quiche::path_state::PrefixLengths;
use quiche::path_state::RemoteEndpoint;

/// A CIDR block of client addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// An IPv4 address is in its IPv4-mapped form.
    bits: u128,

    /// Prefix length in the mapped form.
    length: u8,

    is_v4: bool,
}

/// A client prefix or a client address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    block: Block,
    is_address: bool,
    address: IpAddr,
    length: Option<u8>,

    /// Pseudonyms that the prefix may have in the store.
    pseudonyms: Vec<String>,
    text: String,
}

/// The parts of a key's text, `sender>prefix/length#dscp`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// The sending address or group.
    pub sender: &'a str,

    /// The client's prefix, as text.
    pub prefix: &'a str,

    /// The DSCP, if the key has one.
    pub dscp: Option<u8>,
}

impl<'a> Key<'a> {
    /// Parses a key. Returns None if it is not in our format. The sender may hold any character.
    pub fn parse(endpoint: &'a str) -> Option<Self> {
        let (sender, client) = endpoint.rsplit_once('>')?;
        let (prefix, dscp) = match client.split_once('#') {
            None => (client, None),
            Some((prefix, dscp)) => (prefix, Some(dscp.parse().ok()?)),
        };

        Some(Key { sender, prefix, dscp })
    }
}

impl Block {
    fn new(address: IpAddr, length: Option<u8>) -> Result<Self, String> {
        let (bits, offset, is_v4) = match address {
            IpAddr::V4(ip) => (ip.to_ipv6_mapped().to_bits(), 96, true),
            IpAddr::V6(ip) => (ip.to_bits(), 0, false),
        };
        let length_max = 128 - offset;
        let length = length.unwrap_or(length_max);
        if length > length_max {
            return Err(format!("a prefix of {address} has at most {length_max} bits"));
        }
        let length = length + offset;

        Ok(Block { bits: bits & mask(length), length, is_v4 })
    }

    fn contains(&self, other: &Block) -> bool {
        self.is_v4 == other.is_v4
            && self.length <= other.length
            && other.bits & mask(self.length) == self.bits
    }
}

fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

/// The result of [`parse_block()`].
struct ParsedBlock {
    block: Block,
    address: IpAddr,
    length: Option<u8>,
}

fn parse_block(text: &str) -> Result<ParsedBlock, String> {
    let not_a_prefix =
        || "expected a prefix such as 198.51.100.0/24 or an address such as 198.51.100.7";
    let (address, length) = match text.split_once('/') {
        None => (text, None),
        Some((address, length)) => {
            (address, Some(length.parse::<u8>().map_err(|_| not_a_prefix())?))
        }
    };
    // The key has the link of a link-local address in the sender.
    let (address, _zone) = address.split_once('%').unwrap_or((address, ""));
    let mut address: IpAddr = address.parse().map_err(|_| not_a_prefix())?;

    // The store knows IPv4-mapped clients by their IPv4 address.
    if length.is_none() {
        address = address.to_canonical();
    }
    Ok(ParsedBlock { block: Block::new(address, length)?, address, length })
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ParsedBlock { block, address, length } = parse_block(text)?;
        let is_address = length.is_none();
        let (pseudonyms, text) = (Vec::new(), text.to_string());
        Ok(Selector { block, is_address, address, length, pseudonyms, text })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Selector {
    /// Adds the pseudonyms under these keys. A prefix has those of its own length alone, an
    /// address those of the default lengths.
    pub fn with_hash_keys(mut self, keys: &HashKeys) -> Self {
        let names = keys.pseudonyms(&self.endpoint("", None));
        let name = |name: RemoteEndpoint| name.to_string().trim_start_matches('>').to_string();
        self.pseudonyms = names.into_iter().map(name).collect();
        self
    }

    /// Returns the key of this prefix for a sender.
    pub fn endpoint(&self, sender: &str, dscp: Option<u8>) -> RemoteEndpoint {
        let default = PrefixLengths::default();
        let lengths = PrefixLengths {
            v4: self.length.unwrap_or(default.v4),
            v6: self.length.unwrap_or(default.v6),
        };
        let endpoint = RemoteEndpoint::new(sender, self.address, lengths);
        match dscp {
            Some(dscp) => endpoint.with_dscp(dscp),
            None => endpoint,
        }
    }

    /// Returns whether it selects the entry with this key: the entry's prefix is within ours, or
    /// our address within the entry's prefix.
    pub fn matches(&self, endpoint: &str) -> bool {
        let Some(key) = Key::parse(endpoint) else { return false };
        if key.prefix.starts_with('~') {
            return self.pseudonyms.iter().any(|name| name == key.prefix);
        }

        match parse_block(key.prefix) {
            Err(_) => false,
            Ok(stored) if self.is_address => stored.block.contains(&self.block),
            Ok(stored) => self.block.contains(&stored.block),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selector_matches_prefixes_around_an_address() {
        for (selector, prefix, taken) in [
            ("198.51.100.7", "198.51.100.0/24", true),
            ("198.51.101.7", "198.51.100.0/24", false),
            ("::ffff:198.51.100.7", "198.51.100.0/24", true),
            ("198.51.100.7", "0.0.0.0/0", true),
            ("198.51.100.0/24", "198.51.100.0/24", true),
            ("198.51.100.7/24", "198.51.100.0/24", true),
            ("198.51.0.0/16", "198.51.100.0/24", true),
            ("198.51.100.0/25", "198.51.100.0/24", false),
            ("0.0.0.0/0", "198.51.100.0/24", true),
            ("::/0", "198.51.100.0/24", false),
            ("::/0", "2001:db8:1::/48", true),
            ("2001:db8:1:2::3", "2001:db8:1::/48", true),
            ("fe80::7%eth0", "fe80::/48", true),
            ("2001:db8::/32", "2001:db8:1::/48", true),
            ("2001:db8:2::/48", "2001:db8:1::/48", false),
        ] {
            let selector: Selector = selector.parse().unwrap();
            for endpoint in [format!("192.0.2.1>{prefix}"), format!("a>b#c>{prefix}#46")] {
                assert_eq!(selector.matches(&endpoint), taken, "{selector} {endpoint}");
            }
        }
    }

    #[test]
    fn selector_matches_a_pseudonym_with_its_key() {
        let digits = "00".repeat(32);
        let keys = format!("2026-01-01T00:00:00Z {digits}").parse::<HashKeys>().unwrap();
        let select = |text: &str| text.parse::<Selector>().unwrap().with_hash_keys(&keys);
        let stored = keys.pseudonyms(&select("198.51.100.7").endpoint("s", Some(46))).remove(0);

        for (selector, taken) in [
            ("198.51.100.7", true),
            ("198.51.100.0/24", true),
            ("198.51.100.0/25", false),
            ("198.51.101.7", false),
        ] {
            assert_eq!(select(selector).matches(&stored.to_string()), taken, "{selector}");
        }
        let without: Selector = "0.0.0.0/0".parse().unwrap();
        assert!(!without.matches(&stored.to_string()));
    }

    #[test]
    fn selector_that_is_no_prefix_is_refused() {
        for bad in ["", "x", "198.51.100", "198.51.100.0/", "198.51.100.0/33", "::/129", "::/-1"] {
            assert!(bad.parse::<Selector>().is_err(), "{bad}");
        }
        let all: Selector = "0.0.0.0/0".parse().unwrap();
        for endpoint in ["", "no key", "s>x/24", "s>198.51.100.0/24#x"] {
            assert!(!all.matches(endpoint), "{endpoint}");
        }
    }
}
