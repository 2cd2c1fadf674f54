//! The server as clients see it: what it answers, and that it goes on whatever
//! one of them does.

use std::fs::File;
use std::net::UdpSocket;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use crate::support::client::Client;
use crate::support::client::Limits;
use crate::support::codes::H3_INTERNAL_ERROR;
use crate::support::codes::H3_NO_ERROR;
use crate::support::lab::Lab;
use crate::support::metrics;
use crate::support::process::serve;
use crate::support::process::server_command;
use crate::support::process::Running;

/// A root with a file of `length` bytes, and its contents.
fn root_with(dir: &Path, length: usize) -> (PathBuf, Vec<u8>) {
    let root = dir.join("www");
    std::fs::create_dir(&root).unwrap();
    let contents: Vec<u8> =
        (0..length as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(root.join("file.bin"), &contents).unwrap();
    std::fs::write(root.join("index.html"), "home").unwrap();
    (root, contents)
}

#[test]
fn files_and_bytes_arrive_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (root, contents) = root_with(dir.path(), 3_000_000);
    let (_server, address) = serve(&root, &["--speedtest"]);
    let mut client = Client::connect(address);

    let file = client.get("/file.bin");
    assert_eq!(file.status(), "200");
    assert_eq!(file.headers["content-length"], "3000000");
    assert_eq!(file.headers["content-type"], "application/octet-stream");
    assert!(file.headers.contains_key("last-modified"));
    assert!(file.body == contents);

    let home = client.get("/");
    assert_eq!((home.status(), home.body.as_slice()), ("200", &b"home"[..]));
    assert_eq!(home.headers["content-type"], "text/html; charset=utf-8");

    for length in [0, 1, 65_536, 1_000_001] {
        let bytes = client.get(&format!("/bytes/{length}"));
        assert_eq!(bytes.status(), "200");
        assert_eq!(bytes.body.len(), length);
    }
}

#[test]
fn answers_have_the_right_status() {
    let dir = tempfile::tempdir().unwrap();
    let (root, _) = root_with(dir.path(), 10);
    let (_server, address) = serve(&root, &[]);
    let mut client = Client::connect(address);

    let table = [
        ("GET", "/file.bin", "200"),
        ("GET", "/missing", "404"),
        ("GET", "/bytes/10", "404"),
        ("GET", "/../www/file.bin", "400"),
        ("GET", "/%2e%2e/www/file.bin", "400"),
        ("POST", "/file.bin", "405"),
        ("OPTIONS", "*", "405"),
        ("GET", "*", "400"),
    ];
    for (method, path, status) in table {
        let stream = client.request(method, path);
        let response = client.response(stream);
        assert_eq!(response.status(), status, "{method} {path}");
        let announced: usize = response.headers["content-length"].parse().unwrap();
        assert_eq!(response.body.len(), announced, "{method} {path}");
    }
}

#[test]
fn a_head_has_no_body() {
    let dir = tempfile::tempdir().unwrap();
    let (root, _) = root_with(dir.path(), 100_000);
    let (_server, address) = serve(&root, &[]);
    let mut client = Client::connect(address);
    let stream = client.request("HEAD", "/file.bin");
    let response = client.response(stream);
    assert_eq!(response.status(), "200");
    assert_eq!(response.headers["content-length"], "100000");
    assert!(response.body.is_empty());
}

// RFC 9114, 4.1: a request may end with trailers.
#[test]
fn trailers_of_a_request_change_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (root, contents) = root_with(dir.path(), 20_000_000);
    let (_server, address) = serve(&root, &[]);
    let mut client = Client::connect(address);

    // Amid the response, and when all of it has been passed to the transport.
    for (path, body) in [("/file.bin", contents.as_slice()), ("/", b"home")] {
        let stream = client.open_request(path);
        client.receive(stream, 1);
        client.end_with_trailers(stream);
        let response = client.response(stream);
        assert_eq!((response.status(), response.reset), ("200", None), "{path}");
        assert!(response.body == body, "{path}: {} bytes", response.body.len());
    }
}

#[test]
fn parallel_requests_are_all_answered() {
    let dir = tempfile::tempdir().unwrap();
    let (root, contents) = root_with(dir.path(), 400_000);
    let (_server, address) = serve(&root, &[]);
    let mut client = Client::connect(address);
    let streams: Vec<_> = (0..50).map(|_| client.request("GET", "/file.bin")).collect();
    for stream in streams {
        assert!(client.response(stream).body == contents);
    }
}

#[test]
fn a_client_that_vanishes_is_given_up_and_others_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let (root, contents) = root_with(dir.path(), 1_000_000);
    let (mut server, address) = serve(&root, &["--speedtest"]);

    let limits = Limits { idle_timeout_ms: 500, ..Limits::default() };
    let mut vanishing = Client::connect_with(address, limits);
    let stream = vanishing.request("GET", "/bytes/90000000");
    vanishing.receive(stream, 100_000);
    drop(vanishing);

    assert!(Client::connect(address).get("/file.bin").body == contents);
    server.wait_for("connection is over");
    assert!(Client::connect(address).get("/file.bin").body == contents);
    assert!(server.stop().success());
}

#[test]
fn a_file_that_becomes_shorter_resets_its_stream_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (root, _) = root_with(dir.path(), 90_000_000);
    let (_server, address) = serve(&root, &[]);
    let mut client = Client::connect(address);
    let stream = client.request("GET", "/file.bin");
    client.receive(stream, 10_000);
    File::options().write(true).open(root.join("file.bin")).unwrap().set_len(10).unwrap();
    assert_eq!(client.response(stream).reset, Some(H3_INTERNAL_ERROR));
    assert_eq!(client.get("/").body, b"home");
}

