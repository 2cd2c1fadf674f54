//! Command line and content shared by the servers.

use std::net::SocketAddr;

use anyhow::Context;

/// Address to listen on, and the PEM files of the certificate and its key.
pub struct Arguments {
    pub listen: SocketAddr,
    pub cert: String,
    pub key: String,
}

impl Arguments {
    /// Parses the arguments `ADDR:PORT CERT KEY`.
    pub fn read() -> anyhow::Result<Self> {
        let mut words = std::env::args().skip(1);
        let mut next = |name| words.next().with_context(|| format!("missing argument: {name}"));
        Ok(Self {
            listen: next("ADDR:PORT")?.parse().context("ADDR:PORT")?,
            cert: next("CERT")?,
            key: next("KEY")?,
        })
    }
}

/// Response bodies repeat these bytes.
pub static BODY: [u8; 1 << 20] = [0x57; 1 << 20];

/// Returns N of a path `/bytes/N`.
pub fn requested_bytes(path: &str) -> Option<usize> {
    path.strip_prefix("/bytes/")?.parse().ok()
}
