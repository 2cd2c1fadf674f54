//! Certificates by what clients can verify, certificates of clients, groups and versions.

use std::fs;
use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpStream;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use boring::asn1::Asn1Time;
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::PKey;
use boring::rsa::Rsa;
use boring::ssl::SslConnector;
use boring::ssl::SslConnectorBuilder;
use boring::ssl::SslFiletype;
use boring::ssl::SslMethod;
use boring::ssl::SslRef;
use boring::ssl::SslSession;
use boring::ssl::SslSessionCacheMode;
use boring::ssl::SslStream;
use boring::ssl::SslVerifyMode;
use boring::ssl::SslVersion;
use boring::x509::X509Name;
use boring::x509::X509;
use boring_sys::SSL_SESSION_set_timeout;
use foreign_types::ForeignTypeRef;
use quiche::clock;

use crate::support::certify::certify;
use crate::support::client::ResumptionData;
use crate::support::client::UdpClient;
use crate::support::metrics;
use crate::support::process::serve;
use crate::support::process::server_command;
use crate::support::process::sibling;
use crate::support::process::Running;

/// Alert of a server that has seen no certificate of the client (RFC 8446, 6.2), as an error of QUIC
/// (RFC 9001, 4.8).
const CERTIFICATE_REQUIRED: u64 = 0x100 + 116;

/// Writes a certificate for `name` with an RSA key, and the key. Returns the certificate, in DER form.
fn certify_rsa(dir: &Path, name: &str) -> Vec<u8> {
    let key = PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap();
    let mut subject = X509Name::builder().unwrap();
    subject.append_entry_by_nid(Nid::COMMONNAME, name).unwrap();
    let subject = subject.build();
    let mut certificate = X509::builder().unwrap();
    certificate.set_version(2).unwrap();
    certificate.set_subject_name(&subject).unwrap();
    certificate.set_issuer_name(&subject).unwrap();
    certificate.set_not_before(&Asn1Time::days_from_now(0).unwrap()).unwrap();
    certificate.set_not_after(&Asn1Time::days_from_now(60).unwrap()).unwrap();
    certificate.set_pubkey(&key).unwrap();
    certificate.sign(&key, MessageDigest::sha256()).unwrap();
    let certificate = certificate.build();
    fs::write(dir.join("rsa.pem"), certificate.to_pem().unwrap()).unwrap();
    fs::write(dir.join("rsa.key"), key.private_key_to_pem_pkcs8().unwrap()).unwrap();
    certificate.to_der().unwrap()
}

/// Connects over TCP, with settings of the client.
fn connect(
    server: SocketAddr,
    settings: impl FnOnce(&mut SslConnectorBuilder),
) -> Option<SslStream<TcpStream>> {
    connect_with(server, settings, |_| ())
}

/// The same, with settings of the connection.
fn connect_with(
    server: SocketAddr,
    settings: impl FnOnce(&mut SslConnectorBuilder),
    of_connection: impl FnOnce(&mut SslRef),
) -> Option<SslStream<TcpStream>> {
    let mut connector = SslConnector::builder(SslMethod::tls()).unwrap();
    connector.set_verify(SslVerifyMode::NONE);
    settings(&mut connector);
    let mut configuration = connector.build().configure().unwrap();
    configuration.set_verify_hostname(false);
    of_connection(&mut configuration);
    configuration.connect("localhost", TcpStream::connect(server).unwrap()).ok()
}

/// Returns whether the server responds to a request.
fn responds(stream: Option<SslStream<TcpStream>>) -> bool {
    let Some(mut stream) = stream else { return false };
    let request = b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let mut response = Vec::new();
    stream.write_all(request).is_ok()
        && stream.read_to_end(&mut response).is_ok()
        && response.starts_with(b"HTTP/1.1 200")
}

fn paths(dir: &Path, names: &[&str]) -> Vec<String> {
    names.iter().map(|name| dir.join(name).to_str().unwrap().to_owned()).collect()
}

fn root() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("www")).unwrap();
    fs::write(dir.path().join("www/index.html"), "home").unwrap();
    dir
}

