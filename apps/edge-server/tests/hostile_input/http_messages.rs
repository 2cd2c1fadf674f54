//! HTTP requests (RFC 9114, 4; RFC 9110): malformed ones reset their stream, others get an error
//! status.

use crate::case::rule;
use crate::case::Expected::*;
use crate::case::Progress;
use crate::case::Rule;
use crate::packet::Space;
use crate::wire::h3_frame;
use crate::wire::headers;
use crate::wire::literal;
use crate::wire::numbers;
use crate::wire::section;
use crate::wire::stream;
use crate::wire::H3_MESSAGE_ERROR;
use crate::wire::H3_REQUEST_CANCELLED;

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", "/")];

const DATA: u64 = 0x00;
const RESET_STREAM: u64 = 0x04;
const STOP_SENDING: u64 = 0x05;

pub fn rules() -> Vec<Rule> {
    [pseudo_fields(), fields(), content(), statuses(), cancelled()].into_iter().flatten().collect()
}

fn with(more: &[(&str, &str)]) -> Vec<u8> {
    headers(&[&GET[..], more].concat())
}

fn set(name: &str, value: &str) -> Vec<u8> {
    headers(&GET.map(|(own, old)| (own, if own == name { value } else { old })))
}

fn without(name: &str) -> Vec<u8> {
    headers(&GET.into_iter().filter(|field| field.0 != name).collect::<Vec<_>>())
}

/// Returns a request with an arbitrary field.
fn raw(name: &[u8], value: &[u8]) -> Vec<u8> {
    let mut bytes = section(&GET);
    literal(&mut bytes, name, value);
    h3_frame(0x01, &bytes)
}

