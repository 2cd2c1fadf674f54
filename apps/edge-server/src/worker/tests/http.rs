//! HTTP/3 as clients see it: files, statuses, ranges, conditions, uploads.
//! Malformed requests are in `tests/hostile_input`.

use std::fs::File;
use std::path::Path;

use super::codes::H3_INTERNAL_ERROR;
use super::codes::H3_MESSAGE_ERROR;
use super::harness::Lab;
use super::harness::Server;

/// A server with a file of so many bytes, and its contents.
fn server_with(length: usize, args: &[&str]) -> (Server, Vec<u8>) {
    let lab = Lab::new();
    let contents: Vec<u8> =
        (0..length as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    lab.write("www/file.bin", &contents);
    (lab.serve(args), contents)
}

#[test]
fn http_get_brings_files_and_bytes_whole() {
    let (server, contents) = server_with(3_000_000, &["--speedtest"]);
    let mut client = server.connect();
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
        assert_eq!((bytes.status(), bytes.body.len()), ("200", length));
    }
}

#[test]
fn http_answers_have_the_right_status() {
    let (server, _) = server_with(10, &[]);
    let mut client = server.connect();
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
fn http_head_has_no_body() {
    let (server, _) = server_with(100_000, &[]);
    let mut client = server.connect();
    let stream = client.request("HEAD", "/file.bin");
    let response = client.response(stream);
    assert_eq!(response.status(), "200");
    assert_eq!(response.headers["content-length"], "100000");
    assert!(response.body.is_empty());
}

// RFC 9114, 4.1: a request may end with trailers.
#[test]
fn http_trailers_of_a_request_change_nothing() {
    let (server, contents) = server_with(20_000_000, &[]);
    let mut client = server.connect();
    // During the response, and when all of it has been passed to the transport.
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
fn http_parallel_requests_are_all_answered() {
    let (server, contents) = server_with(400_000, &[]);
    let mut client = server.connect();
    let streams: Vec<_> = (0..50).map(|_| client.request("GET", "/file.bin")).collect();
    for stream in streams {
        assert!(client.response(stream).body == contents);
    }
}

#[test]
fn http_file_that_shrinks_resets_its_stream_alone() {
    let (server, _) = server_with(90_000_000, &[]);
    let mut client = server.connect();
    let stream = client.request("GET", "/file.bin");
    client.receive(stream, 10_000);
    let file = server.lab().file("www/file.bin");
    File::options().write(true).open(file).unwrap().set_len(10).unwrap();
    assert_eq!(client.response(stream).reset, Some(H3_INTERNAL_ERROR));
    assert_eq!(client.get("/").body, b"home");
}

// Files that the kernel does not keep in memory: of those here it never says that they are.
#[test]
fn http_files_on_disk_arrive_whole_and_are_counted() {
    let server = Server::start(&["--root", "/sys/kernel"]);
    let mut client = server.connect();
    assert!(client.get("/notes").body == std::fs::read(Path::new("/sys/kernel/notes")).unwrap());
    assert_eq!(server.metric("edge_server_disk_reads_total"), 1);
}

#[test]
fn http_refusal_tells_why() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    let long = format!("/{}", "x".repeat(9000));
    let cases = [
        ("GET", long.as_str(), "localhost", 0, "414"),
        ("GET", "/", "localhost", 1000, "431"),
        ("BREW", "/", "localhost", 0, "501"),
        ("DELETE", "/", "localhost", 0, "405"),
        ("GET", "/", "a b", 0, "400"),
        ("GET", "/%2e%2e/x", "localhost", 0, "400"),
        ("GET", "/", "localhost:443", 100, "200"),
    ];
    for (method, path, authority, more, status) in cases {
        let start =
            [(":method", method), (":scheme", "https"), (":authority", authority), (":path", path)];
        let stream = client.request_with(&[&start[..], &vec![("x", "y"); more]].concat());
        let response = client.response(stream);
        assert_eq!(response.status(), status, "{method}");
        assert_eq!(response.headers.contains_key("allow"), status == "405", "{method}");
        let length: usize = response.headers["content-length"].parse().unwrap();
        assert_eq!(response.body.len(), length, "{method}");
    }
    // RFC 9110, 9.3.2: whatever is said, a HEAD gets no body.
    for path in [long.as_str(), "/missing", "/.."] {
        let stream = client.request("HEAD", path);
        let response = client.response(stream);
        assert!(response.status() >= "400" && response.body.is_empty(), "{path}");
    }
}

#[test]
fn http_ranges_and_conditions_work_on_the_wire() {
    let text: String = (0..100_000).map(|n| char::from(b'a' + (n % 23 * n % 23) as u8)).collect();
    let lab = Lab::new();
    lab.write("www/file.txt", &text);
    let server = lab.serve(&["--speedtest"]);
    let mut client = server.connect();
    let whole = client.get("/file.txt");
    let etag = whole.headers["etag"].clone();
    assert_eq!(whole.headers["accept-ranges"], "bytes");

    let part = client.get_with("/file.txt", &[("range", "bytes=90000-"), ("if-range", &etag)]);
    assert_eq!((part.status(), part.headers["content-length"].as_str()), ("206", "10000"));
    assert_eq!(part.headers["content-range"], "bytes 90000-99999/100000");
    assert!(part.body == text.as_bytes()[90_000..]);

    let parts = client.get_with("/file.txt", &[("range", "bytes=0-49999,99990-")]);
    let body = String::from_utf8(parts.body.clone()).unwrap();
    assert_eq!(parts.headers["content-length"], body.len().to_string());
    assert!(body.contains(&text[..50_000]) && body.contains(&text[99_990..]));

    let beyond = client.get_with("/file.txt", &[("range", "bytes=100000-")]);
    assert_eq!(beyond.status(), "416");
    assert_eq!(beyond.headers["content-range"], "bytes */100000");

    let known = client.get_with("/file.txt", &[("if-none-match", &etag)]);
    assert_eq!((known.status(), known.body.len()), ("304", 0));
    assert!(!known.headers.contains_key("content-length"));
    assert_eq!(known.headers["etag"], etag);

    let bytes = client.get("/bytes/200000").body;
    let part = client.get_with("/bytes/200000", &[("range", "bytes=-60000")]);
    assert!(part.body == bytes[140_000..]);
}

#[test]
fn http_upload_is_counted() {
    let server = Server::start(&["--speedtest"]);
    let mut client = server.connect();
    for (length, fields, statuses) in [
        (0, &[][..], &["200"][..]),
        (0, &[("content-length", "0")], &["200"]),
        (1, &[("content-length", "1")], &["200"]),
        (5_000_000, &[], &["200"]),
        // RFC 9110, 10.1.1.
        (100, &[("expect", "100-continue")], &["100", "200"]),
    ] {
        let stream = client.post("/upload", vec![7; length], fields);
        let response = client.response(stream);
        assert_eq!(response.statuses, statuses);
        assert_eq!(response.body, format!("{length}\n").into_bytes());
    }
}

#[test]
fn http_upload_that_is_wrong_is_refused() {
    let server = Server::start(&["--speedtest"]);
    let mut client = server.connect();
    for announced in ["99", "101"] {
        let stream = client.post("/upload", vec![7; 100], &[("content-length", announced)]);
        assert_eq!(client.response(stream).reset, Some(H3_MESSAGE_ERROR), "{announced}");
    }
    // Too much to begin with, and nowhere to put it.
    for (path, fields, status) in [
        ("/upload", &[("content-length", "17179869185"), ("expect", "100-continue")][..], "413"),
        ("/index.html", &[("expect", "100-continue")], "405"),
    ] {
        let stream = client.post(path, vec![7; 3_000_000], fields);
        assert_eq!(client.response(stream).statuses, [status], "{path}");
    }
    assert_eq!(client.get("/").body, b"home");
}