#[test]
fn client_gets_the_certificate_that_it_can_verify() {
    let dir = root();
    let (ecdsa, rsa) = (certify(dir.path(), "localhost"), certify_rsa(dir.path(), "localhost"));
    let [cert, key, rsa_cert, rsa_key] =
        &paths(dir.path(), &["localhost.pem", "localhost.key", "rsa.pem", "rsa.key"])[..]
    else {
        unreachable!()
    };
    let config = dir.path().join("edge.toml");
    let hosts =
        format!("[[host]]\ncert = ['{cert}', '{rsa_cert}']\nkey = ['{key}', '{rsa_key}']\n");
    fs::write(&config, hosts).unwrap();
    let options = [
        &["--cert", cert, "--key", key, "--cert", rsa_cert, "--key", rsa_key][..],
        &["--config", config.to_str().unwrap()],
    ];
    for options in options {
        let (mut server, address) = serve(&dir.path().join("www"), options);
        let (both, ecdsa_only, rsa_only) = (
            "rsa_pss_rsae_sha256:ecdsa_secp256r1_sha256",
            "ecdsa_secp256r1_sha256",
            "rsa_pss_rsae_sha256",
        );
        for (schemes, tls12_ciphers, expected) in [
            (both, None, &ecdsa),
            (ecdsa_only, None, &ecdsa),
            (rsa_only, None, &rsa),
            (both, Some("ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-CHACHA20-POLY1305"), &ecdsa),
            (both, Some("ECDHE-ECDSA-AES256-GCM-SHA384"), &ecdsa),
            (both, Some("ECDHE-RSA-AES128-GCM-SHA256"), &rsa),
            (both, Some("ECDHE-RSA-CHACHA20-POLY1305"), &rsa),
            (rsa_only, Some("ECDHE+AESGCM"), &rsa),
        ] {
            let stream = connect(address, |tls| {
                tls.set_sigalgs_list(schemes).unwrap();
                if let Some(ciphers) = tls12_ciphers {
                    tls.set_max_proto_version(Some(SslVersion::TLS1_2)).unwrap();
                    tls.set_cipher_list(ciphers).unwrap();
                }
            });
            let stream = stream.unwrap_or_else(|| panic!("{schemes} {tls12_ciphers:?}"));
            let found = stream.ssl().peer_certificate().unwrap().to_der().unwrap();
            assert_eq!(&found, expected, "{schemes} {tls12_ciphers:?}");
        }
        assert_eq!(UdpClient::connect(address).certificate(), ecdsa);
        assert!(server.stop().success());
    }
}

/// Files of an authority, and of a certificate of it for a client.
struct Identity {
    authority: PathBuf,
    cert: PathBuf,
    key: PathBuf,
}

impl Identity {
    fn make(dir: &Path, name: &str) -> Self {
        Self::make_with(dir, name, |_| ())
    }

    /// Writes the files. The certificate is as `set` has it.
    fn make_with(dir: &Path, name: &str, set: impl FnOnce(&mut rcgen::CertificateParams)) -> Self {
        let authority_key = rcgen::KeyPair::generate().unwrap();
        let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        authority.distinguished_name.push(rcgen::DnType::CommonName, name);
        let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
        let issuer = rcgen::Issuer::new(authority, authority_key);
        let key = rcgen::KeyPair::generate().unwrap();
        let mut client = rcgen::CertificateParams::new(vec!["client".to_owned()]).unwrap();
        set(&mut client);
        let client_pem = client.signed_by(&key, &issuer).unwrap().pem();
        let [authority, cert, key_file] =
            ["ca.pem", "client.pem", "client.key"].map(|file| dir.join(format!("{name}-{file}")));
        fs::write(&authority, authority_pem).unwrap();
        fs::write(&cert, client_pem).unwrap();
        fs::write(&key_file, key.serialize_pem()).unwrap();
        Self { authority, cert, key: key_file }
    }

    fn files(&self) -> [&Path; 2] {
        [&self.cert, &self.key]
    }

    fn configure(&self, tls: &mut SslConnectorBuilder) {
        tls.set_certificate_chain_file(&self.cert).unwrap();
        tls.set_private_key_file(&self.key, SslFiletype::PEM).unwrap();
    }
}

#[test]
fn edge_client_presents_its_certificate() {
    let dir = root();
    let identity = Identity::make(dir.path(), "ours");
    let (mut server, address) =
        serve(&dir.path().join("www"), &["--client-ca", identity.authority.to_str().unwrap()]);
    let url = format!("https://{address}/");
    for (is_presented, is_admitted) in [(true, true), (false, false)] {
        let mut client = Command::new(sibling("edge-client"));
        client.args([&url, "--insecure"]);
        if is_presented {
            client.arg("--cert").arg(&identity.cert).arg("--key").arg(&identity.key);
        }
        let output = client.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.success(), is_admitted, "{said}");
        assert_eq!(said.lines().count(), usize::from(!is_admitted), "{said}");
    }
    assert!(server.stop().success());
}

