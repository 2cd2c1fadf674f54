//! TLS settings that detect a resumed handshake: quinn does not report it, but only a full
//! handshake checks a certificate.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use anyhow::Context;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::danger::ServerCertVerified;
use rustls::client::danger::ServerCertVerifier;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::ServerName;
use rustls::pki_types::UnixTime;
use rustls::DigitallySignedStruct;
use rustls::Error;
use rustls::SignatureScheme;

/// Checks certificates as usual, and counts.
#[derive(Debug)]
pub struct Verifier {
    usual: Arc<WebPkiServerVerifier>,
    checked: AtomicUsize,
}

impl Verifier {
    /// How many certificates were checked.
    pub fn checked(&self) -> usize {
        self.checked.load(Ordering::Relaxed)
    }
}

/// Settings that trust one certificate and keep session tickets.
///
/// # Errors
///
/// The file holds no certificate.
pub fn settings(certificate: &Path) -> anyhow::Result<(rustls::ClientConfig, Arc<Verifier>)> {
    let pem = fs::read(certificate).with_context(|| certificate.display().to_string())?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pem)?)?;
    let provider = Arc::new(ring::default_provider());
    let usual =
        WebPkiServerVerifier::builder_with_provider(roots.into(), provider.clone()).build()?;
    let verifier = Arc::new(Verifier { usual, checked: AtomicUsize::new(0) });
    let mut tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(verifier.clone())
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    tls.enable_early_data = true;
    Ok((tls, verifier))
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.checked.fetch_add(1, Ordering::Relaxed);
        self.usual.verify_server_cert(leaf, chain, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls12_signature(message, leaf, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        leaf: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.usual.verify_tls13_signature(message, leaf, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}
