//! Responses to an authority's challenges: HTTP-01 (RFC 8555, 8.3) and TLS-ALPN-01 (RFC 8737).
//!
//! They are files, so that each server of a fleet answers challenges that another one began.

use std::path::Path;
use std::path::PathBuf;

use anyhow::Context;
use boring::ssl::ClientHello;
use boring::ssl::ExtensionType;
use boring::ssl::NameType;
use boring::ssl::SelectCertError;
use boring::ssl::SslOptions;
use boring::ssl::SslVerifyMode;
use log::debug;
use rcgen::CustomExtension;
use ring::digest::digest;
use ring::digest::SHA256;

use crate::acme::storage;
use crate::config::acme::AcmeFiles;
use crate::quic::certificate::CertifiedKey;

/// Protocol of TLS-ALPN-01, and the list of it alone, as ALPN has it (RFC 7301, 3.1).
pub const ALPN_PROTOCOL: &[u8] = b"acme-tls/1";
pub const ALPN_PROTOCOL_LIST: &[u8] = b"\x0aacme-tls/1";

/// Path of HTTP-01, before the token.
const HTTP_PATH: &str = "/.well-known/acme-challenge/";

/// Kind of challenge that a server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChallengeKind {
    Http01,
    TlsAlpn01,
}

impl ChallengeKind {
    /// Returns its name in ACME.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
        }
    }
}

/// Responses that are ready, which are removed when it is dropped.
#[derive(Debug)]
pub struct PendingChallenges<'a> {
    files: &'a AcmeFiles,
    written: Vec<PathBuf>,
}

impl<'a> PendingChallenges<'a> {
    pub fn new(files: &'a AcmeFiles) -> Self {
        Self { files, written: Vec::new() }
    }

    /// Has servers respond to a challenge for a host name.
    ///
    /// # Errors
    ///
    /// The token or the name is malformed, or the file cannot be written.
    pub fn add(
        &mut self,
        kind: ChallengeKind,
        token: &str,
        name: &str,
        key_authorization: &str,
    ) -> anyhow::Result<()> {
        let path = match kind {
            ChallengeKind::Http01 => self.files.http_challenge(token),
            ChallengeKind::TlsAlpn01 => self.files.alpn_challenge(name),
        };
        let path = path.context("the authority's challenge is malformed")?;
        storage::write(&path, key_authorization.as_bytes())?;
        self.written.push(path);
        Ok(())
    }
}

impl Drop for PendingChallenges<'_> {
    fn drop(&mut self) {
        for path in &self.written {
            if let Err(e) = std::fs::remove_file(path) {
                debug!("cannot remove {}: {e}", path.display());
            }
        }
    }
}

/// Returns the response to an HTTP-01 challenge, if a path asks for one that a server has begun.
pub fn http_response(files: &AcmeFiles, path: &str) -> Option<String> {
    let token = path.strip_prefix(HTTP_PATH)?;
    let response = read(&files.http_challenge(token)?)?;
    // Of no other token.
    response.strip_prefix(token)?.starts_with('.').then_some(response)
}

/// Responds to a client that validates a name by TLS-ALPN-01, and to no other.
///
/// # Errors
///
/// No server has begun a challenge for the name.
pub fn respond_in_handshake(
    files: &AcmeFiles,
    hello: &mut ClientHello<'_>,
) -> Option<Result<(), SelectCertError>> {
    let offered = hello.get_extension(ExtensionType::APPLICATION_LAYER_PROTOCOL_NEGOTIATION)?;
    // After the length of the list.
    if offered.get(2..)? != ALPN_PROTOCOL_LIST {
        return None;
    }
    let name = hello.servername(NameType::HOST_NAME).unwrap_or_default().to_owned();
    let responded = alpn_certificate(files, &name).and_then(|certified_key| {
        let ssl = hello.ssl_mut();
        // An authority has no certificate of --client-ca. Nor may somebody without one get a ticket, with
        // which the next connection would need none.
        ssl.set_verify(SslVerifyMode::NONE);
        ssl.set_options(SslOptions::NO_TICKET);
        certified_key.configure_connection(ssl).context("cannot use the certificate")
    });
    Some(responded.map_err(|e| {
        debug!("no response to tls-alpn-01 of {name}: {e:#}");
        SelectCertError::ERROR
    }))
}

/// Makes the certificate that responds to a challenge for a name (RFC 8737, 3).
fn alpn_certificate(files: &AcmeFiles, name: &str) -> anyhow::Result<CertifiedKey> {
    let response = files.alpn_challenge(name).and_then(|path| read(&path));
    let response = response.context("no server has begun one")?;
    let digest = digest(&SHA256, response.as_bytes());
    CertifiedKey::self_signed(vec![name.to_ascii_lowercase()], |params| {
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest.as_ref())];
    })
}

