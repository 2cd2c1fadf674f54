//! HTTP/1.1 and HTTP/2 over TCP: the same content as over HTTP/3, and the same life of the server.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use boring::ssl::SslStream;
use serde_json::Value;

use crate::support::certify::certify;
use crate::support::client::UdpClient;
use crate::support::metrics;
use crate::support::process::serve;
use crate::support::process::server_command;
use crate::support::process::Running;
use crate::support::serve_measured;
use crate::support::tcp_client;
use crate::support::tcp_client::TcpClient;
use crate::support::tcp_client::Version;
use crate::takeover::Line;

const VERSIONS: [Version; 2] = [Version::Http11, Version::Http2];
const CONNECTIONS: &str = "edge_server_tcp_connections_total";
const OPEN: &str = "edge_server_tcp_connections_open";

const NAP: Duration = Duration::from_millis(10);
const NAPS_MAX: usize = 2000;

/// Waits until the server has closed a client's connection.
fn wait_closed(client: &TcpClient) {
    assert!((0..NAPS_MAX).any(|_| client.is_closed() || {
        thread::sleep(NAP);
        false
    }));
}

/// Status, fields but those of the time and of TCP alone, and body.
type Comparable = (String, BTreeMap<String, String>, Vec<u8>);

fn comparable<'a>(
    status: &str,
    fields: impl Iterator<Item = (&'a str, &'a str)>,
    body: &[u8],
) -> Comparable {
    let is_compared = |name: &str| !["alt-svc", "date", ":status"].contains(&name);
    let fields = fields.filter(|(name, _)| is_compared(name));
    let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
    (status.to_owned(), fields.collect(), body.to_vec())
}

/// Method, path and fields.
type RequestLine = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// Returns the response over HTTP/3.
fn over_quic(server: SocketAddr, method: &str, path: &str, fields: &[(&str, &str)]) -> Comparable {
    let mut client = UdpClient::connect(server);
    let pseudo =
        [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
    let stream = client.request_with(&[&pseudo[..], fields].concat());
    let response = client.response(stream);
    client.close();
    let fields = response.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    comparable(response.status(), fields, &response.body)
}

fn over_tcp(
    client: &mut TcpClient,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
) -> Comparable {
    let request = client.request(method, "localhost", path, fields, b"");
    let response = client.try_send(request).unwrap();
    let fields = response.headers().iter();
    let fields = fields.map(|(name, value)| (name.as_str(), value.to_str().unwrap()));
    comparable(response.status().as_str(), fields, response.body())
}

#[test]
fn every_version_has_the_same_responses() {
    let dir = tempfile::tempdir().unwrap();
    let pattern: Vec<u8> = (0..1_000_000u32).map(|i| (i / 7) as u8).collect();
    fs::create_dir(dir.path().join("folder")).unwrap();
    for (name, content) in [
        ("index.html", &b"home"[..]),
        ("big", &pattern),
        ("a.js", b"plain"),
        ("a.js.gz", b"packed"),
        ("empty", b""),
    ] {
        fs::write(dir.path().join(name), content).unwrap();
    }
    let (mut server, address) = serve(dir.path(), &["--tcp", "on", "--speedtest"]);
    let requests: [RequestLine; 17] = [
        ("GET", "/", &[]),
        ("GET", "/big", &[]),
        ("GET", "/empty", &[]),
        ("HEAD", "/big", &[]),
        ("GET", "/big", &[("range", "bytes=10-19")]),
        ("GET", "/big", &[("range", "bytes=999990-")]),
        ("GET", "/big", &[("range", "bytes=9999999-")]),
        ("GET", "/a.js", &[("accept-encoding", "gzip")]),
        ("GET", "/a.js", &[("if-none-match", "*")]),
        ("GET", "/a.js", &[("if-match", "\"other\"")]),
        ("GET", "/folder?x", &[]),
        ("GET", "/missing", &[]),
        ("GET", "/%zz", &[]),
        ("POST", "/", &[]),
        ("DELETE", "/", &[]),
        ("POST", "/upload", &[("content-length", "0")]),
        ("GET", "/bytes/100000", &[]),
    ];
    let mut clients = VERSIONS.map(|version| TcpClient::connect(address, "localhost", version));
    for (method, path, fields) in requests {
        let expected = over_quic(address, method, path, fields);
        for client in &mut clients {
            let found = over_tcp(client, method, path, fields);
            assert!(found == expected, "{method} {path} {fields:?}: {:?}, {:?}", found.0, found.1);
        }
    }
    assert!(server.stop().success());
}

#[test]
fn uploads_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(dir.path(), &["--tcp", "on", "--speedtest"]);
    for version in VERSIONS {
        let mut client = TcpClient::connect(address, "localhost", version);
        let request = client.request("POST", "localhost", "/upload", &[], &vec![7; 3_000_000]);
        assert_eq!(client.try_send(request).unwrap().body(), "3000000\n", "{version:?}");
    }
    assert!(server.stop().success());
}

