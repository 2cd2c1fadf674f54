//! QUIC-LB configuration (draft-ietf-quic-load-balancers): how connection IDs name this server to the
//! balancers in front of it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::de::Error;
use serde::de::MapAccess;
use serde::de::Visitor;
use serde::Deserialize;
use serde::Deserializer;

use crate::config::position::Position;

/// Bytes of a connection ID that server ID and nonce may have: others are its first octet, and the last,
/// which names the worker.
pub const BLOCK_BYTES_MAX: usize = 18;

/// Shortest nonce: two octets name the secret and the process, and the others are random.
const NONCE_BYTES_MIN: i64 = 8;

/// Largest ID of a configuration. The next one is for connection IDs that name no server.
const CONFIG_ID_MAX: i64 = 6;

/// One configuration: `[[quic-lb]]` in the file.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct QuicLbConfig {
    #[serde(rename = "config-id")]
    pub config_id: ConfigId,

    #[serde(rename = "server-id")]
    pub server_id: ServerId,

    #[serde(rename = "nonce-length")]
    pub nonce_length: NonceLength,

    /// File of the key; without one, the server ID is in the clear.
    pub key: Option<PathBuf>,

    /// Addresses at which servers receive what others forward, by server ID.
    #[serde(default)]
    pub nodes: Nodes,

    #[serde(skip)]
    pub position: Position,
}

/// ID of a configuration, from 0 to 6.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "i64")]
pub struct ConfigId(pub u8);

/// Length of a nonce, in octets.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "i64")]
pub struct NonceLength(pub u8);

/// Server ID, one octet or more.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(try_from = "String")]
pub struct ServerId {
    bytes: [u8; Self::BYTES_MAX],
    length: u8,
}

/// Addresses of servers, by their IDs, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes(pub BTreeMap<ServerId, NodeAddress>);

/// Address at which another server receives.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct NodeAddress(pub SocketAddr);

impl TryFrom<String> for NodeAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let shown = text.escape_default();
        let address: SocketAddr = text
            .parse()
            .map_err(|_| format!("nodes: '{shown}': write ADDR:PORT, such as '192.0.2.7:4434'"))?;
        match address.ip().to_canonical() {
            _ if address.port() == 0 => {
                Err(format!("nodes: '{shown}': nobody receives at port 0; write that server's"))
            }
            ip if ip.is_unspecified() || ip.is_multicast() || ip == Ipv4Addr::BROADCAST => Err(
                format!("nodes: '{shown}' is not the address of one server; write that server's"),
            ),
            _ => Ok(Self(address)),
        }
    }
}

impl<'de> Deserialize<'de> for Nodes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(NodesVisitor)
    }
}

/// Visitor of a table of nodes, in which one ID may have two spellings.
struct NodesVisitor;

impl<'de> Visitor<'de> for NodesVisitor {
    type Value = Nodes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of server IDs and addresses")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Nodes, A::Error> {
        let mut nodes = BTreeMap::new();
        while let Some((id, address)) = table.next_entry::<String, NodeAddress>()? {
            let id = ServerId::parse("nodes:", &id).map_err(A::Error::custom)?;
            if nodes.insert(id, address).is_some() {
                let why = format!("nodes: '{id}' is there twice; leave out one of them");
                return Err(A::Error::custom(why));
            }
        }
        Ok(Nodes(nodes))
    }
}

impl TryFrom<i64> for ConfigId {
    type Error = String;

    fn try_from(number: i64) -> Result<Self, String> {
        match number {
            0..=CONFIG_ID_MAX => Ok(Self(number as u8)),
            _ => Err(format!("config-id = {number}: write a number from 0 to {CONFIG_ID_MAX}")),
        }
    }
}

impl TryFrom<i64> for NonceLength {
    type Error = String;

    fn try_from(number: i64) -> Result<Self, String> {
        let most = BLOCK_BYTES_MAX as i64 - 1;
        match number {
            ..NONCE_BYTES_MIN => Err(format!(
                "nonce-length = {number}: use {NONCE_BYTES_MIN} or more, of which two octets name the \
                 secret and the process"
            )),
            _ if number > most => {
                Err(format!("nonce-length = {number}: use {most} at most, less what the server ID has"))
            }
            _ => Ok(Self(number as u8)),
        }
    }
}

impl Nodes {
    /// Returns two servers of one address, if there are any.
    fn sharing_an_address(&self) -> Option<[ServerId; 2]> {
        let mut seen = BTreeMap::new();
        self.0.iter().find_map(|(id, node)| Some([seen.insert(node.0, *id)?, *id]))
    }
}

impl ServerId {
    /// Most octets that the draft's limits leave to a server ID.
    pub const BYTES_MAX: usize = 15;

