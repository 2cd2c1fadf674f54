//! TLS over TCP: what is no handshake, versions and protocols that the server does not have, and names
//! that do not go together.

use std::fs;
use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpStream;

use boring::ssl::SslConnector;
use boring::ssl::SslMethod;
use boring::ssl::SslVerifyMode;
use boring::ssl::SslVersion;

use super::assert_serves;
use super::start;
use super::support::certify::certify;
use super::support::tcp_client::TcpClient;
use super::support::tcp_client::Version;

/// Sends bytes in place of a handshake, and returns what comes until the server closes.
fn send(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    let _ = stream.write_all(bytes);
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received);
    received
}

#[test]
fn what_is_no_handshake_is_closed() {
    let (_dir, mut server, address) = start(&["--handshake-timeout", "1"]);
    for bytes in [
        &b"GET / HTTP/1.1\r\nhost: h\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\xff\xff",
        b"\x16\x03\x01\x00\x05\x01\xff\xff\xff\xff",
        b"\x15\x03\x01\x00\x02\x02\x28",
        b"\x17\x03\x03\x00\x05hello",
        b"",
        &[0; 70_000],
    ] {
        let received = send(address, bytes);
        // An alert (RFC 8446, 6), or nothing.
        assert!(received.first().is_none_or(|kind| *kind == 0x15), "{received:?}");
    }
    assert_serves(address);
    assert!(server.stop().success());
}

/// Connects with TLS of this version at most, and these protocols.
fn handshake(
    address: SocketAddr,
    version: SslVersion,
    protocols: &[u8],
) -> Result<Option<Vec<u8>>, String> {
    let mut connector = SslConnector::builder(SslMethod::tls()).unwrap();
    connector.set_verify(SslVerifyMode::NONE);
    connector.set_min_proto_version(Some(SslVersion::TLS1)).unwrap();
    connector.set_max_proto_version(Some(version)).unwrap();
    if !protocols.is_empty() {
        connector.set_alpn_protos(protocols).unwrap();
    }
    let stream = TcpStream::connect(address).unwrap();
    let stream = connector.build().connect("localhost", stream).map_err(|e| format!("{e:?}"))?;
    Ok(stream.ssl().selected_alpn_protocol().map(<[u8]>::to_vec))
}

#[test]
fn handshake_has_a_version_and_a_protocol_that_the_server_has() {
    let (_dir, mut server, address) = start(&[]);
    for (version, protocols, expected) in [
        (SslVersion::TLS1_3, &b"\x02h2\x08http/1.1"[..], Ok(Some(&b"h2"[..]))),
        (SslVersion::TLS1_3, b"\x08http/1.1\x02h2", Ok(Some(b"h2"))),
        (SslVersion::TLS1_2, b"\x08http/1.1", Ok(Some(b"http/1.1"))),
        (SslVersion::TLS1_2, b"", Ok(None)),
        (SslVersion::TLS1_3, b"\x02h3", Err("NO_APPLICATION_PROTOCOL")),
        (SslVersion::TLS1_1, b"\x02h2", Err("PROTOCOL_VERSION")),
    ] {
        match (handshake(address, version, protocols), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found.as_deref(), expected, "{protocols:?}"),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, expected) => panic!("{version:?} {protocols:?}: {found:?}, not {expected:?}"),
        }
    }
    assert_serves(address);
    assert!(server.stop().success());
}

// A browser takes a connection of one host for others that its certificate is for.
#[test]
fn content_is_that_of_the_request_and_certificate_that_of_the_handshake() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("edge.toml");
    let mut toml = String::new();
    let certificates = ["a.example", "b.example"].map(|name| {
        let folder = dir.path().join(format!("root-{name}"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("name"), name).unwrap();
        let certificate = certify(dir.path(), name);
        let [folder, at] = [&folder, dir.path()].map(|path| path.display().to_string());
        toml += &format!(
            "[[host]]\nnames = ['{name}']\nroot = '{folder}'\ncert = '{at}/{name}.pem'\nkey = '{at}/{name}.key'\n"
        );
        certificate
    });
    fs::write(&config, toml).unwrap();
    let (_root, mut server, address) = start(&["--config", config.to_str().unwrap()]);
    for version in [Version::Http11, Version::Http2] {
        let mut client = TcpClient::connect(address, "a.example", version);
        assert_eq!(client.certificate, certificates[0]);
        for name in ["b.example", "a.example"] {
            assert_eq!(client.get(name, "/name", &[]).body(), name, "{version:?}");
        }
        assert_eq!(client.get("c.example", "/a", &[]).body(), "a", "the host without names");
    }
    assert!(server.stop().success());
}