#[test]
fn responses_tell_of_http3_unless_rules_say_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let rules =
        "[[host.header]]\npath = '/mapped/**'\nset = { alt-svc = 'h3=\":8443\"' }\nalways = true\n\
                 [[host.header]]\npath = '/*/quiet*'\nunset = ['alt-svc']\nalways = true\n\
                 [[host.header]]\npath = '/file'\nunset = ['alt-svc']\n";
    let config = dir.path().join("edge.toml");
    fs::write(&config, format!("[[host]]\n{rules}")).unwrap();
    fs::write(dir.path().join("file"), "file").unwrap();
    let args = ["--tcp", "on", "--config", config.to_str().unwrap()];
    let (mut server, address) = serve(dir.path(), &args);
    let own = format!("h3=\":{}\"; ma=86400", address.port());
    for version in VERSIONS {
        let mut client = TcpClient::connect(address, "localhost", version);
        for (path, expected) in [
            ("/missing", Some(own.as_str())),
            ("/mapped/a", Some("h3=\":8443\"")),
            ("/mapped/quiet", None),
            ("/file", None),
        ] {
            let response = client.get("localhost", path, &[]);
            let found: Vec<_> = response.headers().get_all("alt-svc").iter().collect();
            assert_eq!(found, Vec::from_iter(expected), "{version:?} {path}");
        }
    }
    assert!(server.stop().success());
}

/// Waits until a server accepts no more TCP connections.
fn wait_refused(address: SocketAddr) {
    assert!((0..NAPS_MAX).any(|_| TcpStream::connect(address).is_err() || {
        thread::sleep(NAP);
        false
    }));
}

#[test]
fn plain_http_is_redirected() {
    let dir = tempfile::tempdir().unwrap();
    let plain = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let plain_text = plain.to_string();
    let (mut server, address) = serve(dir.path(), &["--tcp", "on", "--http", &plain_text]);
    for (request, line) in [
        ("GET /a?b HTTP/1.1\r\nhost: a.example:80\r\n\r\n", "location: https://a.example:PORT/a?b"),
        ("POST /a HTTP/1.0\r\nhost: a.example\r\n\r\n", "location: https://a.example:PORT/a"),
        ("GET / HTTP/1.1\r\n\r\n", "400 Bad Request"),
        ("GET / HTTP/1.1\r\nhost: a b\r\n\r\n", "400 Bad Request"),
        ("nonsense\r\n\r\n", "400 Bad Request"),
    ] {
        let mut stream = TcpStream::connect(plain).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let line = line.replace("PORT", &address.port().to_string());
        assert!(response.contains(&line), "{request:?}: {response}");
    }
    assert!(server.stop().success());
}