    /// Returns the server ID of these bytes, unless there are none or too many.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return None;
        }
        let mut id = Self { bytes: [0; Self::BYTES_MAX], length: bytes.len() as u8 };
        id.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(id)
    }

    /// Parses pairs of digits. The error names `key`.
    fn parse(key: &str, text: &str) -> Result<Self, String> {
        parse_hex(text).and_then(|bytes| Self::from_bytes(&bytes)).ok_or_else(|| {
            format!(
                "{key} '{}': write 1 to {} octets as pairs of hexadecimal digits, such as '0a02'",
                text.escape_default(),
                BLOCK_BYTES_MAX - NONCE_BYTES_MIN as usize
            )
        })
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl FromStr for ServerId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse("server-id =", text)
    }
}

impl TryFrom<String> for ServerId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Formats its place for messages.
impl fmt::Display for QuicLbConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[[quic-lb]], {}", self.position)
    }
}

/// Returns the bytes of pairs of hexadecimal digits.
pub fn parse_hex(digits: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|pair| Some((digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?) as u8)).collect()
}

/// Checks configurations, of which the first is that of new connection IDs.
///
/// # Errors
///
/// One line that names the first that does not go with those before it.
pub fn check(configs: &[QuicLbConfig]) -> Result<(), String> {
    for (index, config) in configs.iter().enumerate() {
        let (id, nonce) = (config.server_id.as_bytes().len(), usize::from(config.nonce_length.0));
        if id + nonce > BLOCK_BYTES_MAX {
            return Err(format!(
                "{config}: server-id has {id} octets and nonce-length is {nonce}; shorten one of them, \
                 together they have {BLOCK_BYTES_MAX} at most"
            ));
        }
        if let Some(node) = config.nodes.0.keys().find(|node| node.as_bytes().len() != id) {
            return Err(format!(
                "{config}: nodes: '{node}' has another length than server-id; all have {id} octets"
            ));
        }
        if let Some([one, other]) = config.nodes.sharing_an_address() {
            return Err(format!(
                "{config}: nodes: '{one}' and '{other}' have one address; write each server's own"
            ));
        }
        for other in &configs[..index] {
            if config.config_id == other.config_id {
                return Err(format!(
                    "{config}: config-id {} is that of {other}, too; give each its own",
                    config.config_id.0
                ));
            }
            if config.key.is_some() != other.key.is_some() && config.server_id == other.server_id {
                return Err(format!(
                    "{config}: server-id '{}' is that of {other}, too, and one of them has no key; \
                     use another, because what is in the clear helps to break what is not",
                    config.server_id
                ));
            }
        }
    }
    Ok(())
}

/// Checks that this server can forward to the nodes of its configurations.
///
/// # Errors
///
/// The first configuration whose nodes it cannot forward to, and why.
pub fn check_nodes(
    configs: &[QuicLbConfig],
    listen: Option<SocketAddr>,
    has_secrets: bool,
) -> Result<(), (&QuicLbConfig, String)> {
    let mut nodes = configs.iter().flat_map(|config| {
        config.nodes.0.iter().map(move |(id, NodeAddress(address))| (config, id, address))
    });
    let unusable = nodes.find_map(|(config, id, address)| {
        let problem = match listen {
            None => {
                "nodes need --quic-lb-listen, an address of this server for what others forward"
                    .into()
            }
            Some(own) if own.is_ipv4() != address.is_ipv4() => {
                format!(
                    "nodes: {address} is of another family than --quic-lb-listen {own}; use one"
                )
            }
            Some(_) if !has_secrets => "nodes need --secrets, the same on all servers".into(),
            Some(own) if *id == config.server_id && !may_be(own, *address) => format!(
                "nodes: '{id}' is this server's, and {address} is not --quic-lb-listen {own}; write \
                 that address, or the server-id of this server"
            ),
            Some(own) if *id != config.server_id && own == *address => format!(
                "nodes: '{id}' has the address of this server, --quic-lb-listen {own}; write that \
                 server's"
            ),
            Some(_) => return None,
        };
        Some((config, problem))
    });
    unusable.map_or(Ok(()), Err)
}

/// Returns whether a server that listens at `own` may be reached at `address`.
fn may_be(own: SocketAddr, address: SocketAddr) -> bool {
    let is_ip = own.ip().is_unspecified() || own.ip() == address.ip();
    is_ip && [0, address.port()].contains(&own.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_id_is_pairs_of_digits() {
        let id: ServerId = "0A02".parse().unwrap();
        assert_eq!((id.as_bytes(), id.to_string().as_str()), (&[10, 2][..], "0a02"));
        for bad in ["", "a", "0a0", "0x12", "zz", "+1", "é1", &"00".repeat(16)] {
            let error = bad.parse::<ServerId>().unwrap_err();
            assert!(error.contains("server-id = '") && error.contains("such as '0a02'"), "{error}");
        }
    }
}
