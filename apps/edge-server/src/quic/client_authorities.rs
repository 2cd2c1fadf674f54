//! Authorities that the certificates of clients must be from (mutual TLS).

use std::path::Path;

use anyhow::ensure;
use anyhow::Context;
use boring::error::ErrorStack;
use boring::ssl::SslContextBuilder;
use boring::ssl::SslVerifyMode;
use boring::x509::store::X509StoreBuilder;
use boring::x509::X509;
use ring::digest;

/// Certificates of authorities; clones share nothing that changes.
#[derive(Clone)]
pub struct ClientAuthorities {
    certificates: Vec<X509>,

    /// Digest of the file: sessions of clients that other authorities let in are not resumed.
    digest: digest::Digest,
}

impl ClientAuthorities {
    /// Reads a PEM file.
    ///
    /// # Errors
    ///
    /// One line that names the unusable file.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let pem = std::fs::read(path)
            .with_context(|| format!("cannot read --client-ca {name}; name a readable PEM file"))?;
        let certificates = X509::stack_from_pem(&pem).unwrap_or_default();
        ensure!(
            !certificates.is_empty(),
            "--client-ca {name} holds no certificate in PEM form; name a PEM file"
        );
        Ok(Self { certificates, digest: digest::digest(&digest::SHA256, &pem) })
    }

    /// Has clients without a certificate of these authorities refused.
    ///
    /// # Errors
    ///
    /// BoringSSL rejects a certificate.
    pub fn configure(&self, tls: &mut SslContextBuilder) -> Result<(), ErrorStack> {
        let mut store = X509StoreBuilder::new()?;
        for certificate in &self.certificates {
            store.add_cert(certificate)?;
            tls.add_client_ca(certificate)?;
        }
        tls.set_verify_cert_store(store.build())?;
        tls.set_verify(SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT);
        tls.set_session_id_context(self.digest.as_ref())
    }
}
