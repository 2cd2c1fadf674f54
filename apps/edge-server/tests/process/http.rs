//! What HTTP/3 asks of a server, on the wire: requests that are none, ranges,
//! conditions, uploads.

use std::fs;

use crate::support::client::Client;
use crate::support::process::serve;

/// Codes of RFC 9114, 8.1.
const H3_FRAME_UNEXPECTED: u64 = 0x105;
const H3_EXCESSIVE_LOAD: u64 = 0x107;
const H3_MESSAGE_ERROR: u64 = 0x10e;

fn www(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, contents) in files {
        fs::write(dir.path().join(name), contents).unwrap();
    }
    dir
}

#[test]
fn a_malformed_request_costs_its_stream_alone() {
    let dir = www(&[("index.html", "home")]);
    let (_server, address) = serve(dir.path(), &[]);
    let mut client = Client::connect(address);
    let start =
        [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/")];
    let with = |more: &[(&'static str, &'static str)]| [&start[..], more].concat();
    let table = [
        start[..3].to_vec(),
        start[1..].to_vec(),
        [&start[..1], &start[2..]].concat(),
        [&start[..2], &start[3..]].concat(),
        with(&[(":path", "/")]),
        with(&[(":status", "200")]),
        with(&[("x", "1"), (":x", "2")]),
        with(&[("connection", "close")]),
        with(&[("te", "gzip")]),
        with(&[("content-length", "x")]),
        // More than there is.
        with(&[("content-length", "5")]),
        with(&[("a b", "c")]),
        with(&[("x", "a\nb")]),
    ];
    for fields in table {
        let stream = client.request_with(&fields);
        assert_eq!(client.response(stream).reset, Some(H3_MESSAGE_ERROR), "{fields:?}");
        assert_eq!(client.get("/").body, b"home", "{fields:?}");
    }
}

#[test]
fn a_request_that_cannot_be_served_is_told_why() {
    let dir = www(&[("index.html", "home")]);
    let (_server, address) = serve(dir.path(), &[]);
    let mut client = Client::connect(address);
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
fn frames_out_of_place_close_the_connection() {
    let dir = www(&[("index.html", "home")]);
    let (_server, address) = serve(dir.path(), &[]);
    for (frame, code) in [
        // DATA before HEADERS.
        (&[0, 2, b'x', b'y'][..], H3_FRAME_UNEXPECTED),
        // SETTINGS on a request stream.
        (&[4, 0], H3_FRAME_UNEXPECTED),
        // GOAWAY on a request stream.
        (&[7, 1, 0], H3_FRAME_UNEXPECTED),
    ] {
        let mut client = Client::connect(address);
        client.send_raw(frame);
        assert_eq!(client.closed(), code, "{frame:?}");
    }
    assert_eq!(Client::connect(address).get("/").body, b"home");
}

#[test]
fn who_sends_malformed_requests_only_is_sent_away() {
    let dir = www(&[("index.html", "home")]);
    let (_server, address) = serve(dir.path(), &[]);
    let mut client = Client::connect(address);
    for _ in 0..100 {
        let stream = client.request_with(&[(":method", "GET")]);
        assert_eq!(client.response(stream).reset, Some(H3_MESSAGE_ERROR));
    }
    client.request_with(&[(":method", "GET")]);
    assert_eq!(client.closed(), H3_EXCESSIVE_LOAD);
    assert_eq!(Client::connect(address).get("/").body, b"home");
}

#[test]
fn a_header_section_without_end_closes_the_connection() {
    let dir = www(&[("index.html", "home")]);
    let (_server, address) = serve(dir.path(), &[]);
    let mut client = Client::connect(address);
    client.ask("/", &[("x", "y"); 2100]);
    assert_eq!(client.closed(), H3_EXCESSIVE_LOAD);
    assert_eq!(Client::connect(address).get("/").body, b"home");
}

// What has come of a request stays with the library: RFC 9114, 10.5.
#[test]
fn who_takes_every_request_back_is_sent_away() {
    let dir = www(&[("index.html", "home")]);
    let (_server, address) = serve(dir.path(), &[]);
    let mut client = Client::connect(address);
    for n in 0..=100 {
        client.take_back(4 * n);
    }
    assert_eq!(client.closed(), H3_EXCESSIVE_LOAD);
    assert_eq!(Client::connect(address).get("/").body, b"home");
}

#[test]
fn ranges_and_conditions_work_on_the_wire() {
    let text: String = (0..100_000).map(|n| char::from(b'a' + (n % 23 * n % 23) as u8)).collect();
    let dir = www(&[("file.txt", &text)]);
    let (_server, address) = serve(dir.path(), &["--speedtest"]);
    let mut client = Client::connect(address);
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
fn an_upload_is_counted() {
    let dir = www(&[("index.html", "home")]);
    let (_server, address) = serve(dir.path(), &["--speedtest"]);
    let mut client = Client::connect(address);
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
fn an_upload_that_is_wrong_is_refused() {
    let dir = www(&[("index.html", "home")]);
    let (_server, address) = serve(dir.path(), &["--speedtest"]);
    let mut client = Client::connect(address);
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
