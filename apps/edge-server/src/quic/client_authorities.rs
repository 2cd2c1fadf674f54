//! Authorities that the certificates of clients must be from (mutual TLS).

use std::path::Path;

use anyhow::anyhow;
use anyhow::bail;
use anyhow::ensure;
use anyhow::Context;
use boring::asn1::Asn1Time;
use boring::error::ErrorStack;
use boring::ssl::SslContextBuilder;
use boring::ssl::SslVerifyMode;
use boring::x509::store::X509StoreBuilder;
use boring::x509::X509Ref;
use boring::x509::X509StoreContext;
use boring::x509::X509StoreContextRef;
use boring::x509::X509;
use log::warn;
use path_store::key_file;
use path_store::small_file;
use quiche::clock;
use ring::digest;

use crate::quic::session_ticket;
use crate::quic::x509;

const DAY_SECONDS: i64 = 86_400;

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
        let pem = small_file::read(path)
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

    /// Has clients without a certificate of these authorities refused, and the sessions of others end
    /// with their certificates.
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
        tls.set_cert_verify_callback(verify);
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

/// Returns whether a client's certificate is valid, and limits its session to that validity: whoever
/// resumes it is not verified again.
fn verify(context: &mut X509StoreContextRef) -> bool {
    if !context.verify_cert().is_ok_and(|is_valid| is_valid) {
        return false;
    }
    let ssl = X509StoreContext::ssl_idx().ok().and_then(|index| context.ex_data(index));
    let (Some(ssl), Some(seconds)) = (ssl, validity_left(context)) else { return false };
    session_ticket::limit_lifetime(ssl, seconds);
    true
}

/// Returns for how many seconds all certificates of a verified chain are valid.
fn validity_left(context: &X509StoreContextRef) -> Option<u32> {
    let now = Asn1Time::days_from_now(0).ok()?;
    let left = context.chain()?.iter().map(|certificate| {
        let left = now.diff(certificate.not_after()).ok()?;
        let seconds = i64::from(left.days) * DAY_SECONDS + i64::from(left.secs);
        Some(u32::try_from(seconds.max(0)).unwrap_or(u32::MAX))
    });
    left.min()?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;
    use std::time::Duration;

    use boring::pkey::PKey;
    use boring::ssl::Ssl;
    use boring::ssl::SslConnector;
    use boring::ssl::SslMethod;
    use boring::ssl::SslSessionCacheMode;
    use boring::ssl::SslVersion;
    use boring_sys::SSL_SESSION_get_ticket_lifetime_hint;
    use foreign_types::ForeignTypeRef;
    use rcgen::BasicConstraints;
    use rcgen::IsCa;
    use rcgen::Issuer;

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

    /// Validity of certificates that outlive every session, in seconds.
    const LONG: u64 = 365 * 86_400;

    /// Session of a client whose certificate, and whose authority's, are valid for so many seconds.
    fn session_seconds(version: SslVersion, [client, authority]: [u64; 2]) -> u32 {
        let params = |seconds| {
            let mut params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.not_before = (clock::wall_now() - Duration::from_secs(60)).into();
            params.not_after = (clock::wall_now() + Duration::from_secs(seconds)).into();
            params
        };
        let (key, authority_key) =
            (rcgen::KeyPair::generate().unwrap(), rcgen::KeyPair::generate().unwrap());
        let mut authority = params(authority);
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(rcgen::DnType::CommonName, "authority");
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ca.pem");
        std::fs::write(&file, authority.self_signed(&authority_key).unwrap().pem()).unwrap();
        let authorities = ClientAuthorities::read(&file).unwrap();
        let issuer = Issuer::new(authority, authority_key);
        let certificate = params(client).signed_by(&key, &issuer).unwrap();
        let identity = (
            X509::from_der(certificate.der()).unwrap(),
            PKey::private_key_from_der(&key.serialize_der()).unwrap(),
        );

        let (client_end, server_end) = UnixStream::pair().unwrap();
        let mut tls = SslContextBuilder::new(SslMethod::tls()).unwrap();
        tls.set_certificate(&identity.0).unwrap();
        tls.set_private_key(&identity.1).unwrap();
        authorities.configure(&mut tls).unwrap();
        let tls = tls.build();
        let server = std::thread::spawn(move || {
            let mut stream = Ssl::new(&tls).unwrap().accept(server_end).unwrap();
            stream.write_all(b"x").unwrap();
        });
        let mut tls = SslConnector::builder(SslMethod::tls()).unwrap();
        tls.set_verify(SslVerifyMode::NONE);
        tls.set_max_proto_version(Some(version)).unwrap();
        tls.set_certificate(&identity.0).unwrap();
        tls.set_private_key(&identity.1).unwrap();
        tls.set_session_cache_mode(SslSessionCacheMode::CLIENT);
        let (sessions, received) = mpsc::channel();
        tls.set_new_session_callback(move |_, session| sessions.send(session).unwrap());
        let mut stream = tls.build().connect("localhost", client_end).unwrap();
        stream.read_exact(&mut [0]).unwrap();
        server.join().unwrap();
        let session = received.recv().unwrap();
        // SAFETY: the session is alive.
        let hint = unsafe { SSL_SESSION_get_ticket_lifetime_hint(session.as_ptr()) };
        // TLS 1.3 has it in the timeout.
        if version == SslVersion::TLS1_2 {
            hint
        } else {
            session.timeout()
        }
    }

    #[test]
    fn session_ends_with_the_certificates() {
        for version in [SslVersion::TLS1_2, SslVersion::TLS1_3] {
            let default = session_seconds(version, [LONG, LONG]);
            assert!((3600..LONG as u32).contains(&default), "{default}");
            for validity in [[600, LONG], [LONG, 600]] {
                let seconds = session_seconds(version, validity);
                assert!((500..=600).contains(&seconds), "{version:?} {validity:?}: {seconds}");
            }
        }
    }
}
