//! Authorities that the certificates of clients must be from (mutual TLS).

use std::path::Path;

use anyhow::ensure;
use anyhow::Context;
use boring::asn1::Asn1Time;
use boring::error::ErrorStack;
use boring::ssl::SslContextBuilder;
use boring::ssl::SslVerifyMode;
use boring::x509::store::X509StoreBuilder;
use boring::x509::X509StoreContext;
use boring::x509::X509StoreContextRef;
use boring::x509::X509;
use ring::digest;

use crate::quic::session_ticket;

const DAY_SECONDS: i64 = 86_400;

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
    use quiche::clock;
    use rcgen::Issuer;

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
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
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
