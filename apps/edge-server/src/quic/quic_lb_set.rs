//! QUIC-LB configurations in use: that of new connection IDs, and older ones, which are decoded only.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context;
use path_store::key_file;
use path_store::key_file::KeyText;

use crate::config::quic_lb::parse_hex;
use crate::config::quic_lb::NodeAddress;
use crate::config::quic_lb::QuicLbConfig;
use crate::config::quic_lb::ServerId;
use crate::config::Config;
use crate::quic::quic_lb;
use crate::quic::quic_lb::Block;
use crate::quic::quic_lb::QuicLbEncoding;
use crate::quic::quic_lb::KEY_BYTES;

/// Encodings of all configurations, the first that of new connection IDs. Without any, connection IDs name
/// no server.
#[derive(Clone, Default)]
pub struct QuicLbSet(Arc<[QuicLbEntry]>);

/// A configuration.
struct QuicLbEntry {
    encoding: QuicLbEncoding,
    nodes: BTreeMap<ServerId, NodeAddress>,
}

/// Server that a connection ID names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedServer {
    This,

    /// Another one, and where it receives what this one forwards, if it does.
    Other(Option<SocketAddr>),
}

/// Length of a key in its file.
const KEY_DIGITS: usize = 2 * KEY_BYTES;

/// Key in a file.
struct QuicLbKey([u8; KEY_BYTES]);

/// Parses a line of 32 hexadecimal digits. Empty lines and those that begin with # are skipped. The error
/// never repeats the text.
impl FromStr for QuicLbKey {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lines: Vec<_> = key_file::lines(text).collect();
        let [(number, line)] = lines[..] else {
            return Err(match lines.len() {
                0 => format!("holds no key; {}", Self::MAKE),
                count => format!("holds {count} lines, and a key has one; remove the others"),
            });
        };
        let digits = line.chars().count();
        let key = parse_hex(line).and_then(|key| key.try_into().ok());
        key.map(Self).ok_or_else(|| match digits {
            KEY_DIGITS => format!(
                "line {number} has a character that is no hexadecimal digit; {}",
                Self::MAKE
            ),
            _ => format!(
                "line {number} has {digits} characters, and a key has {KEY_DIGITS} hexadecimal digits; {}",
                Self::MAKE
            ),
        })
    }
}

impl KeyText for QuicLbKey {
    const MAKE: &'static str = "make one with openssl rand -hex 16";
}

impl QuicLbSet {
    /// Reads the keys that a configuration names.
    ///
    /// # Errors
    ///
    /// One line that names the unusable file.
    pub fn read(config: &Config) -> anyhow::Result<Self> {
        let entry = |quic_lb| {
            QuicLbEntry::read(quic_lb).map_err(|e| config.quic_lb_error(quic_lb, &e).into())
        };
        config.file.quic_lb.iter().map(entry).collect::<anyhow::Result<_>>().map(Self)
    }

    /// Returns the encoding of new connection IDs.
    pub fn current(&self) -> Option<&QuicLbEncoding> {
        self.0.first().map(|entry| &entry.encoding)
    }

    /// Returns whether there is a configuration of this ID.
    pub fn has(&self, config_id: u8) -> bool {
        self.0.iter().any(|entry| entry.encoding.config_id == config_id)
    }

    /// Returns whether the IDs of this configuration are encrypted.
    pub fn encrypts(&self, config_id: u8) -> bool {
        let mut encodings = self.0.iter().map(|entry| &entry.encoding);
        encodings.any(|encoding| encoding.config_id == config_id && encoding.key.is_some())
    }

    /// Returns the block of an ID, and the server that it names.
    pub fn decode(&self, id: &[u8]) -> Option<(Block, NamedServer)> {
        let config_id = quic_lb::config_id(*id.first()?);
        let entry = self.0.iter().find(|entry| entry.encoding.config_id == config_id)?;
        let block = entry.encoding.decode(id)?;
        let server = match block.server_id == entry.encoding.server_id {
            true => NamedServer::This,
            false => NamedServer::Other(entry.nodes.get(&block.server_id).map(|node| node.0)),
        };
        Some((block, server))
    }
}

impl QuicLbEntry {
    fn read(config: &QuicLbConfig) -> anyhow::Result<Self> {
        let key = config.key.as_deref().map(read_key).transpose()?;
        let encoding = QuicLbEncoding {
            config_id: config.config_id.0,
            server_id: config.server_id,
            nonce_bytes: config.nonce_length.0.into(),
            key,
        };
        Ok(Self { encoding, nodes: config.nodes.0.clone() })
    }
}