#[test]
fn certificate_and_content_are_those_of_the_host() {
    let dir = tempfile::tempdir().unwrap();
    let certificates = ["a.example", "b.example"].map(|name| {
        fs::create_dir(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(name).join("index.html"), name).unwrap();
        certify(dir.path(), name)
    });
    let config = dir.path().join("edge.toml");
    let host = |name: &str| {
        let dir = dir.path().display();
        format!("[[host]]\nnames = ['{name}']\nroot = '{dir}/{name}'\ncert = '{dir}/{name}.pem'\nkey = '{dir}/{name}.key'\n")
    };
    fs::write(&config, ["a.example", "b.example"].map(host).concat()).unwrap();
    let args = ["--tcp", "on", "--config", config.to_str().unwrap()];
    let (mut server, address) = serve(dir.path(), &args);
    for (name, certificate) in ["a.example", "b.example"].into_iter().zip(certificates) {
        for version in VERSIONS {
            let mut client = TcpClient::connect(address, name, version);
            assert_eq!(client.certificate, certificate, "{name} {version:?}");
            assert_eq!(client.get(name, "/", &[]).body(), name);
        }
    }

    // A connection that is open gets what a reload changes.
    let mut client = TcpClient::connect(address, "a.example", Version::Http2);
    fs::write(dir.path().join("a.example/new.html"), "new").unwrap();
    let toml = fs::read_to_string(&config).unwrap().replacen(
        "[[host]]",
        "[[host]]\nindex = ['new.html']",
        1,
    );
    fs::write(&config, toml).unwrap();
    server.ask_to_reload();
    server.wait_for("reloaded");
    assert_eq!(client.get("a.example", "/", &[]).body(), "new");
    assert!(server.stop().success());
}

#[test]
fn log_and_metrics_name_the_protocol() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let args = ["--tcp", "on", "--access-log", log.to_str().unwrap()];
    let (mut server, address, metrics_at) = serve_measured(dir.path(), &args);
    for version in VERSIONS {
        let mut client = TcpClient::connect(address, "localhost", version);
        client.get("localhost", "/", &[("user-agent", "x/1"), ("referer", "https://r.example/")]);
        client.get("localhost", "/missing", &[]);
    }
    over_quic(address, "GET", "/", &[]);
    metrics::wait_until(metrics_at, OPEN, |open| open == 0);
    for (labels, count) in [
        ("protocol=\"HTTP/1.1\",status=\"200\",complete=\"true\"", 1),
        ("protocol=\"HTTP/2\",status=\"404\",complete=\"true\"", 1),
        ("protocol=\"HTTP/2\",status=\"500\",complete=\"true\"", 0),
        ("protocol=\"HTTP/3\",status=\"200\"", 1),
    ] {
        let name = format!("edge_server_responses_total{{{labels}");
        assert_eq!(metrics::wait_until(metrics_at, &name, |sum| sum == count), count);
    }
    assert_eq!(metrics::read(metrics_at, CONNECTIONS), 2);
    assert!(server.stop().success());

    let log = fs::read_to_string(log).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let brief = |line: &Value| {
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        (text("protocol"), text("path"), line["status"].as_u64().unwrap(), text("user_agent"))
    };
    let mut found: Vec<_> = lines.iter().map(brief).collect();
    found.sort();
    let expected = [
        ("HTTP/1.1", "/", 200, "x/1"),
        ("HTTP/1.1", "/missing", 404, ""),
        ("HTTP/2", "/", 200, "x/1"),
        ("HTTP/2", "/missing", 404, ""),
        ("HTTP/3", "/", 200, ""),
    ];
    let expected =
        expected.map(|(p, path, s, agent)| (p.to_owned(), path.to_owned(), s, agent.to_owned()));
    assert_eq!(found, expected);
    assert!(lines.iter().all(|line| line["complete"] == true));
}