#[test]
fn packets_that_mean_nothing_are_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let (root, contents) = root_with(dir.path(), 1000);
    let (_server, address) = serve(&root, &[]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for packet in [&[][..], &[0x40; 30], &[0xff; 1200], &[0xc0; 1200], &[0; 1400]] {
        socket.send_to(packet, address).unwrap();
    }
    assert!(Client::connect(address).get("/file.bin").body == contents);
}

// RFC 9000, 10.2.2: a stateless reset would answer packets that are still under way. The
// round trip makes that time long, and the test sure.
#[test]
fn of_a_connection_that_has_ended_no_packet_is_answered_for_some_round_trips() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(dir.path(), &["--workers", "1", "--speedtest"]);
    let mut far = Client::connect_slowly(address, Duration::from_millis(500));
    let mut near = Client::connect(address);
    for (before, client) in [&mut far, &mut near].into_iter().enumerate() {
        assert_eq!(client.get("/bytes/1000").body.len(), 1000);
        client.close();
        server.wait_for_another("connection is over", before);
    }
    assert!(!far.is_late_packet_answered());
    assert!((0..100).any(|_| near.is_late_packet_answered()), "it is never forgotten");
    assert!(server.stop().success());
}

#[test]
fn an_unknown_version_is_answered_with_the_known_one() {
    let dir = tempfile::tempdir().unwrap();
    let (root, _) = root_with(dir.path(), 10);
    let (_server, address) = serve(&root, &[]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();

    // A long header of version 0x1a2a3a4a, from "AAAAAAAA" to "BBBBBBBB".
    let mut packet = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8];
    packet.extend_from_slice(b"BBBBBBBB");
    packet.push(8);
    packet.extend_from_slice(b"AAAAAAAA");
    // Too short for a first packet: no answer. Long enough: one.
    socket.send_to(&packet, address).unwrap();
    packet.resize(1200, 0);
    socket.send_to(&packet, address).unwrap();

    let mut answer = [0; 1500];
    let (length, _) = socket.recv_from(&mut answer).unwrap();
    assert_eq!(answer[1..5], [0; 4]);
    assert_eq!(answer[5..23], *b"\x08AAAAAAAA\x08BBBBBBBB");
    assert!(answer[23..length].chunks(4).any(|version| version == [0, 0, 0, 1]));
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(socket.recv_from(&mut answer).is_err());
}

#[test]
fn replies_leave_from_the_address_that_was_asked() {
    let dir = tempfile::tempdir().unwrap();
    let (root, contents) = root_with(dir.path(), 100_000);
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let root = root.to_str().unwrap();
        let command = &mut server_command(&["--listen", listen, "--root", root]);
        let mut server = Running::start(command);
        let port = server.address().port();
        // The client takes packets from the address it asked only.
        let mut client = Client::connect(([127, 9, 8, 7], port).into());
        assert!(client.get("/file.bin").body == contents, "{listen}");
    }
}

#[test]
fn a_signal_closes_connections_and_ends_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let (root, _) = root_with(dir.path(), 10);
    let (mut server, address) = serve(&root, &[]);
    let mut client = Client::connect(address);
    client.get("/");
    assert!(server.stop().success());
    assert_eq!(client.closed(), H3_NO_ERROR);
}

// The congestion window also holds CONNECTION_CLOSE back: the server stays until
// it is sent.
#[test]
fn a_client_with_a_full_window_is_told_that_the_server_stops() {
    let dir = tempfile::tempdir().unwrap();
    let (root, _) = root_with(dir.path(), 10);
    let (mut server, address) = serve(&root, &["--speedtest"]);
    let mut client = Client::connect(address);
    let stream = client.request("GET", "/bytes/90000000");
    client.receive(stream, 100_000);
    client.fall_silent();
    server.ask_to_stop();
    client.fall_silent();
    assert_eq!(client.closed(), H3_NO_ERROR);
    assert!(server.end().0.success());
}

#[test]
fn a_client_that_is_silent_does_not_keep_the_server_from_stopping() {
    let dir = tempfile::tempdir().unwrap();
    let (root, _) = root_with(dir.path(), 10);
    let (mut server, address) = serve(&root, &["--speedtest"]);
    let mut client = Client::connect(address);
    let stream = client.request("GET", "/bytes/90000000");
    client.receive(stream, 100_000);
    client.fall_silent();
    assert!(server.stop().success());
}

// Files that the kernel does not keep in memory: of those here it never says that
// they are.
#[test]
fn files_that_are_on_disk_arrive_whole_and_are_counted() {
    let (mut server, address) = serve(Path::new("/sys/kernel"), &["--metrics", "127.0.0.1:0"]);
    let metrics = server.metrics_address();
    let mut client = Client::connect(address);
    assert!(client.get("/notes").body == std::fs::read("/sys/kernel/notes").unwrap());
    assert_eq!(metrics::read(metrics, "edge_server_disk_reads_total"), 1);
}

// In a packet of their own they would cost both ends a system call more.
#[test]
fn spare_connection_ids_come_with_the_first_packets() {
    let lab = Lab::new();
    lab.download("run", "--rate 100 --rtt 5 --buffer 100000", 1000);
    let qlog = lab.qlog("run");
    let mut sent = qlog.lines().filter(|line| line.contains(r#""name":"quic:packet_sent""#));
    let first = sent.find(|packet| packet.contains("new_connection_id")).unwrap();
    assert!(first.contains("handshake_done"), "{first}");
}