fn read_key(path: &Path) -> anyhow::Result<[u8; KEY_BYTES]> {
    let QuicLbKey(key) = key_file::read(path).context("cannot use key")?;
    Ok(key)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use crate::config;

    /// Returns the set of these tables, in whose keys `DIR` stands for a folder with a file `key`.
    pub fn set_of(tables: &str) -> anyhow::Result<QuicLbSet> {
        set_with(tables, "--workers 1")
    }

    /// Returns the same of a server with more options.
    fn set_with(tables: &str, options: &str) -> anyhow::Result<QuicLbSet> {
        let dir = tempfile::tempdir()?;
        fs::write(dir.path().join("key"), "# 1\n8f95f09245765f80256934e50c66207f\n")?;
        fs::write(dir.path().join("empty"), "# 1\n")?;
        fs::write(dir.path().join("short"), "\n8f95f09245765f80256934e50c66207")?;
        fs::write(dir.path().join("odd"), "8f95f09245765f80256934e50c66207g")?;
        fs::write(dir.path().join("two"), format!("{0}\n{0}\n", "5e".repeat(16)))?;
        fs::write(dir.path().join("open"), "5e".repeat(16))?;
        fs::set_permissions(dir.path().join("open"), PermissionsExt::from_mode(0o666))?;
        let (file, folder) = (dir.path().join("edge.toml"), dir.path().to_str().unwrap());
        fs::write(&file, tables.replace("DIR", folder))?;
        let start = "edge-server --listen [::]:1 --root . --store memory:";
        let args = start.split(' ').chain(options.split(' '));
        let args = args.chain(["--config"]).chain(file.to_str());
        let config = config::parse(args).map_err(|stop| anyhow::anyhow!("{stop}"))?;
        QuicLbSet::read(&config)
    }

    #[test]
    fn first_configuration_encodes_and_all_decode() {
        let one =
            "[[quic-lb]]\nconfig-id = 1\nserver-id = '0a02'\nnonce-length = 14\nkey = 'DIR/key'\n";
        let other = "[[quic-lb]]\nconfig-id = 0\nserver-id = 'c0'\nnonce-length = 9\n";
        let sets = [[one, other], [other, one]].map(|tables| set_of(&tables.concat()).unwrap());
        for set in &sets {
            let encoding = set.current().unwrap();
            let mut id = [0; 20];
            encoding.encode(&[7; 14], &mut id).unwrap();
            for set in &sets {
                let (block, server) = set.decode(&id).unwrap();
                assert_eq!((block.server_id, server), (encoding.server_id, NamedServer::This));
                assert!(block.nonce.iter().all(|octet| *octet == 7));
            }
        }
        let mut id = [0; 20];
        let neighbour = set_of(&other.replace("c0", "c1")).unwrap();
        neighbour.current().unwrap().encode(&[7; 9], &mut id).unwrap();
        for (nodes, expected) in [("", None), ("c1 = '192.0.2.7:1'", Some("192.0.2.7:1"))] {
            let start = "--quic-lb-listen 192.0.2.1:2 --secrets secrets";
            let set = set_with(&format!("{other}nodes = {{ {nodes} }}"), start).unwrap();
            let expected = NamedServer::Other(expected.map(|address| address.parse().unwrap()));
            assert_eq!(set.decode(&id).unwrap().1, expected);
        }
        id[0] = quic_lb::first_octet(2, id.len());
        assert!(sets[0].decode(&id).is_none() && sets[0].decode(&[]).is_none());
        assert!(QuicLbSet::default().current().is_none());
    }

    #[test]
    fn unusable_key_is_an_error_that_names_its_file_alone() {
        const MAKE: &str = "make one with openssl rand -hex 16";
        for (path, expected, way_out) in [
            ("DIR/none", "No such file or directory (os error 2)", MAKE),
            ("DIR/empty", "holds no key", MAKE),
            ("DIR/short", "line 2 has 31 characters, and a key has 32 hexadecimal digits", MAKE),
            ("DIR/odd", "line 1 has a character that is no hexadecimal digit", MAKE),
            ("DIR/two", "holds 2 lines, and a key has one", "remove the others"),
            ("DIR/open", "other users may write it (mode 0666)", "run chmod o-rwx"),
            ("DIR", "it is a folder", "name a readable file"),
            ("/dev/zero", "it is no regular file", "name a readable file"),
        ] {
            let table = "\n[[quic-lb]]\nconfig-id = 1\nserver-id = '0a'\nnonce-length = 8\n";
            let error = set_of(&format!("{table}key = '{path}'")).err().unwrap().to_string();
            let place = "[[quic-lb]], line 2, column 1: cannot use key: /";
            let name = path.trim_start_matches("DIR");
            assert!(
                error.contains(place) && error.ends_with(&format!("{name}: {expected}; {way_out}")),
                "{error}"
            );
            assert!(!error.contains("8f95") && !error.contains('\n'), "{error}");
        }
    }
}
