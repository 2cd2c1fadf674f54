//! Certificates by what clients can verify, certificates of clients, groups and versions.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;

use boring::asn1::Asn1Time;
use boring::hash::MessageDigest;
use boring::nid::Nid;
use boring::pkey::PKey;
use boring::rsa::Rsa;
use boring::ssl::SslConnector;
use boring::ssl::SslConnectorBuilder;
use boring::ssl::SslFiletype;
use boring::ssl::SslMethod;
use boring::ssl::SslStream;
use boring::ssl::SslVerifyMode;
use boring::ssl::SslVersion;
use boring::x509::X509Name;
use boring::x509::X509;
use std::io::Read;
use std::io::Write;
use std::net::TcpStream;

use crate::support::certify::certify;
use crate::support::client::UdpClient;
use crate::support::process::serve;

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
    let mut connector = SslConnector::builder(SslMethod::tls()).unwrap();
    connector.set_verify(SslVerifyMode::NONE);
    settings(&mut connector);
    let configuration = connector.build().configure().unwrap();
    let configuration = configuration.verify_hostname(false);
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
        for (schemes, expected) in [
            ("ecdsa_secp256r1_sha256:rsa_pss_rsae_sha256", &ecdsa),
            ("rsa_pss_rsae_sha256", &rsa),
            ("rsa_pss_rsae_sha256:ecdsa_secp256r1_sha256", &ecdsa),
        ] {
            let stream = connect(address, |tls| {
                tls.set_sigalgs_list(schemes).unwrap();
            });
            let stream = stream.unwrap();
            let found = stream.ssl().peer_certificate().unwrap().to_der().unwrap();
            assert_eq!(&found, expected, "{schemes}");
        }
        assert_eq!(UdpClient::connect(address).certificate(), ecdsa);
        assert!(server.stop().success());
    }
}

/// Writes an authority and a certificate of it for a client. Returns the authority's file, and the
/// client's.
fn client_identity(dir: &Path, name: &str) -> [PathBuf; 3] {
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    authority.distinguished_name.push(rcgen::DnType::CommonName, name);
    let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let client = rcgen::CertificateParams::new(vec!["client".to_owned()]).unwrap();
    let client_pem = client.signed_by(&key, &issuer).unwrap().pem();
    let files =
        ["ca.pem", "client.pem", "client.key"].map(|file| dir.join(format!("{name}-{file}")));
    for (file, pem) in files.iter().zip([authority_pem, client_pem, key.serialize_pem()]) {
        fs::write(file, pem).unwrap();
    }
    files
}

#[test]
fn client_without_a_certificate_of_the_authorities_is_refused() {
    let dir = root();
    let [authority, cert, key] = client_identity(dir.path(), "ours");
    let [_, foreign_cert, foreign_key] = client_identity(dir.path(), "foreign");
    let (mut server, address) =
        serve(&dir.path().join("www"), &["--client-ca", authority.to_str().unwrap()]);
    let identities = [
        (Some([&*cert, &*key]), true),
        (Some([&*foreign_cert, &*foreign_key]), false),
        (None, false),
    ];
    for (identity, is_admitted) in identities {
        let over_tcp = connect(address, |tls| {
            if let Some([cert, key]) = identity {
                tls.set_certificate_chain_file(cert).unwrap();
                tls.set_private_key_file(key, SslFiletype::PEM).unwrap();
            }
        });
        assert_eq!(responds(over_tcp), is_admitted, "{identity:?}");
        let mut client = UdpClient::begin_certified(address, identity);
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
    fs::copy(&cert, &authority).unwrap();
    server.ask_to_reload();
    server.wait_for("cannot reload, nothing has changed: --client-ca");
    let mut client = UdpClient::begin_certified(address, Some([&*cert, &*key]));
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