#[test]
fn certificate_of_a_client_is_logged_and_refusals_counted() {
    let dir = root();
    let (log, day) = (dir.path().join("access.log"), Duration::from_secs(86_400));
    let [ours, foreign] = ["ours", "foreign"].map(|name| {
        Identity::make_with(dir.path(), name, |client| {
            client.distinguished_name.push(rcgen::DnType::CommonName, format!("{name} \"é\""));
        })
    });
    let authorities = dir.path().join("authorities.pem");
    let expired = Identity::make_with(dir.path(), "expired", |client| {
        client.not_before = (clock::wall_now() - 2 * day).into();
        client.not_after = (clock::wall_now() - day).into();
    });
    let early = Identity::make_with(dir.path(), "early", |client| {
        client.not_before = (clock::wall_now() + day).into();
    });
    let read = |identity: &Identity| fs::read_to_string(&identity.authority).unwrap();
    fs::write(&authorities, [&ours, &expired, &early].map(read).concat()).unwrap();
    let mut command = server_command(&[
        "--listen=127.0.0.1:0",
        "--metrics=127.0.0.1:0",
        &format!("--root={}", dir.path().join("www").display()),
        &format!("--client-ca={}", authorities.display()),
        &format!("--access-log={}", log.display()),
    ]);
    let mut server = Running::start(command.env("RUST_LOG", "edge_server=debug"));
    let (address, metrics_at) = (server.address(), server.metrics_address());
    for (identity, reason, why) in [
        (None, "missing", "the client has no certificate"),
        (
            Some(&expired),
            "expired",
            "CN=rcgen self signed cert, is refused: certificate has expired",
        ),
        (Some(&early), "not_yet_valid", "is refused: certificate is not yet valid"),
        (Some(&foreign), "unknown_authority", "certificate, CN=foreign \\\"é\\\", is refused: "),
    ] {
        let over_tcp = connect(address, |tls| {
            if let Some(identity) = identity {
                identity.configure(tls);
            }
        });
        assert!(!responds(over_tcp));
        let files = identity.map(Identity::files);
        let mut client = UdpClient::begin_certified(address, files, &ResumptionData::default());
        assert!(!client.is_admitted());
        client.close();
        let counted =
            format!("edge_server_client_certificate_refusals_total{{reason=\"{reason}\"}}");
        metrics::wait_until(metrics_at, &counted, |count| count == 2);
        server.wait_for_another(why, 1);
    }
    let client = SessionClient::new(address, &ours);
    assert_eq!(client.admissions(), [SessionOutcome::Resumed; 3]);
    assert!(server.stop().success());
    let lines = fs::read_to_string(&log).unwrap();
    assert_eq!(lines.lines().count(), 5, "{lines}");
    for line in lines.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["client_certificate"], "CN=ours \\\"é\\\"");
    }
}

/// A client that presents a certificate and keeps its sessions.
struct SessionClient<'a> {
    server: SocketAddr,
    identity: &'a Identity,
    over_tcp: Vec<(SslVersion, SslSession)>,
    over_quic: ResumptionData,
}

/// Whether a client was admitted, and whether it resumed its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionOutcome {
    Resumed,
    Full,
    Refused,
}

impl<'a> SessionClient<'a> {
    /// Connects in each way, for sessions.
    fn new(server: SocketAddr, identity: &'a Identity) -> Self {
        let over_tcp = [SslVersion::TLS1_2, SslVersion::TLS1_3].map(|version| {
            let (admission, session) = Self::over_tcp(server, identity, version, None);
            assert_eq!(admission, SessionOutcome::Full);
            (version, session.unwrap())
        });
        let mut client =
            UdpClient::begin_certified(server, Some(identity.files()), &ResumptionData::default());
        client.establish();
        let over_quic = client.resumption_data();
        Self { server, identity, over_tcp: over_tcp.into(), over_quic }
    }

    /// Offers the sessions: over TCP with TLS 1.2 and 1.3, and over QUIC.
    fn admissions(&self) -> Vec<SessionOutcome> {
        let over_tcp = self.over_tcp.iter().map(|(version, session)| {
            Self::over_tcp(self.server, self.identity, *version, Some(session)).0
        });
        let mut admissions: Vec<_> = over_tcp.collect();
        let mut client =
            UdpClient::begin_certified(self.server, Some(self.identity.files()), &self.over_quic);
        let over_quic = match (client.is_admitted(), client.is_resumed()) {
            (true, true) => SessionOutcome::Resumed,
            (true, false) => SessionOutcome::Full,
            (false, _) => SessionOutcome::Refused,
        };
        admissions.push(over_quic);
        admissions
    }

