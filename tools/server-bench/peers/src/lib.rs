//! Command line and content that the servers have in common.

use std::net::SocketAddr;

use anyhow::Context;

/// Where to listen, and the files with the certificate and its key, PEM.
pub struct Arguments {
    pub listen: SocketAddr,
    pub cert: String,
    pub key: String,
}

impl Arguments {
    /// `ADDR:PORT CERT KEY`.
    pub fn read() -> anyhow::Result<Self> {
        let mut words = std::env::args().skip(1);
        let mut next = |what: &str| words.next().with_context(|| format!("say {what}"));
        Ok(Self {
            listen: next("ADDR:PORT")?.parse().context("ADDR:PORT")?,
            cert: next("the certificate")?,
            key: next("the key")?,
        })
    }
}

/// Bodies are pieces of this, repeated.
pub static BODY: [u8; 1 << 20] = [0x57; 1 << 20];

/// How many bytes `/bytes/N` asks for.
pub fn bytes_asked(path: &str) -> Option<usize> {
    path.strip_prefix("/bytes/")?.parse().ok()
}
