//! Authorities that the certificates of clients must be from (mutual TLS).

use std::path::Path;

use anyhow::anyhow;
use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use boring::error::ErrorStack;
use boring::ssl::SslContextBuilder;
use boring::ssl::SslVerifyMode;
use boring::x509::store::X509StoreBuilder;
use boring::x509::X509Ref;
use boring::x509::X509;
use log::warn;
use path_store::key_file;
use quiche::clock;
use ring::digest;

use crate::quic::x509;

/// Certificates of authorities; clones share nothing that changes.
#[derive(Clone)]
pub struct ClientAuthorities {
    certificates: Vec<X509>,

    /// Digest of the file: sessions of clients that other authorities let in are not resumed.
    digest: digest::Digest,
}

impl ClientAuthorities {
    /// Reads a PEM file. Warns of certificates whose time is not now, unless it is none's.
    ///
    /// # Errors
    ///
    /// One line that names the unusable file.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let pem = std::fs::read(path)
            .with_context(|| format!("cannot read --client-ca {name}; name a readable PEM file"))?;
        let certificates =
            x509::certificates(&pem).with_context(|| format!("--client-ca {name}"))?;
        check_kind(&certificates).with_context(|| format!("--client-ca {name}"))?;
        let mode = key_file::check_writers(path, "o-w");
        mode.map_err(|why| anyhow!("--client-ca {name}: {why}"))?;
        let invalid: Vec<_> =
            (1..).zip(&certificates).filter(|(_, cert)| !is_valid(cert)).collect();
        ensure!(
            invalid.len() < certificates.len(),
            "--client-ca {name}: no certificate is valid now, so that every client would be refused; \
             renew them"
        );
        for (number, _) in invalid {
            warn!(
                "--client-ca {name}: certificate {number} has expired or is not valid yet: clients \
                 with certificates of this authority are refused; renew it, or remove it"
            );
        }
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

/// Checks that certificates are those of authorities.
fn check_kind(certificates: &[X509]) -> anyhow::Result<()> {
    for (number, certificate) in (1..).zip(certificates) {
        if !x509::is_authority(certificate) {
            bail!(
                "certificate {number} is no authority's (basicConstraints has no CA): clients would \
                 be refused; name the certificate that signed theirs"
            );
        }
    }
    Ok(())
}

fn is_valid(certificate: &X509Ref) -> bool {
    let now = clock::wall_now();
    let is_begun = x509::time(certificate.not_before()).is_none_or(|start| start <= now);
    is_begun && x509::time(certificate.not_after()).is_some_and(|end| now < end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::BasicConstraints;
    use rcgen::IsCa;

    /// Returns a certificate that is valid until a year.
    fn certificate(is_ca: IsCa, year: i32) -> String {
        let mut params = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.is_ca = is_ca;
        [params.not_before, params.not_after] =
            [2001, year].map(|year| rcgen::date_time_ymd(year, 3, 1));
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
    }

    fn authority(year: i32) -> String {
        certificate(IsCa::Ca(BasicConstraints::Unconstrained), year)
    }

    #[test]
    fn only_valid_authorities_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        let (good, old) = (authority(4000), authority(2002));
        let broken = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        let key = "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n";
        let leaf = certificate(IsCa::NoCa, 4000);
        let explicit_leaf = certificate(IsCa::ExplicitNoCa, 4000);
        for (pem, why) in [
            (good.clone(), None),
            (format!("# The first\n{good}{good}"), None),
            (format!("{good}{old}"), None),
            (format!("{key}{good}"), None),
            (old.clone(), Some("no certificate is valid now")),
            (format!("{old}{old}"), Some("no certificate is valid now")),
            (leaf.clone(), Some("certificate 1 is no authority's")),
            (format!("{good}{leaf}"), Some("certificate 2 is no authority's")),
            (format!("{good}{explicit_leaf}"), Some("certificate 2 is no authority's")),
            (format!("{good}{broken}"), Some("block 2 is no certificate")),
            (format!("{good}{}", &good[..200]), Some("block 2 is no certificate")),
            (key.to_owned(), Some("holds no certificate")),
            (String::new(), Some("holds no certificate")),
        ] {
            std::fs::write(&path, &pem).unwrap();
            let error = ClientAuthorities::read(&path).map(drop).err();
            let error = error.map(|e| format!("{e:#}"));
            assert_eq!(error.is_some(), why.is_some(), "{pem}: {error:?}");
            let named = |error: String| {
                error.starts_with(&format!("--client-ca {}", path.display()))
                    && error.contains(why.unwrap())
            };
            assert!(error.is_none_or(named), "{pem}");
        }
    }
}
