//! Keys of Encrypted Client Hello (RFC 9849): server names that only the server reads.

use std::path::PathBuf;

use boring::error::ErrorStack;
use boring::ssl::SslContextBuilder;
use boring::ssl::SslEchKeys;
use path_store::key_file;
use path_store::small_file;

use crate::quic::ech_config;
use crate::quic::ech_config::EchKey;

/// Keys of all files, the newest first.
pub struct EchKeys {
    keys: SslEchKeys,

    /// Names that clients send in the clear.
    pub public_names: Vec<String>,
}

impl EchKeys {
    /// Reads the keys in PEM files, if there are any.
    ///
    /// # Errors
    ///
    /// One line that names the unusable file.
    pub fn read(paths: &[PathBuf]) -> anyhow::Result<Option<Self>> {
        let mut keys = Vec::new();
        for path in paths {
            let name = path.display();
            let pem = small_file::read(path).map_err(|e| {
                let remedy = small_file::remedy(e.kind(), "make one with edge-server ech-keys");
                anyhow::anyhow!("cannot read --ech-keys {name}: {e}; {remedy}")
            })?;
            let key = EchKey::from_pem(&pem).and_then(|key| {
                ech_config::usable(std::slice::from_ref(&key))?;
                Ok(key)
            });
            let key = key.map_err(|e| {
                anyhow::anyhow!("--ech-keys {name} {e}; make another with edge-server ech-keys")
            })?;
            key_file::check_mode(path)
                .map_err(|why| anyhow::anyhow!("--ech-keys {name}: {why}"))?;
            keys.push(key);
        }
        if keys.is_empty() {
            return Ok(None);
        }
        let public_names = keys.iter().flat_map(EchKey::public_names).collect();
        Ok(Some(Self { keys: ech_config::usable(&keys)?, public_names }))
    }

    /// Has the server decrypt with the keys.
    ///
    /// # Errors
    ///
    /// BoringSSL rejects them.
    pub fn configure(&self, tls: &SslContextBuilder) -> Result<(), ErrorStack> {
        tls.set_ech_keys(&self.keys)
    }
}
