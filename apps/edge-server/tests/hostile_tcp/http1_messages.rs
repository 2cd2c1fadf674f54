//! HTTP/1.1: request smuggling, invalid messages, and messages that are too long.

use std::iter::repeat_n;

use super::assert_serves;
use super::start;
use super::support::tcp_client::exchange;

/// A request that a server answers if it takes the end of the one before for elsewhere.
const NEXT: &str = "GET /smuggled HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";

/// Head and content of an upload, and the statuses of all responses.
type Upload = (&'static str, &'static str, &'static [u16]);

/// What comes after the first byte of a GET, and the statuses.
type Get = (&'static str, &'static [u16]);

/// Refused, and the connection is closed: nobody knows where the next request begins.
const REFUSED: &[u16] = &[400];

/// Responses to an upload, or to a GET, and to the request that follows.
const SERVED: &[u16] = &[200, 200];

const UPLOADS: [Upload; 46] = [
    // RFC 9112, 6.3: the connection is closed, too.
    ("content-length: 5\r\ntransfer-encoding: chunked\r\n", "0\r\n\r\n", &[200]),
    ("transfer-encoding: chunked\r\ncontent-length: 5\r\n", "0\r\n\r\n", &[200]),
    ("content-length: 5\r\ncontent-length: 5\r\n", "hello", SERVED),
    ("content-length: 5\r\ncontent-length: 6\r\n", "hello", REFUSED),
    ("content-length: 5, 5\r\n", "hello", REFUSED),
    ("content-length: 5, 6\r\n", "hello", REFUSED),
    ("content-length: +5\r\n", "hello", REFUSED),
    ("content-length: -5\r\n", "hello", REFUSED),
    ("content-length: 0x5\r\n", "hello", REFUSED),
    ("content-length: 5 5\r\n", "hello", REFUSED),
    ("content-length: 5a\r\n", "hello", REFUSED),
    ("content-length: \r\n", "hello", REFUSED),
    ("content-length: 99999999999999999999\r\n", "hello", REFUSED),
    ("content-length: 17179869185\r\n", "hello", &[413]),
    ("content-length : 5\r\n", "hello", REFUSED),
    ("transfer-encoding: identity\r\n", "hello", REFUSED),
    ("transfer-encoding: chunked, identity\r\n", "0\r\n\r\n", REFUSED),
    ("transfer-encoding: xchunked\r\n", "0\r\n\r\n", REFUSED),
    ("transfer-encoding: \x0bchunked\r\n", "0\r\n\r\n", REFUSED),
    ("transfer-encoding: \"chunked\"\r\n", "0\r\n\r\n", REFUSED),
    ("transfer-encoding: chunked;q=1\r\n", "0\r\n\r\n", REFUSED),
    ("transfer-encoding: \r\n", "0\r\n\r\n", REFUSED),
    ("transfer-encoding : chunked\r\n", "0\r\n\r\n", REFUSED),
    ("x: a\r\n transfer-encoding: chunked\r\n", "0\r\n\r\n", REFUSED),
    // RFC 9112, 6.1: codings that the server does not have.
    ("transfer-encoding: gzip, chunked\r\n", "0\r\n\r\n", &[501]),
    ("transfer-encoding: chunked, chunked\r\n", "0\r\n\r\n", &[501]),
    ("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", "0\r\n\r\n", &[501]),
    ("transfer-encoding: CHUNKED\r\n", "0\r\n\r\n", SERVED),
    ("transfer-encoding: chunked\r\n", "5;a=b\r\nhello\r\n0\r\n\r\n", SERVED),
    ("transfer-encoding: chunked\r\n", "0\r\ncontent-length: 5\r\nx: y\r\n\r\n", SERVED),
    ("transfer-encoding: chunked\r\n", "0x5\r\nhello\r\n0\r\n\r\n", REFUSED),
    ("transfer-encoding: chunked\r\n", "-5\r\nhello\r\n0\r\n\r\n", REFUSED),
    ("transfer-encoding: chunked\r\n", "+5\r\nhello\r\n0\r\n\r\n", REFUSED),
    ("transfer-encoding: chunked\r\n", "10000000000000005\r\nhello\r\n0\r\n\r\n", REFUSED),
    ("transfer-encoding: chunked\r\n", "\r\nhello\r\n0\r\n\r\n", REFUSED),
    ("transfer-encoding: chunked\r\n", "5\r\nhelloworld\r\n0\r\n\r\n", REFUSED),
    ("transfer-encoding: chunked\r\n", "5\nhello\n0\n\n", REFUSED),
    ("transfer-encoding: chunked\r\n", "5;a\nb\r\nhello\r\n0\r\n\r\n", REFUSED),
    ("transfer-encoding: chunked\r\n", "5\r\nhello0\r\n\r\n", REFUSED),
    ("expect: 100-continue\r\ncontent-length: 5\r\n", "hello", &[100, 200, 200]),
    ("expect: x\r\ncontent-length: 5\r\n", "hello", SERVED),
    // RFC 8470: the request may have been replayed.
    ("early-data: 1\r\ncontent-length: 5\r\n", "hello", &[425, 200]),
    ("early-data: 0\r\ncontent-length: 5\r\n", "hello", &[425, 200]),
    ("host: h\r\ncontent-length: 5\r\n", "hello", REFUSED),
    ("x\0: a\r\ncontent-length: 5\r\n", "hello", REFUSED),
    ("trailer: host\r\ntransfer-encoding: chunked\r\n", "0\r\nhost: i\r\n\r\n", SERVED),
];

const GETS: [Get; 52] = [
    ("ET /a HTTP/1.1\r\nhost: h\r\n\r\n", SERVED),
    ("ET /a HTTP/1.1\nhost: h\n\n", SERVED),
    ("ET /a HTTP/1.1\r\nhost: h\r\nx: a\rb\r\n\r\n", REFUSED),
    ("ET /a HTTP/1.1\r\nhost: h\rx: y\r\n\r\n", REFUSED),
    ("ET /a HTTP/1.1\r\nhost: h\r\nx: a\0b\r\n\r\n", REFUSED),
    ("ET /a HTTP/1.1\r\nhost: h\r\nx y: a\r\n\r\n", REFUSED),
    ("ET /a HTTP/1.1\r\nhost: h\r\nnonsense\r\n\r\n", REFUSED),
    ("ET /a HTTP/1.1\r\nhost: h\r\n: a\r\n\r\n", REFUSED),
    ("ET /a HTTP/1.1\r\nhost: h\r\nx\x01: a\r\n\r\n", REFUSED),
    ("ET  /a HTTP/1.1\r\nhost: h\r\n\r\n", REFUSED),
    ("ET\t/a HTTP/1.1\r\nhost: h\r\n\r\n", REFUSED),
    ("ET /a b HTTP/1.1\r\nhost: h\r\n\r\n", REFUSED),
    ("ET /a\r\n", REFUSED),
    ("ET /a HTTP/1.2\r\nhost: h\r\n\r\n", REFUSED),
    ("ET /a HTTP/2.0\r\nhost: h\r\n\r\n", REFUSED),
    ("ET /a http/1.1\r\nhost: h\r\n\r\n", REFUSED),
    ("ET /a HTTP/1.1\r\n\r\n", REFUSED),
    ("ET /a HTTP/1.1\r\nhost: h\r\nhost: h\r\n\r\n", REFUSED),
    ("ET /a HTTP/1.1\r\nhost: h\r\nhost: i\r\n\r\n", REFUSED),
    ("ET /a HTTP/1.1\r\nhost: h, i\r\n\r\n", &[400, 200]),
    ("ET /a HTTP/1.1\r\nhost: h/x\r\n\r\n", &[400, 200]),
    ("ET /a HTTP/1.1\r\nhost: h:x\r\n\r\n", &[400, 200]),
    ("ET /a HTTP/1.1\r\nhost: me@h\r\n\r\n", REFUSED),
    ("ET /a HTTP/1.1\r\nhost: \r\n\r\n", REFUSED),
    ("ET https://h/a HTTP/1.1\r\nhost: h\r\n\r\n", SERVED),
    ("ET https://i/a HTTP/1.1\r\nhost: h\r\n\r\n", REFUSED),
    ("ET http://h/a HTTP/1.1\r\nhost: h\r\n\r\n", &[421, 200]),
    ("ET ftp://h/a HTTP/1.1\r\nhost: h\r\n\r\n", &[421, 200]),
    ("ET h:443 HTTP/1.1\r\nhost: h\r\n\r\n", REFUSED),
    ("ET a HTTP/1.1\r\nhost: h\r\n\r\n", REFUSED),
    ("ET * HTTP/1.1\r\nhost: h\r\n\r\n", &[400, 200]),
    ("ET /../a HTTP/1.1\r\nhost: h\r\n\r\n", &[400, 200]),
    ("ET /%2e%2e/a HTTP/1.1\r\nhost: h\r\n\r\n", &[400, 200]),
    ("ET /\\a HTTP/1.1\r\nhost: h\r\n\r\n", &[400, 200]),
    // The version is not changed.
    ("ET /a HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n\r\n", SERVED),
    ("ET /a HTTP/1.1\r\nhost: h\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n", SERVED),
    ("ET /a HTTP/1.1\r\nhost: h\r\nconnection: host\r\n\r\n", SERVED),
    ("ET /a HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\nhello", SERVED),
    ("ET /a HTTP/1.1\r\nhost: h\r\nte: gzip, chunked\r\n\r\n", SERVED),
    ("ET /a HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n", &[200]),
    ("ET /a HTTP/1.0\r\n\r\n", &[200]),
    ("ET /a HTTP/1.0\r\nhost: h\r\nconnection: keep-alive\r\n\r\n", SERVED),
    ("ET /a HTTP/1.0\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", REFUSED),
    ("et /a HTTP/1.1\r\nhost: h\r\n\r\n", &[501, 200]),
    ("REW /a HTTP/1.1\r\nhost: h\r\n\r\n", &[501, 200]),
    ("@T /a HTTP/1.1\r\nhost: h\r\n\r\n", REFUSED),
    ("ET /a#b HTTP/1.1\r\nhost: h\r\n\r\n", SERVED),
    ("ET /\u{e9} HTTP/1.1\r\nhost: h\r\n\r\n", &[400, 200]),
    ("ET /a HTTP/1.1\r\nhost: h\r\nrange: bytes=0-0,0-0,0-0\r\n\r\n", &[206, 200]),
    ("ET /a HTTP/1.1\r\nhost: h\r\nrange: bytes=5-\r\n\r\n", &[416, 200]),
    ("ET /a HTTP/1.1\r\nhost: h\r\nif-match: \"x\"\r\n\r\n", &[412, 200]),
    ("ET /a HTTP/1.1\r\nhost: h\r\nif-none-match: *\r\n\r\n", &[304, 200]),
];

/// Returns the statuses of all responses.
fn statuses(received: &str) -> Vec<u16> {
    let responses = received.split("HTTP/1.").skip(1);
    responses.map(|response| response[2..5].parse().unwrap()).collect()
}

/// Returns cases that are long, by name.
fn long_cases() -> Vec<(&'static str, String, &'static [u16])> {
    let get = |head: &str| format!("GET /a HTTP/1.1\r\nhost: h\r\n{head}\r\n");
    let fields = |count| (0..count).map(|i| format!("x{i}: y\r\n")).collect::<String>();
    let upload = |content: &str| {
        format!("POST /upload HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n{content}")
    };
    let long = |bytes: usize| "y".repeat(bytes);
    let nested = get(&format!("content-length: {}\r\n", NEXT.len())) + NEXT;
    vec![
        ("a request as the content of another", nested, SERVED),
        ("99 more fields", get(&fields(99)), SERVED),
        ("100 more fields", get(&fields(100)), &[431]),
        ("a long field", get(&format!("x: {}\r\n", long(31 << 10))), SERVED),
        ("a field that is too long", get(&format!("x: {}\r\n", long(33 << 10))), &[431]),
        ("a field that never ends", get(&format!("x: {}\r\n", long(1 << 20))), &[431]),
        (
            "a target that is too long",
            format!("GET /{} HTTP/1.1\r\nhost: h\r\n\r\n", long(9000)),
            &[414, 200],
        ),
        ("a target that never ends", format!("GET /{}", long(1 << 20)), &[431]),
        (
            "a long chunk extension",
            upload(&format!("5;{}\r\nhello\r\n0\r\n\r\n", long(20_000))),
            REFUSED,
        ),
        ("a long trailer", upload(&format!("0\r\nx: {}\r\n\r\n", long(70_000))), REFUSED),
        ("empty lines", repeat_n("\r\n", 10).collect::<String>() + &get(""), SERVED),
        ("ten requests at once", repeat_n(get(""), 10).collect(), &[200; 11]),
        ("a TLS record", "\x16\x03\x01\x02\0\x01\0\x01\u{fc}\r\n\r\n".to_owned(), REFUSED),
        ("a CONNECT", "CONNECT h:443 HTTP/1.1\r\nhost: h:443\r\n\r\n".to_owned(), &[405, 200]),
        ("a CONNECT of a path", "CONNECT /a HTTP/1.1\r\nhost: h\r\n\r\n".to_owned(), &[400]),
        ("a TRACE", "TRACE /a HTTP/1.1\r\nhost: h\r\n\r\n".to_owned(), &[405, 200]),
        ("OPTIONS *", "OPTIONS * HTTP/1.1\r\nhost: h\r\n\r\n".to_owned(), &[405, 200]),
        ("a HEAD", "HEAD /a HTTP/1.1\r\nhost: h\r\n\r\n".to_owned(), SERVED),
    ]
}

#[test]
fn each_message_has_its_response_and_no_request_is_smuggled() {
    let (_dir, mut server, address) = start(&[]);
    let uploads = UPLOADS.iter().map(|(head, content, statuses)| {
        let message = format!("POST /upload HTTP/1.1\r\nhost: h\r\n{head}\r\n{content}");
        (format!("{head:?} {content:?}"), message, *statuses)
    });
    let gets = GETS.iter().map(|(rest, statuses)| {
        // Each begins with one of these letters.
        let first = if rest.starts_with("REW") {
            "B"
        } else if rest.starts_with("et") {
            "g"
        } else {
            "G"
        };
        (format!("{rest:?}"), format!("{first}{rest}"), *statuses)
    });
    let long = long_cases()
        .into_iter()
        .map(|(name, message, statuses)| (name.to_owned(), message, statuses));
    let mut wrong = Vec::new();
    for (name, message, expected) in uploads.chain(gets).chain(long) {
        let received = exchange(address, (message + NEXT).as_bytes());
        let found = statuses(&received);
        // That of the next request is served whole, or not at all.
        let smuggled = received.matches("smuggled").count();
        let is_next_served = expected.len() > 1;
        if found != expected || smuggled != usize::from(is_next_served) {
            wrong.push(format!("{name}: {found:?}, {smuggled} times the next, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_serves(address);
    assert!(server.stop().success());
}