#[test]
fn response_that_the_client_leaves_is_incomplete() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--tcp", "on", "--speedtest"];
    let (mut server, address, metrics_at) = serve_measured(dir.path(), &args);
    for protocols in [&b"\x08http/1.1"[..], b"\x02h2"] {
        let mut stream = tcp_client::open(address, protocols);
        if protocols.ends_with(b"h2") {
            // A request for /bytes/9999999, in a HEADERS frame without Huffman codes.
            let path = b"/bytes/9999999";
            let mut block = vec![0x82, 0x87, 0x04, path.len() as u8];
            block.extend(path);
            block.extend([0x01, 9]);
            block.extend(b"localhost");
            stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
            stream.write_all(&[0, 0, block.len() as u8, 1, 5, 0, 0, 0, 1]).unwrap();
            stream.write_all(&block).unwrap();
        } else {
            stream.write_all(b"GET /bytes/9999999 HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        }
        stream.read_exact(&mut [0; 1000]).unwrap();
    }
    for protocol in ["HTTP/1.1", "HTTP/2"] {
        let name = format!("edge_server_responses_total{{protocol=\"{protocol}\",status=\"200\",complete=\"false\"");
        metrics::wait_until(metrics_at, &name, |sum| sum == 1);
    }
    assert!(server.stop().success());
}

#[test]
fn clients_beyond_a_limit_are_refused_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--tcp", "on", "--connections-per-subnet", "2"];
    let (mut server, address, metrics_at) = serve_measured(dir.path(), &args);
    let mut clients = [Version::Http11, Version::Http2]
        .map(|version| TcpClient::connect(address, "localhost", version));
    clients.iter_mut().for_each(|client| drop(client.get("localhost", "/", &[])));
    assert!(TcpClient::try_connect(address, "localhost", Version::Http2).is_err());
    let refused = "edge_server_tcp_refused_total{limit=\"subnet\"}";
    assert_eq!(metrics::read(metrics_at, refused), 1);
    drop(clients);
    metrics::wait_until(metrics_at, OPEN, |open| open == 0);
    TcpClient::connect(address, "localhost", Version::Http2).get("localhost", "/", &[]);
    assert!(server.stop().success());
}

#[test]
fn clients_that_do_nothing_are_closed() {
    let dir = tempfile::tempdir().unwrap();
    let args = [
        "--tcp",
        "on",
        "--speedtest",
        "--idle-timeout",
        "1",
        "--stall-timeout",
        "2",
        "--handshake-timeout",
        "1",
    ];
    let (mut server, address, metrics_at) = serve_measured(dir.path(), &args);
    let mute = TcpStream::connect(address).unwrap();
    let mut idle = VERSIONS.map(|version| TcpClient::connect(address, "localhost", version));
    idle.iter_mut().for_each(|client| drop(client.get("localhost", "/", &[])));
    let mut slow_header = tcp_client::open(address, b"\x08http/1.1");
    slow_header.write_all(b"GET / HTTP/1.1\r\nx: ").unwrap();
    let mut slow_reader = tcp_client::open(address, b"\x08http/1.1");
    slow_reader.write_all(b"GET /bytes/1000000000 HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    metrics::wait_until(metrics_at, CONNECTIONS, |count| count == 5);
    metrics::wait_until(metrics_at, OPEN, |open| open == 0);
    idle.iter().for_each(wait_closed);
    assert_eq!(metrics::read(metrics_at, "edge_server_tcp_handshake_failures_total"), 1);
    drop((mute, slow_header, slow_reader));
    TcpClient::connect(address, "localhost", Version::Http11).get("localhost", "/", &[]);
    assert!(server.stop().success());
}

#[test]
fn port_that_another_server_has_is_named_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = other.local_addr().unwrap().to_string();
    let root = dir.path().to_str().unwrap();
    let fixed = ["--listen", &taken, "--root", root];
    let plain = ["--listen", "127.0.0.1:0", "--root", root, "--http", &taken];
    for (args, way_out) in [(&fixed[..], "--tcp off"), (&plain[..], "choose another --http")] {
        let args = [args, &["--tcp", "on"]].concat();
        let (status, said) = Running::start(&mut server_command(&args)).end();
        assert_eq!(status.code(), Some(1), "{said:?}");
        let last = said.last().unwrap();
        assert!(last.contains(&taken) && last.contains(way_out), "{said:?}");
    }
    let without = [&fixed[..], &["--tcp", "off"]].concat();
    let mut server = Running::start(&mut server_command(&without));
    server.address();
    assert!(server.stop().success());
}

/// Begins a download, and has the server drain.
fn download_over_drain(
    server: &Running,
    address: SocketAddr,
    bytes: usize,
) -> SslStream<TcpStream> {
    let mut download = tcp_client::open(address, b"\x08http/1.1");
    let request = format!("GET /bytes/{bytes} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    download.write_all(request.as_bytes()).unwrap();
    download.read_exact(&mut [0]).unwrap();
    server.ask_to_drain();
    wait_refused(address);
    download
}

#[test]
fn drain_finishes_responses_and_accepts_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(dir.path(), &["--tcp", "on", "--speedtest"]);
    let idle = VERSIONS.map(|version| TcpClient::connect(address, "localhost", version));
    let bytes = 30_000_000;
    let mut download = download_over_drain(&server, address, bytes);
    idle.iter().for_each(wait_closed);
    let mut rest = Vec::new();
    let _ = download.read_to_end(&mut rest);
    assert!(rest.len() >= bytes, "{} bytes", rest.len());
    assert!(server.end().0.success());
}