fn malformed(
    name: &'static str,
    section: &'static str,
    requests: Vec<(&'static str, Vec<u8>)>,
) -> Rule {
    rule(name, section, Reset { stream: 0, code: H3_MESSAGE_ERROR }).streams(0, requests)
}

fn responds(
    status: &'static str,
    name: &'static str,
    section: &'static str,
    requests: Vec<(&'static str, Vec<u8>)>,
) -> Rule {
    rule(name, section, Status(status)).streams(0, requests)
}

fn pseudo_fields() -> Vec<Rule> {
    vec![
        malformed(
            "a pseudo-header field is missing",
            "RFC 9114, 4.3.1",
            vec![
                (":method", without(":method")),
                (":scheme", without(":scheme")),
                (":path", without(":path")),
                (":authority", without(":authority")),
                ("all", headers(&[("accept", "*/*")])),
            ],
        ),
        malformed(
            "a repeated pseudo-header field",
            "RFC 9114, 4.3.1",
            vec![
                (":method", with(&[(":method", "GET")])),
                (":scheme", with(&[(":scheme", "https")])),
                (":authority", with(&[(":authority", "localhost")])),
                (":path", with(&[(":path", "/other")])),
            ],
        ),
        malformed(
            "a pseudo-header field that requests do not have",
            "RFC 9114, 4.3",
            vec![
                (":status", with(&[(":status", "200")])),
                (":protocol", with(&[(":protocol", "websocket")])),
                ("an unknown one", with(&[(":x", "y")])),
                (":", with(&[(":", "y")])),
            ],
        ),
        malformed(
            "a pseudo-header field after regular fields",
            "RFC 9114, 4.3",
            vec![
                ("all", headers(&[&[("accept", "*/*")], &GET[..]].concat())),
                ("the last", headers(&[&GET[..3], &[("accept", "*/*")], &GET[3..]].concat())),
            ],
        ),
        malformed(
            "a pseudo-header field in trailers",
            "RFC 9114, 4.3",
            vec![
                (":path", [with(&[]), headers(&[(":path", "/")])].concat()),
                (":status", [with(&[]), headers(&[(":status", "200")])].concat()),
            ],
        ),
        malformed(
            "an empty pseudo-header field",
            "RFC 9114, 4.3.1",
            vec![
                (":path", set(":path", "")),
                (":authority", set(":authority", "")),
                (":method", set(":method", "")),
            ],
        ),
        malformed(
            "a method that is no token",
            "RFC 9110, 9.1",
            vec![
                ("a space", set(":method", "GE T")),
                ("a colon", set(":method", "GET:")),
                ("a line", set(":method", "GET\r\n")),
            ],
        ),
        malformed(
            "user information in :authority",
            "RFC 9114, 4.3.1",
            vec![
                ("a name", set(":authority", "me@localhost")),
                ("a password", set(":authority", "me:secret@localhost")),
            ],
        ),
        malformed(
            "a Host other than :authority",
            "RFC 9114, 4.3.1",
            vec![
                ("another", with(&[("host", "elsewhere")])),
                ("two", with(&[("host", "localhost"), ("host", "localhost")])),
            ],
        ),
        malformed(
            "CONNECT with more than an authority",
            "RFC 9114, 4.4",
            vec![
                ("all", set(":method", "CONNECT")),
                (
                    "a path",
                    headers(&[(":method", "CONNECT"), (":authority", "a:1"), (":path", "/")]),
                ),
                (
                    "a scheme",
                    headers(&[(":method", "CONNECT"), (":authority", "a:1"), (":scheme", "https")]),
                ),
                ("no host", headers(&[(":method", "CONNECT")])),
            ],
        ),
    ]
}

fn fields() -> Vec<Rule> {
    vec![
        malformed(
            "a field name with upper case letters",
            "RFC 9114, 4.2",
            vec![
                ("the first", with(&[("Accept", "*/*")])),
                ("the last", with(&[("accepT", "*/*")])),
            ],
        ),
        malformed(
            "a field name with invalid characters",
            "RFC 9110, 5.1",
            vec![
                ("a space", with(&[("a b", "c")])),
                ("a colon", with(&[("a:", "c")])),
                ("none", with(&[("", "c")])),
                ("a NUL", raw(b"a\0", b"c")),
                ("a line", raw(b"a\r\nb", b"c")),
                ("not ASCII", raw(b"\xc3\xa9", b"c")),
            ],
        ),
        malformed(
            "a field value with control characters",
            "RFC 9110, 5.5",
            vec![
                ("a NUL", raw(b"x", b"a\0b")),
                ("a line feed", raw(b"x", b"a\nb")),
                ("a carriage return", raw(b"x", b"a\rb")),
                ("a forged field", raw(b"x", b"a\r\ncookie: b")),
                ("in :path", set(":path", "/a\0")),
                ("in :authority", set(":authority", "a\r\nb")),
            ],
        ),
        malformed(
            "a connection-specific field",
            "RFC 9114, 4.2",
            vec![
                ("connection", with(&[("connection", "close")])),
                ("keep-alive", with(&[("keep-alive", "5")])),
                ("proxy-connection", with(&[("proxy-connection", "close")])),
                ("transfer-encoding", with(&[("transfer-encoding", "chunked")])),
                ("upgrade", with(&[("upgrade", "h2c")])),
            ],
        ),
        malformed(
            "te other than trailers",
            "RFC 9114, 4.2",
            vec![("gzip", with(&[("te", "gzip")])), ("both", with(&[("te", "trailers, gzip")]))],
        ),
        malformed(
            "an invalid content-length",
            "RFC 9110, 8.6",
            vec![
                ("a sign", with(&[("content-length", "+1")])),
                ("negative", with(&[("content-length", "-1")])),
                ("empty", with(&[("content-length", "")])),
                ("text", with(&[("content-length", "x")])),
                ("too large", with(&[("content-length", "99999999999999999999")])),
                ("hexadecimal", with(&[("content-length", "0x0")])),
            ],
        ),
        malformed(
            "different content-lengths",
            "RFC 9110, 8.6",
            vec![("0 and 1", with(&[("content-length", "0"), ("content-length", "1")]))],
        ),
    ]
}

fn content() -> Vec<Rule> {
    let post = |length: &str| with(&[("content-length", length)]);
    vec![
        malformed(
            "content of another length than announced",
            "RFC 9114, 4.1.2",
            vec![
                ("none", post("5")),
                ("less", [post("5"), h3_frame(DATA, b"1234")].concat()),
                ("more", [post("3"), h3_frame(DATA, b"1234")].concat()),
                (
                    "much more, in several frames",
                    [post("3"), h3_frame(DATA, b"12").repeat(5)].concat(),
                ),
            ],
        ),
        responds(
            "200",
            "unexpected content",
            "RFC 9110, 9.3.1",
            vec![
                ("with GET", [with(&[]), h3_frame(DATA, &[7; 900])].concat()),
                ("in empty frames", [with(&[]), h3_frame(DATA, &[]).repeat(400)].concat()),
            ],
        ),
    ]
}

fn statuses() -> Vec<Rule> {
    let long = format!("/{}", "x".repeat(9000));
    vec![
        responds(
            "400",
            "a path that leaves the root",
            "RFC 3986, 5.2.4",
            vec![
                ("plain", set(":path", "/../etc/passwd")),
                ("encoded", set(":path", "/%2e%2e/etc/passwd")),
                ("late", set(":path", "/a/../../x")),
            ],
        ),
        responds(
            "400",
            "an invalid path",
            "RFC 3986, 3.3",
            vec![
                ("relative", set(":path", "index.html")),
                ("a whole URI", set(":path", "https://localhost/")),
                ("half an encoded byte", set(":path", "/%4")),
                ("an encoded NUL", set(":path", "/%00")),
                ("an encoded slash", set(":path", "/a%2fb")),
                ("a backslash", set(":path", "/a\\b")),
            ],
        ),
        responds(
            "400",
            "an invalid host",
            "RFC 9110, 7.2",
            vec![
                ("a space", set(":authority", "a b")),
                ("an invalid port", set(":authority", "a:b")),
                ("no name", set(":authority", ":443")),
                ("half a bracket", set(":authority", "[::1")),
            ],
        ),
        responds(
            "421",
            "another scheme",
            "RFC 9110, 7.4",
            vec![
                ("http", set(":scheme", "http")),
                ("none", set(":scheme", "")),
                ("ftp", set(":scheme", "ftp")),
            ],
        ),
        responds(
            "405",
            "a method that files do not support",
            "RFC 9110, 15.5.6",
            vec![
                ("POST", set(":method", "POST")),
                ("PUT", set(":method", "PUT")),
                ("DELETE", set(":method", "DELETE")),
                ("OPTIONS", set(":method", "OPTIONS")),
                ("TRACE", set(":method", "TRACE")),
                ("CONNECT", headers(&[(":method", "CONNECT"), (":authority", "a:1")])),
            ],
        ),
        responds(
            "501",
            "an unknown method",
            "RFC 9110, 15.6.2",
            vec![
                ("BREW", set(":method", "BREW")),
                ("get", set(":method", "get")),
                ("long", set(":method", &"X".repeat(5000))),
            ],
        ),
        responds(
            "414",
            "a path longer than the limit",
            "RFC 9110, 15.5.15",
            vec![("9 kB", set(":path", &long))],
        ),
        responds(
            "404",
            "a missing file",
            "RFC 9110, 15.5.5",
            vec![
                ("a file", set(":path", "/missing")),
                ("a dot file", set(":path", "/.env")),
                ("below a file", set(":path", "/index.html/x")),
            ],
        ),
        responds(
            "200",
            "an invalid range",
            "RFC 9110, 14.2",
            vec![
                ("no unit", with(&[("range", "0-1")])),
                ("backwards", with(&[("range", "bytes=3-1")])),
                ("too many", with(&[("range", &format!("bytes={}", vec!["0-0"; 1000].join(",")))])),
                ("another unit", with(&[("range", "lines=1-2")])),
            ],
        ),
        responds(
            "206",
            "a range that extends far beyond the end",
            "RFC 9110, 14.1.2",
            vec![
                ("its end", with(&[("range", "bytes=0-99999999999999999999999")])),
                ("its length", with(&[("range", "bytes=-99999999999999999999999")])),
            ],
        ),
        responds(
            "416",
            "an unsatisfiable range",
            "RFC 9110, 14.1.2",
            vec![
                ("after the end", with(&[("range", "bytes=4-")])),
                ("far after the end", with(&[("range", "bytes=18446744073709551615-")])),
                ("the last 0", with(&[("range", "bytes=-0")])),
            ],
        ),
        responds(
            "412",
            "a precondition that fails",
            "RFC 9110, 13.1.1",
            vec![
                ("another tag", with(&[("if-match", "\"x\"")])),
                ("no tag", with(&[("if-match", "x")])),
            ],
        ),
        responds(
            "200",
            "a malformed precondition",
            "RFC 9110, 13.1.3",
            vec![
                ("a date", with(&[("if-modified-since", "yesterday")])),
                ("many tags", with(&[("if-none-match", &"\"a\",".repeat(1000))])),
                ("codings", with(&[("accept-encoding", &"br;q=0.0001,".repeat(500))])),
            ],
        ),
    ]
}

fn cancelled() -> Vec<Rule> {
    let request = || with(&[]);
    vec![rule("a cancelled request", "RFC 9114, 4.1.1", Served)
        .case("half of it", Progress::Http, move |peer| {
            peer.write(0, &request()[..9], false);
            peer.send(Space::Data, &numbers(&[RESET_STREAM, 0, H3_REQUEST_CANCELLED, 9]));
        })
        .case("with its response", Progress::Http, move |peer| {
            peer.write(0, &request(), true);
            peer.send(Space::Data, &numbers(&[STOP_SENDING, 0, H3_REQUEST_CANCELLED]));
        })
        .case("in one packet", Progress::Http, move |peer| {
            let request = request();
            let size = request.len() as u64;
            let frames = [
                stream(0, 0, &request, false),
                numbers(&[RESET_STREAM, 0, H3_REQUEST_CANCELLED, size]),
                numbers(&[STOP_SENDING, 0, H3_REQUEST_CANCELLED]),
            ];
            peer.send(Space::Data, &frames.concat());
        })
        .case("with an unknown code", Progress::Http, move |peer| {
            peer.write(0, &request(), true);
            peer.send(Space::Data, &numbers(&[STOP_SENDING, 0, (1 << 62) - 1]));
        })]
}