fn read(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::acme::AcmeOptions;
    use boring::ssl::Ssl;
    use boring::ssl::SslConnector;
    use boring::ssl::SslContextBuilder;
    use boring::ssl::SslMethod;
    use boring::ssl::SslSessionCacheMode;
    use std::io::Read;
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering;
    use std::sync::Arc;

    fn files(dir: &Path) -> AcmeFiles {
        let (acme_dir, acme_directory) = (Some(dir.to_owned()), "https://ca.example/".to_owned());
        let options = AcmeOptions {
            acme_dir,
            acme_directory,
            acme_contact: None,
            acme_ca: None,
            acme_external_account: None,
            acme_retry: 1,
        };
        options.files().unwrap()
    }

    #[test]
    fn only_begun_challenges_are_answered_over_http() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        storage::write(&files.account(), b"secret").unwrap();
        let mut pending = PendingChallenges::new(&files);
        pending.add(ChallengeKind::Http01, "tok-en_1", "a.example", "tok-en_1.thumb").unwrap();
        pending.add(ChallengeKind::Http01, "other", "a.example", "tok-en_1.thumb").unwrap();
        for (path, expected) in [
            ("/.well-known/acme-challenge/tok-en_1", Some("tok-en_1.thumb")),
            // The file is another token's.
            ("/.well-known/acme-challenge/other", None),
            ("/.well-known/acme-challenge/tok-en_", None),
            ("/.well-known/acme-challenge/tok-en_1?x", None),
            ("/.well-known/acme-challenge/", None),
            ("/.well-known/acme-challenge/../account.json", None),
            ("/.well-known/acme-challenge//etc/passwd", None),
            ("/.well-known/other/tok-en_1", None),
            ("/", None),
        ] {
            assert_eq!(http_response(&files, path).as_deref(), expected, "{path}");
        }
        let refused = pending.add(ChallengeKind::Http01, "../x", "a.example", "../x.thumb");
        assert!(refused.unwrap_err().to_string().contains("malformed"));
        drop(pending);
        assert_eq!(http_response(&files, "/.well-known/acme-challenge/tok-en_1"), None);
    }

    /// Connects a client with these protocols to a server that may demand certificates. Returns the
    /// certificate that the client gets, in DER form, and how many tickets.
    fn connect(
        files: &AcmeFiles,
        name: &str,
        protocols: &[u8],
        demands: bool,
    ) -> Option<(Vec<u8>, usize)> {
        let (client, server) = UnixStream::pair().unwrap();
        let files = files.clone();
        let server = std::thread::spawn(move || {
            let mut tls = SslContextBuilder::new(SslMethod::tls()).unwrap();
            if demands {
                tls.set_verify(SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT);
            }
            let ordinary = CertifiedKey::self_signed(vec!["ordinary".into()], |_| ()).unwrap();
            tls.set_select_certificate_callback(move |mut hello| {
                let responded = respond_in_handshake(&files, &mut hello);
                responded.unwrap_or_else(|| {
                    let configured = ordinary.configure_connection(hello.ssl_mut());
                    configured.map_err(|_| SelectCertError::ERROR)
                })
            });
            let accepted = Ssl::new(&tls.build()).unwrap().accept(server);
            accepted.is_ok_and(|mut stream| stream.write_all(b"x").is_ok())
        });
        let mut tls = SslConnector::builder(SslMethod::tls()).unwrap();
        tls.set_verify(SslVerifyMode::NONE);
        tls.set_alpn_protos(protocols).unwrap();
        tls.set_session_cache_mode(SslSessionCacheMode::CLIENT);
        let tickets = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&tickets);
        tls.set_new_session_callback(move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let connected = tls.build().connect(name, client).ok().and_then(|mut stream| {
            stream.read_exact(&mut [0]).ok()?;
            stream.ssl().peer_certificate()
        });
        assert_eq!(server.join().unwrap(), connected.is_some());
        Some((connected?.to_der().unwrap(), tickets.load(Ordering::Relaxed)))
    }

    #[test]
    fn only_begun_challenges_are_answered_in_handshakes() {
        let dir = tempfile::tempdir().unwrap();
        let files = files(dir.path());
        let mut pending = PendingChallenges::new(&files);
        pending.add(ChallengeKind::TlsAlpn01, "token", "A.example", "token.thumb").unwrap();
        // The extension: critical, and the digest as an OCTET STRING in one.
        let mut extension =
            b"\x06\x08\x2b\x06\x01\x05\x05\x07\x01\x1f\x01\x01\xff\x04\x22\x04\x20".to_vec();
        extension.extend(digest(&SHA256, b"token.thumb").as_ref());
        let has_extension = |certificate: &Vec<u8>| {
            certificate.windows(extension.len()).any(|part| part == extension)
        };
        for (name, protocols, demands, responds) in [
            ("a.example", ALPN_PROTOCOL_LIST, false, Some(true)),
            ("b.example", ALPN_PROTOCOL_LIST, false, None),
            // An ordinary client.
            ("a.example", b"\x02h2".as_slice(), false, Some(false)),
            // A validating client offers nothing else (RFC 8737, 3).
            ("a.example", b"\x0aacme-tls/1\x02h2", false, Some(false)),
            // The authority has no certificate for a server that demands one, and no way in.
            ("a.example", ALPN_PROTOCOL_LIST, true, Some(true)),
            ("b.example", ALPN_PROTOCOL_LIST, true, None),
            ("a.example", b"\x02h2", true, None),
        ] {
            let connected = connect(&files, name, protocols, demands);
            let found = connected.as_ref().map(|(certificate, _)| has_extension(certificate));
            assert_eq!(found, responds, "{name} {protocols:?} {demands}");
            let has_ticket = connected.is_some_and(|(_, tickets)| tickets > 0);
            assert_eq!(has_ticket, responds == Some(false), "{name} {protocols:?} {demands}");
        }
        drop(pending);
        assert_eq!(connect(&files, "a.example", ALPN_PROTOCOL_LIST, false), None);
    }
}