// The kernel discards what it has yet to send when a closed connection gets more, such as a WINDOW_UPDATE.
#[test]
fn drain_waits_for_a_slow_client_to_receive_what_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(dir.path(), &["--tcp", "on", "--speedtest"]);
    let bytes = 400_000;
    let mut download = download_over_drain(&server, address, bytes);
    // The server would close a quiet connection meanwhile.
    thread::sleep(Duration::from_secs(4));
    download.write_all(b"GET ").unwrap();
    thread::sleep(Duration::from_millis(100));
    let mut rest = Vec::new();
    let _ = download.read_to_end(&mut rest);
    assert!(rest.len() >= bytes, "{} bytes", rest.len());
    drop(download);
    assert!(server.end().0.success());
}

#[test]
fn old_server_serves_again_when_the_new_one_has_drained() {
    let (line, mut old) = Line::begin();
    let mut new = line.succeed();
    old.wait_for("handed over");
    new.ask_to_drain();
    old.wait_for("serving again");
    assert!(new.end().0.success());
    for version in VERSIONS {
        let mut client = TcpClient::connect(line.address, "localhost", version);
        assert_eq!(client.get("localhost", "/bytes/5", &[]).body().len(), 5, "{version:?}");
    }
    assert!(old.stop().success());
}

/// Sends requests on one connection until the server ends it as its version prescribes, and goes on with
/// another one. Returns the number of connections.
fn keep_busy(
    address: SocketAddr,
    version: Version,
    over: &Arc<AtomicBool>,
) -> thread::JoinHandle<usize> {
    let over = Arc::clone(over);
    thread::spawn(move || {
        let mut connections = 0;
        while !over.load(Ordering::Relaxed) {
            let mut client = TcpClient::connect(address, "localhost", version);
            connections += 1;
            while !over.load(Ordering::Relaxed) {
                let request = client.request("GET", "localhost", "/bytes/100", &[], b"");
                match client.try_send(request) {
                    Ok(response) if response.headers().contains_key("connection") => break,
                    Ok(response) => assert_eq!(response.body().len(), 100, "{version:?}"),
                    // A GOAWAY came before it was sent.
                    Err(e) if version == Version::Http2 && (e.is_canceled() || e.is_closed()) => {
                        break
                    }
                    Err(e) => panic!("{version:?}: a request is lost: {e:?}"),
                }
            }
        }
        connections
    })
}

#[test]
fn shutdown_counts_tcp_connections() {
    for (command, expected) in [
        (
            Running::ask_to_drain as fn(&Running),
            [
                "the drain has timed out; closing connections: 1",
                "ended by themselves: 1, closed: 1",
            ],
        ),
        (
            Running::ask_to_stop,
            ["stopping; closing connections: 2", "ended by themselves: 0, closed: 2"],
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (mut server, address) = serve(dir.path(), &["--speedtest", "--drain", "2"]);
        let _idle = TcpClient::connect(address, "localhost", Version::Http2);
        let mut unread = tcp_client::open(address, b"\x08http/1.1");
        let request = b"GET /bytes/1000000000 HTTP/1.1\r\nhost: localhost\r\n\r\n";
        unread.write_all(request).unwrap();
        unread.read_exact(&mut [0]).unwrap();
        command(&server);
        let (status, said) = server.end();
        assert!(status.success());
        for line in expected {
            assert!(said.iter().any(|said| said.ends_with(line)), "{line}: {said:?}");
        }
    }
}

#[test]
fn refused_upload_is_read_before_the_connection_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(dir.path(), &[]);
    let content = vec![7; 20_000_000];
    let mut client = tcp_client::open(address, b"\x08http/1.1");
    let head =
        format!("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n", content.len());
    client.write_all(head.as_bytes()).unwrap();
    client.write_all(&content).unwrap();
    let mut response = String::new();
    let _ = client.read_to_string(&mut response);
    assert!(response.starts_with("HTTP/1.1 405 "), "{response}");
    assert!(server.stop().success());
}

