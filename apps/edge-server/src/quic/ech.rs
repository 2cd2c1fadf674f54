//! Keys of Encrypted Client Hello (RFC 9849): server names that only the server reads.

use std::io::ErrorKind;
use std::path::PathBuf;

use boring::error::ErrorStack;
use boring::ssl::SslContextBuilder;
use boring::ssl::SslEchKeys;
use path_store::key_file;

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
            let pem = std::fs::read(path);
            let pem = pem.map_err(|e| {
                anyhow::anyhow!("cannot read --ech-keys {name}: {e}; {}", remedy(e.kind()))
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

/// Returns what to do about a file that cannot be read.
fn remedy(error: ErrorKind) -> &'static str {
    match error {
        ErrorKind::NotFound => "make one with edge-server ech-keys",
        ErrorKind::PermissionDenied => "let the server's user read it, with chown or chmod",
        _ => "name a readable file",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_file_has_its_way_out() {
        for (error, expected) in [
            (ErrorKind::NotFound, "make one with"),
            (ErrorKind::PermissionDenied, "let the server's user read it"),
            (ErrorKind::IsADirectory, "name a readable file"),
        ] {
            assert!(remedy(error).starts_with(expected), "{error}");
        }
    }
}
