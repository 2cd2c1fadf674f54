//! HTTP/3 on the wire: refusals, ranges, conditions, uploads.
//! Malformed requests are in `hostile_input`.

use std::fs;

use crate::support::client::Client;
use crate::support::codes::H3_MESSAGE_ERROR;
use crate::support::process::serve;

fn www(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, contents) in files {
        fs::write(dir.path().join(name), contents).unwrap();
    }
    dir
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