#[test]
fn takeover_loses_no_request() {
    let (line, mut old) = Line::begin_with(&["--tcp", "on"]);
    let over = Arc::new(AtomicBool::new(false));
    let address = line.address;
    let clients = VERSIONS.map(|version| {
        let over = Arc::clone(&over);
        thread::spawn(move || {
            let mut requests = 0;
            while !over.load(Ordering::Relaxed) {
                let mut client = TcpClient::connect(address, "localhost", version);
                let response = client.get("localhost", "/bytes/50000", &[]);
                assert_eq!(response.body().len(), 50_000, "{version:?}");
                requests += 1;
            }
            requests
        })
    });
    let busy = VERSIONS.map(|version| keep_busy(address, version, &over));
    let mut download = tcp_client::open(address, b"\x08http/1.1");
    download.write_all(b"GET /bytes/30000000 HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    download.read_exact(&mut [0]).unwrap();
    let mut new = line.succeed();
    old.wait_for("handed over");
    let mut newest = line.succeed();
    new.wait_for("handed over");
    let mut rest = Vec::new();
    let _ = download.read_to_end(&mut rest);
    assert!(rest.len() >= 30_000_000, "the old server finishes it");
    assert!(old.end().0.success() && new.end().0.success());
    over.store(true, Ordering::Relaxed);
    for client in clients {
        assert!(client.join().unwrap() > 0);
    }
    for client in busy {
        assert!(client.join().unwrap() > 1, "the old server ended one");
    }
    assert!(newest.stop().success());
}

#[test]
fn old_server_accepts_again_when_the_new_one_dies() {
    let (line, mut old) = Line::begin_with(&["--tcp", "on"]);
    let mut new = line.succeed();
    old.wait_for("handed over");
    new.kill();
    old.wait_for("serving again");
    let mut client = TcpClient::connect(line.address, "localhost", Version::Http2);
    assert_eq!(client.get("localhost", "/bytes/5", &[]).body().len(), 5);
    assert!(old.stop().success());
}

#[test]
fn old_server_with_tcp_clients_alone_serves_again() {
    let (line, mut old) = Line::begin();
    let mut download = tcp_client::open(line.address, b"\x08http/1.1");
    download.write_all(b"GET /bytes/30000000 HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    download.read_exact(&mut [0]).unwrap();
    let mut new = line.succeed();
    old.wait_for("handed over");
    // Longer than a server without clients stays.
    thread::sleep(Duration::from_secs(3));
    new.kill();
    old.wait_for("serving again");
    for version in VERSIONS {
        let mut client = TcpClient::connect(line.address, "localhost", version);
        assert_eq!(client.get("localhost", "/bytes/5", &[]).body().len(), 5, "{version:?}");
    }
    over_quic(line.address, "GET", "/bytes/5", &[]);
    let mut newest = line.succeed();
    old.wait_for_another("handed over", 1);
    let mut rest = Vec::new();
    let _ = download.read_to_end(&mut rest);
    assert!(rest.len() >= 30_000_000, "{} bytes", rest.len());
    assert!(old.end().0.success(), "it ends with its last client");
    assert!(newest.stop().success());
}

// Its drain has stopped the socket.
#[test]
fn server_that_takes_over_from_one_that_drains_accepts() {
    let (line, mut old) = Line::begin_with(&["--tcp", "on"]);
    let mut download = tcp_client::open(line.address, b"\x08http/1.1");
    download.write_all(b"GET /bytes/100000000 HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    download.read_exact(&mut [0]).unwrap();
    let mut quic = UdpClient::connect(line.address);
    let stream = quic.request("GET", "/bytes/30000000");
    quic.receive(stream, 1);
    old.ask_to_drain();
    wait_refused(line.address);
    let mut new = line.succeed();
    let mut client = TcpClient::connect(line.address, "localhost", Version::Http11);
    assert_eq!(client.get("localhost", "/bytes/5", &[]).body().len(), 5);
    drop(download);
    assert!(new.stop().success());
    old.kill();
}