    fn over_tcp(
        server: SocketAddr,
        identity: &Identity,
        version: SslVersion,
        session: Option<&SslSession>,
    ) -> (SessionOutcome, Option<SslSession>) {
        let (sessions, received) = mpsc::channel();
        let stream = connect_with(
            server,
            |tls| {
                identity.configure(tls);
                tls.set_max_proto_version(Some(version)).unwrap();
                tls.set_session_cache_mode(SslSessionCacheMode::CLIENT);
                tls.set_new_session_callback(move |_, session| drop(sessions.send(session)));
            },
            |ssl| {
                let Some(session) = session else { return };
                // SAFETY: both are alive. The client does not care when the session ends.
                unsafe {
                    SSL_SESSION_set_timeout(session.as_ptr(), 1 << 20);
                    ssl.set_session(session).unwrap();
                }
            },
        );
        let is_resumed = stream.as_ref().is_some_and(|stream| stream.ssl().session_reused());
        let admission = match responds(stream) {
            true if is_resumed => SessionOutcome::Resumed,
            true => SessionOutcome::Full,
            false => SessionOutcome::Refused,
        };
        (admission, received.try_recv().ok())
    }
}

#[test]
fn session_ends_with_the_certificate_of_the_client() {
    const VALIDITY: Duration = Duration::from_secs(6);
    let dir = root();
    let identity = Identity::make_with(dir.path(), "ours", |client| {
        client.not_after = (clock::wall_now() + VALIDITY).into();
    });
    let (mut server, address) =
        serve(&dir.path().join("www"), &["--client-ca", identity.authority.to_str().unwrap()]);
    let client = SessionClient::new(address, &identity);
    assert_eq!(client.admissions(), [SessionOutcome::Resumed; 3]);
    thread::sleep(VALIDITY);
    assert_eq!(client.admissions(), [SessionOutcome::Refused; 3]);
    assert!(server.stop().success());
}

#[test]
fn client_of_a_removed_authority_is_refused() {
    let dir = root();
    let [ours, other] = ["ours", "other"].map(|name| Identity::make(dir.path(), name));
    let both = [&ours, &other].map(|identity| fs::read_to_string(&identity.authority).unwrap());
    let authorities = dir.path().join("authorities.pem");
    fs::write(&authorities, both.concat()).unwrap();
    let (mut server, address) =
        serve(&dir.path().join("www"), &["--client-ca", authorities.to_str().unwrap()]);
    let client = SessionClient::new(address, &ours);
    for (reload, content, expected) in [
        (0, both.concat(), SessionOutcome::Resumed),
        (1, [&*both[1], &both[0]].concat(), SessionOutcome::Full),
        (2, both[1].clone(), SessionOutcome::Refused),
    ] {
        fs::write(&authorities, content).unwrap();
        server.ask_to_reload();
        server.wait_for_another("reloaded", reload);
        assert_eq!(client.admissions(), [expected; 3]);
    }
    assert!(server.stop().success());
}

#[test]
fn client_without_a_certificate_of_the_authorities_is_refused() {
    let dir = root();
    let [ours, foreign] = ["ours", "foreign"].map(|name| Identity::make(dir.path(), name));
    let (mut server, address) =
        serve(&dir.path().join("www"), &["--client-ca", ours.authority.to_str().unwrap()]);
    for (identity, is_admitted) in [(Some(&ours), true), (Some(&foreign), false), (None, false)] {
        let over_tcp = connect(address, |tls| {
            if let Some(identity) = identity {
                identity.configure(tls);
            }
        });
        assert_eq!(responds(over_tcp), is_admitted);
        let files = identity.map(Identity::files);
        let mut client = UdpClient::begin_certified(address, files, &ResumptionData::default());
        if is_admitted {
            client.establish();
            assert_eq!(client.get("/").status(), "200");
        } else {
            let error = client.closed();
            assert!(identity.is_some() || error == CERTIFICATE_REQUIRED, "{error:#x}");
            assert!(error >= 0x100, "{error:#x}");
        }
    }
    // The certificate of a client is no authority.
    fs::copy(&ours.cert, &ours.authority).unwrap();
    server.ask_to_reload();
    server.wait_for("cannot reload, nothing has changed: --client-ca");
    let mut client =
        UdpClient::begin_certified(address, Some(ours.files()), &ResumptionData::default());
    client.establish();
    assert_eq!(client.get("/").status(), "200");
    assert!(server.stop().success());
}

#[test]
fn groups_and_oldest_version_are_those_of_the_options() {
    let dir = root();
    let (mut server, address) =
        serve(&dir.path().join("www"), &["--tls-groups", "P-384", "--tls-min", "1.3"]);
    for (groups, version, is_admitted) in [
        ("P-384", SslVersion::TLS1_3, true),
        ("X25519:P-384", SslVersion::TLS1_3, true),
        ("X25519", SslVersion::TLS1_3, false),
        ("P-384", SslVersion::TLS1_2, false),
    ] {
        let stream = connect(address, |tls| {
            tls.set_curves_list(groups).unwrap();
            tls.set_max_proto_version(Some(version)).unwrap();
        });
        assert_eq!(stream.is_some(), is_admitted, "{groups} {version:?}");
    }
    assert!(server.stop().success());
}
