//! Origins over HTTP/3, HTTP/2 and HTTP/1.1: good ones, and ones that break every rule.

mod framed;
mod http2;
mod messages;
mod other_projects;
mod proxies;
mod reports;
pub mod scripted;
mod upstreams;

use std::fs;
use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use boring::ssl::SslAcceptor;
use boring::ssl::SslFiletype;
use boring::ssl::SslMethod;

use self::scripted::Act;
use self::scripted::ScriptedOrigin;
use crate::support::certify::certify;
use crate::support::client::ClientLimits;
use crate::support::client::UdpClient;
use crate::support::lab::emulate;
use crate::support::lab::StoreFolder;
use crate::support::metrics;
use crate::support::process::server_command;
use crate::support::process::sibling;
use crate::support::process::Running;
use crate::support::tcp_client;
use crate::support::tcp_client::TcpClient;
use crate::support::tcp_client::Version;
use crate::support::waiting::StalledOrigin;
use crate::support::waiting::WaitingRequests;

const NAP: Duration = Duration::from_millis(20);
const NAPS_MAX: usize = 1000;

/// H3_INTERNAL_ERROR (RFC 9114, 8.1).
const H3_INTERNAL_ERROR: u64 = 0x102;

/// User `user` with the password `secret`.
const USERS: &str = "user:$2y$04$m7OR/Xlkho/eivIZT4I5u.6RWCzMEb9q9JMOn4f.w.tSZcTuIkequ\n";

/// Status, fields and body; or `None` if the response breaks off.
pub type OriginReply = Option<(u16, Vec<(String, String)>, Vec<u8>)>;

/// Starts a server whose paths below `/app/` an origin has. `more` are lines of its file, in which
/// `DIR` stands for the folder.
fn serve(dir: &Path, origin: SocketAddr, more: &str) -> (Running, SocketAddr, SocketAddr) {
    let root = dir.join("www");
    fs::create_dir_all(&root).unwrap();
    fs::write(root.join("index.html"), "home").unwrap();
    fs::write(root.join("502.html"), "sorry").unwrap();
    fs::write(dir.join("users"), USERS).unwrap();
    write_config(dir, origin, more);
    let (root, config) = (root.to_str().unwrap().to_owned(), dir.join("edge.toml"));
    let args = ["--listen", "127.0.0.1:0", "--root", &root, "--tcp", "on", "--workers", "1"];
    let more = ["--metrics", "127.0.0.1:0", "--config", config.to_str().unwrap()];
    let log = dir.join("access.log");
    let log = ["--access-log", log.to_str().unwrap()];
    let mut server = Running::start(&mut server_command(&[&args[..], &more, &log].concat()));
    let (address, metrics_at) = (server.address(), server.metrics_address());
    (server, address, metrics_at)
}

fn write_config(dir: &Path, origin: SocketAddr, more: &str) {
    let more = more.replace("DIR", dir.to_str().unwrap());
    let own = match more.contains("[[host.origin]]\npath = '/app/**'") {
        true => String::new(),
        false => format!(
            "[[host.origin]]\npath = '/app/**'\nurl = 'http://{origin}'\nheader-timeout = 2\n\
             body-timeout = 2\n"
        ),
    };
    let toml = format!("[[host]]\n{more}\n{own}");
    fs::write(dir.join("edge.toml"), toml).unwrap();
}

/// Waits until something is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..NAPS_MAX {
        if is_so() {
            return;
        }
        thread::sleep(NAP);
    }
    panic!("never: {what}");
}

/// Sends a request over each version of HTTP on new connections, and returns the responses.
pub fn over_all(
    server: SocketAddr,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
) -> [OriginReply; 3] {
    let over_tcp = |version| {
        let mut client = TcpClient::connect(server, "localhost", version);
        let request = client.request(method, "localhost", path, fields, b"");
        let response = client.try_send(request).ok()?;
        let text = |value: &hyper::header::HeaderValue| value.to_str().unwrap().to_owned();
        let fields = response.headers().iter();
        let fields = fields.map(|(name, value)| (name.to_string(), text(value))).collect();
        Some((response.status().as_u16(), fields, response.body().to_vec()))
    };
    [over_http3(server, method, path, fields), over_tcp(Version::Http2), over_tcp(Version::Http11)]
}

pub fn over_http3(
    server: SocketAddr,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
) -> OriginReply {
    let mut client = UdpClient::connect(server);
    let pseudo =
        [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
    let stream = client.request_with(&[&pseudo[..], fields].concat());
    let response = client.response(stream);
    client.close();
    if let Some(code) = response.reset {
        assert_eq!(code, H3_INTERNAL_ERROR, "{path}");
        return None;
    }
    let status = response.status().parse().unwrap();
    Some((status, response.headers.into_iter().collect(), response.body))
}

pub fn value<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
}

/// What is to become of a response.
#[derive(Clone, Copy, Debug)]
enum ExpectedResponse {
    /// It has this status and body, and a length or none.
    Whole(u16, &'static str, Option<&'static str>),

    /// The server has its own error.
    Error(u16),
    Broken,

    /// It breaks off before the first byte of its body: over HTTP/1.1 the server has an error of its own.
    BrokenFirst,
}

fn send(text: &str) -> Act {
    Act::Send(text.as_bytes().to_vec())
}

/// Behaviours by path, with a GET for each, and what is to become of it.
fn behaviours() -> Vec<(&'static str, Vec<Act>, ExpectedResponse)> {
    use Act::*;
    use ExpectedResponse::*;
    let ok = "HTTP/1.1 200 OK\r\n";
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let of = |head: &str, rest: &str| send(&format!("{head}{rest}"));
    let hello = of(ok, "content-length: 5\r\n\r\nhello");
    let whole = Whole(200, "hello", Some("5"));
    let unknown = Whole(200, "hello", None);
    vec![
        ("plain", vec![hello.clone()], whole),
        ("slow", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
            .bytes().map(|byte| Send(vec![byte])).collect(), whole),
        ("no-length", vec![of(ok, "\r\nhello"), Close], unknown),
        ("chunks", vec![of(chunked, "3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n")], unknown),
        ("small-chunks", vec![of(chunked, &"1\r\nx\r\n".repeat(5000)), send("0\r\n\r\n")],
            Whole(200, "x*5000", None)),
        ("trailers", vec![of(chunked, "5\r\nhello\r\n0\r\nx-trailer: 1\r\n\r\n")], unknown),
        ("empty", vec![of(ok, "content-length: 0\r\n\r\n")], Whole(200, "", Some("0"))),
        ("no-chunks", vec![of(chunked, "0\r\n\r\n")], Whole(200, "", None)),
        ("old", vec![send("HTTP/1.0 200 OK\r\n\r\nhello"), Close], unknown),
        ("short", vec![of(ok, "content-length: 6\r\n\r\nhello"), Close], Broken),
        ("long", vec![of(ok, "content-length: 3\r\n\r\nhello")], Whole(200, "hel", Some("3"))),
        ("both-lengths", vec![of(ok, "content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")], unknown),
        ("reset", vec![of(ok, "content-length: 9\r\n\r\nhello"), Reset], Broken),
        ("reset-chunks", vec![of(chunked, "5\r\nhello\r\n"), Reset], Broken),
        ("invalid-chunk", vec![of(chunked, "5\r\nhello\r\nzz\r\n")], Broken),
        ("unended-chunks", vec![of(chunked, "5\r\nhello\r\n"), Close], Broken),
        ("huge-chunk", vec![of(chunked, "fffffffffffffffff\r\nhello")], BrokenFirst),
        ("closed-body", vec![SendLast(format!("{ok}content-length: 5\r\n\r\n").into_bytes())], BrokenFirst),
        ("closed-chunks", vec![SendLast(chunked.as_bytes().to_vec())], BrokenFirst),
        ("reset-chunk", vec![of(chunked, ""), Reset], Broken),
        ("stall", vec![of(ok, "content-length: 9\r\n\r\nhello"), Wait], Broken),
        ("stall-chunks", vec![of(chunked, "5\r\nhello\r\n"), Wait], Broken),
        ("silent", vec![Wait], Error(504)),
        ("slow-head", vec![send(ok), Wait], Error(504)),
        ("closed", vec![Close], Error(502)),
        ("reset-first", vec![Reset], Error(502)),
        ("half-head", vec![send(ok), Close], Error(502)),
        ("garbage", vec![send("\x01\x02\x03\r\n\r\n"), Close], Error(502)),
        ("no-http", vec![send("hello\r\n\r\n"), Close], Error(502)),
        ("other-version", vec![send("HTTP/3.0 200 OK\r\n\r\n"), Close], Error(502)),
        ("bad-status", vec![send("HTTP/1.1 20 OK\r\n\r\n"), Close], Error(502)),
        ("bad-field", vec![of(ok, "no colon\r\n\r\n"), Close], Error(502)),
        ("bad-name", vec![of(ok, "a b: c\r\n\r\n"), Close], Error(502)),
        ("folded", vec![of(ok, "a: b\r\n c\r\n\r\n"), Close], Error(502)),
        ("two-lengths", vec![of(ok, "content-length: 5\r\ncontent-length: 6\r\n\r\nhello"), Close], Error(502)),
        ("bad-length", vec![of(ok, "content-length: -5\r\n\r\nhello"), Close], Error(502)),
        (
            "large-head",
            vec![of(ok, &format!("a: {}\r\ncontent-length: 5\r\n\r\nhello", "x".repeat(12_000)))],
            whole,
        ),
        (
            "too-large-head",
            vec![of(ok, &format!("a: {}\r\n\r\n", "x".repeat(13_000))), Close],
            Error(502),
        ),
        ("huge-head", vec![of(ok, &format!("a: {}\r\n\r\n", "x".repeat(100_000))), Close], Error(502)),
        ("endless-head", vec![send(ok), Flood], Error(502)),
        ("many-fields", vec![of(ok, &"a: b\r\n".repeat(500)), send("\r\n"), Close], Error(502)),
        ("switch", vec![send("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"), Wait], Error(502)),
        ("informed", vec![Inform(1), hello.clone()], whole),
        ("storm", vec![Inform(3000), hello], whole),
        ("no-content", vec![send("HTTP/1.1 204 No Content\r\n\r\n")], Whole(204, "", None)),
        ("not-modified", vec![send("HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\netag: \"a\"\r\n\r\n")], Whole(304, "", None)),
        ("missing", vec![send("HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nnone")], Whole(404, "none", Some("4"))),
        ("own-error", vec![send("HTTP/1.1 502 Bad\r\ncontent-length: 3\r\n\r\nown")], Whole(502, "own", Some("3"))),
        ("hops", vec![of(ok, "connection: x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=9\r\nalt-svc: h3=\":1\"\r\nupgrade: h2c\r\ncontent-length: 5\r\n\r\nhello")], whole),
    ]
}

/// Checks responses over all versions.
fn check_all(name: &str, got: &[OriginReply; 3], expected: ExpectedResponse) {
    let ExpectedResponse::BrokenFirst = expected else {
        return got.iter().for_each(|got| check(name, got, expected));
    };
    let [http3, http2, http11] = got;
    check(name, http3, ExpectedResponse::Broken);
    check(name, http2, ExpectedResponse::Broken);
    check(name, http11, ExpectedResponse::Error(502));
}

fn check(name: &str, got: &OriginReply, expected: ExpectedResponse) {
    match (expected, got) {
        (ExpectedResponse::Broken, None) => (),
        (ExpectedResponse::Error(status), Some((got_status, fields, body))) => {
            assert_eq!(*got_status, status, "{name}");
            let text = if status == 502 { "sorry" } else { "504 Gateway Timeout\n" };
            assert_eq!(String::from_utf8_lossy(body), text, "{name}");
            assert_eq!(value(fields, "via"), None, "{name}");
        }
        (ExpectedResponse::Whole(status, text, length), Some((got_status, fields, body))) => {
            let text = match text.split_once('*') {
                Some((text, count)) => text.repeat(count.parse().unwrap()),
                None => text.to_owned(),
            };
            assert_eq!((*got_status, body.as_slice()), (status, text.as_bytes()), "{name}");
            let got_length = value(fields, "content-length");
            // It is known if all has come.
            let whole = Some(body.len().to_string()).filter(|_| ![204, 304].contains(&status));
            let is_expected =
                got_length == length || length.is_none() && got_length == whole.as_deref();
            assert!(is_expected, "{name} {fields:?}");
            let via = value(fields, "via").unwrap();
            let is_named = ["1.0 edge-server-", "1.1 edge-server-", "2 edge-server-"]
                .iter()
                .any(|own| via.starts_with(own));
            assert!(is_named, "{name} {via}");
            for hop in ["x-hop", "keep-alive", "upgrade", "trailer", "x-trailer"] {
                assert_eq!(value(fields, hop), None, "{name} {hop}");
            }
            assert_ne!(value(fields, "alt-svc"), Some("h3=\":1\""), "{name}");
            assert_eq!(fields.iter().filter(|(own, _)| own == "date").count(), 1, "{name}");
        }
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn every_behaviour_of_an_origin_has_its_exact_result() {
    let origin = ScriptedOrigin::start(|target| {
        let name = target.trim_start_matches("/app/");
        let found = behaviours().into_iter().find(|(own, ..)| *own == name);
        found.map(|(_, acts, _)| acts).unwrap_or_default()
    });
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, metrics_at) =
        serve(dir.path(), origin.address, "error = { 502 = '/502.html' }");
    let plain = behaviours().swap_remove(0).2;
    for (name, _, expected) in behaviours() {
        let path = format!("/app/{name}");
        let got = over_all(address, "GET", &path, &[]);
        check_all(name, &got, expected);
        // Another client is served as before.
        check(name, &over_http3(address, "GET", "/app/plain", &[]), plain);
    }
    let count = |outcome: &str| {
        let name = format!("edge_server_origin_requests_total{{outcome=\"{outcome}\"}}");
        metrics::read(metrics_at, &name)
    };
    let expected = |is_so: fn(&ExpectedResponse) -> bool| {
        3 * behaviours().iter().filter(|(.., expected)| is_so(expected)).count() as u64
    };
    assert_eq!(
        count("broken"),
        expected(|expected| {
            matches!(expected, ExpectedResponse::Broken | ExpectedResponse::BrokenFirst)
        })
    );
    assert_eq!(
        count("timeout"),
        expected(|expected| matches!(expected, ExpectedResponse::Error(504)))
    );
    assert_eq!(
        count("malformed"),
        expected(|expected| matches!(expected, ExpectedResponse::Error(502)))
    );
    assert!(server.stop().success());
    let log = fs::read_to_string(dir.path().join("access.log")).unwrap();
    assert_eq!(log.lines().count(), 4 * behaviours().len(), "each request has a line");
}

/// Sends a request with content over each version of HTTP, and returns status and content.
fn upload_over_all(
    server: SocketAddr,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
    content: &[u8],
) -> [Option<(u16, Vec<u8>)>; 3] {
    let over_tcp = |version| {
        let mut client = TcpClient::connect(server, "localhost", version);
        let request = client.request(method, "localhost", path, fields, content);
        let response = client.try_send(request).ok()?;
        Some((response.status().as_u16(), response.body().to_vec()))
    };
    let mut client = UdpClient::connect(server);
    let pseudo =
        [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
    let headers = [&pseudo[..], fields].concat();
    let stream = match content {
        [] => client.request_with(&headers),
        _ => client.upload(&headers, content),
    };
    let response = client.response(stream);
    client.close();
    let over_udp = response.reset.is_none().then(|| response.status().parse().unwrap());
    [
        over_udp.map(|status| (status, response.body)),
        over_tcp(Version::Http2),
        over_tcp(Version::Http11),
    ]
}

#[test]
fn content_of_requests_reaches_the_origin() {
    // Before the content, and without a request after it.
    let closing = |status: &str, text: &str| {
        let length = text.len();
        format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{text}")
    };
    let origin = ScriptedOrigin::start(move |target| match target {
        "/app/early" => vec![send(&closing("200 OK", "early")), Act::Wait],
        "/app/refused" => vec![send(&closing("403 Forbidden", "no")), Act::Wait],
        "/app/silent" => vec![Act::Wait],
        "/app/reset" => vec![Act::Reset],
        _ => vec![Act::Echo],
    });
    let dir = tempfile::tempdir().unwrap();
    let more = format!(
        "[[host.access]]\npath = '/app/private/**'\nbasic-auth = 'DIR/users'\n\
         [[host.origin]]\npath = '/few/**'\nurl = 'http://{}'\ncontent-bytes-max = 1000\n",
        origin.address
    );
    let (mut server, address, _) = serve(dir.path(), origin.address, &more);
    let large: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
    for (method, path, content, status, expected) in [
        ("POST", "/app/echo", &b"hello"[..], 200, Some(&b"hello"[..])),
        ("PUT", "/app/echo", b"hello", 200, Some(b"hello")),
        ("PATCH", "/app/echo", b"x", 200, Some(b"x")),
        ("DELETE", "/app/echo", b"", 200, Some(b"")),
        ("POST", "/app/echo", b"", 200, Some(b"")),
        ("OPTIONS", "/app/echo", b"", 200, Some(b"")),
        ("POST", "/app/echo", &large, 200, Some(&large)),
        ("POST", "/app/early", b"hello", 200, Some(b"early")),
        ("POST", "/app/early", &large, 200, Some(b"early")),
        ("POST", "/app/refused", &large, 403, Some(b"no")),
        ("POST", "/app/silent", &large, 504, None),
        ("POST", "/app/reset", b"hello", 502, None),
        ("POST", "/app/private/a", b"hello", 401, None),
        ("POST", "/few/echo", &large[..1000], 200, Some(&large[..1000])),
        ("POST", "/few/echo", &large[..1001], 413, None),
    ] {
        let name = format!("{method} {path} {}", content.len());
        for (got, version) in
            upload_over_all(address, method, path, &[], content).iter().zip(["3", "2", "1.1"])
        {
            // A client that still sends may miss why the server does not want more.
            let is_missed = content.len() == large.len() && status != 200 && version == "1.1";
            if got.is_none() && is_missed {
                continue;
            }
            let (got_status, body) = got.as_ref().unwrap();
            assert_eq!(*got_status, status, "{name} over {version}");
            assert!(expected.is_none_or(|expected| body == expected), "{name} over {version}");
        }
        for got in over_all(address, "GET", "/app/good", &[]) {
            assert_eq!(got.unwrap().0, 200, "after {name}");
        }
    }
    // Content waits until the password is checked, which takes a while at the first time.
    let password = format!("Basic {}", boring::base64::encode_block(b"user:secret"));
    let password = [("authorization", password.as_str())];
    for content in [&large[..], b"hello", b""] {
        for got in upload_over_all(address, "POST", "/app/private/a", &password, content) {
            assert!(got == Some((200, content.to_vec())), "{} bytes", content.len());
        }
    }
    // Once: what changes something is not repeated.
    assert_eq!(origin.requests("/app/reset").len(), 3);
    assert!(server.stop().success());
}

#[test]
fn content_that_breaks_off_ends_the_request() {
    let origin = ScriptedOrigin::start(|_| vec![Act::Wait]);
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, metrics_at) = serve(dir.path(), origin.address, "");

    let mut over_udp = UdpClient::connect(address);
    let headers = [
        (":method", "POST"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", "/app/"),
        ("content-length", "9"),
    ];
    let stream = over_udp.upload(&headers, b"part");
    assert!(over_udp.response(stream).reset.is_some());
    over_udp.close();

    let mut over_tcp = tcp_client::open(address, b"\x08http/1.1");
    let part = b"POST /app/tcp HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\npart";
    over_tcp.write_all(part).unwrap();
    wait_until("it begins", || origin.requests("/app/tcp").len() == 1);
    drop(over_tcp);
    // That over HTTP/3 may have ended before it began.
    let begun = || origin.requests("/app/").len() + 1;
    wait_until("all end", || origin.ended() == begun() as u64);
    let cancelled = "edge_server_origin_requests_total{outcome=\"cancelled\"}";
    metrics::wait_until(metrics_at, cancelled, |count| count == 2);
    assert!(server.stop().success());
}

#[test]
fn head_has_the_fields_alone() {
    let origin = ScriptedOrigin::start(|target| match target {
        "/app/length" => vec![send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n")],
        _ => vec![send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")],
    });
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, _) = serve(dir.path(), origin.address, "");
    for (path, length) in [("/app/length", Some("5")), ("/app/none", None)] {
        for got in over_all(address, "HEAD", path, &[]) {
            check(path, &got, ExpectedResponse::Whole(200, "", length));
        }
        assert!(origin.requests(path).iter().all(|head| head.starts_with("HEAD ")));
    }
    assert!(server.stop().success());
}

#[test]
fn unreachable_origin_is_502() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, metrics_at) =
        serve(dir.path(), closed, "error = { 502 = '/502.html' }");
    for got in over_all(address, "GET", "/app/", &[]) {
        check("closed", &got, ExpectedResponse::Error(502));
    }
    let name = "edge_server_origin_requests_total{outcome=\"unreachable\"}";
    assert_eq!(metrics::read(metrics_at, name), 3);
    for got in over_all(address, "GET", "/", &[]) {
        assert_eq!(got.unwrap().2, b"home");
    }
    for (method, path, status) in
        [("TRACE", "/app/", 405), ("M-SEARCH", "/app/", 502), ("M-SEARCH", "/", 501)]
    {
        for got in over_all(address, method, path, &[]) {
            assert_eq!(got.unwrap().0, status, "{method} {path}");
        }
    }
    assert!(server.stop().success());
}

#[test]
fn rules_of_the_host_apply_to_origins() {
    let origin = ScriptedOrigin::start(|_| {
        vec![send(
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncache-control: public\r\nx-powered-by: x\r\n\
             access-control-allow-origin: https://evil.example\r\n\r\nok",
        )]
    });
    let rules = "[[host.access]]\npath = '/app/private/**'\nbasic-auth = 'DIR/users'\n\
                 [[host.access]]\npath = '/app/denied/**'\ndeny = ['::/0', '0.0.0.0/0']\n\
                 [[host.cors]]\npath = '/app/**'\norigins = ['https://good.example']\n\
                 [[host.header]]\npath = '/app/**'\nset = { x-own = '1' }\nunset = ['x-powered-by']\n\
                 [[host.redirect]]\nfrom = '/app/old'\nto = '/app/new'\n";
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, _) = serve(dir.path(), origin.address, rules);
    let password = format!("Basic {}", boring::base64::encode_block(b"user:secret"));
    let password = ("authorization", password.as_str());
    let page = ("origin", "https://good.example");
    for (path, fields, status, is_forwarded) in [
        ("/app/private/a", &[][..], 401, false),
        ("/app/private/a", &[password], 200, true),
        ("/app/denied/a", &[], 403, false),
        ("/app/old", &[], 308, false),
        ("/app/./open//a?b=c", &[page, password], 200, true),
        ("/app/early", &[("early-data", "1")], 200, true),
        ("/app/../app/a", &[], 400, false),
        ("/app/a%2f..%2fb", &[], 400, false),
    ] {
        let forwarded = path.replace("/./", "/").replace("//", "/");
        let before = origin.requests(&forwarded).len();
        for got in over_all(address, "GET", path, fields) {
            let (got_status, got_fields, _) = got.unwrap();
            assert_eq!(got_status, status, "{path} {fields:?}");
            if !is_forwarded {
                continue;
            }
            assert_eq!(value(&got_fields, "x-own"), Some("1"), "{path}");
            assert_eq!(value(&got_fields, "x-powered-by"), None, "{path}");
            let is_private = path.contains("private");
            let cache_control = if is_private { "private" } else { "public" };
            assert_eq!(value(&got_fields, "cache-control"), Some(cache_control), "{path}");
            let allowed = fields.contains(&page).then_some("https://good.example");
            assert_eq!(value(&got_fields, "access-control-allow-origin"), allowed, "{path}");
        }
        let requests = origin.requests(&forwarded);
        assert_eq!(requests.len() - before, if is_forwarded { 3 } else { 0 }, "{path}");
        for (request, version) in requests.iter().zip(["3", "2", "1.1"]) {
            let is_told = request.contains("authorization");
            assert_eq!(is_told, path.contains("open"), "{request}");
            let is_early = request.contains("early-data: 1\r\n");
            assert_eq!(is_early, path.contains("early"), "{request}");
            assert!(request.contains(&format!("via: {version} edge-server-")), "{request}");
            assert!(request.contains("host: localhost\r\n"), "{request}");
            assert!(request.contains("x-forwarded-for: 127.0.0.1\r\n"), "{request}");
        }
    }
    assert!(server.stop().success());
}

#[test]
fn request_that_comes_back_is_508() {
    let origin = ScriptedOrigin::start(|_| vec![send("HTTP/1.1 204 No Content\r\n\r\n")]);
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, _) = serve(dir.path(), origin.address, "");
    over_all(address, "GET", "/app/", &[]);
    let heads = origin.requests("/app/");
    let via = heads[0].lines().find_map(|line| line.strip_prefix("via: ")).unwrap();
    for got in over_all(address, "GET", "/app/", &[("via", &format!("1.0 a, {via}"))]) {
        assert_eq!(got.unwrap().0, 508);
    }
    for got in over_all(address, "GET", "/app/", &[("via", "1.0 edge-server-0")]) {
        assert_eq!(got.unwrap().0, 204, "another server of the kind");
    }
    assert!(server.stop().success());
}

/// Starts an origin with the certificate of a name in a folder.
fn start_tls(dir: &Path, name: &str) -> SocketAddr {
    certify(dir, name);
    let mut tls = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).unwrap();
    tls.set_private_key_file(dir.join(format!("{name}.key")), SslFiletype::PEM).unwrap();
    tls.set_certificate_chain_file(dir.join(format!("{name}.pem"))).unwrap();
    let tls = tls.build();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A client that does not know the certificate ends the handshake.
            let Ok(mut stream) = tls.accept(stream) else { continue };
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecret");
            let _ = stream.shutdown();
        }
    });
    address
}

#[test]
fn certificate_of_an_origin_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let [right, wrong_name] =
        ["localhost", "other.example"].map(|name| start_tls(dir.path(), name));
    let origin = |path: &str, address: SocketAddr, ca: &str| {
        let port = address.port();
        format!("[[host.origin]]\npath = '/{path}'\nurl = 'https://localhost:{port}'\n{ca}\n")
    };
    let origins = [
        origin("right", right, "ca = 'DIR/localhost.pem'"),
        origin("unknown", right, ""),
        origin("other-authority", right, "ca = 'DIR/other.example.pem'"),
        origin("other-name", wrong_name, "ca = 'DIR/other.example.pem'"),
    ]
    .concat();
    let (mut server, address, _) = serve(dir.path(), right, &origins);
    for (path, status) in
        [("/right", 200), ("/unknown", 502), ("/other-authority", 502), ("/other-name", 502)]
    {
        for got in over_all(address, "GET", path, &[]) {
            let (got_status, _, body) = got.unwrap();
            assert_eq!(got_status, status, "{path}");
            assert_eq!(body == b"secret", status == 200, "{path}");
        }
    }
    for got in over_all(address, "GET", "/app/", &[]) {
        assert_eq!(got.unwrap().0, 502, "TLS where there should be none");
    }
    assert!(server.stop().success());
}

/// Bytes that the kernel may keep of one connection between server and origin, and the server.
const BUFFERED_BYTES_MAX: u64 = 16 << 20;

#[test]
fn client_that_does_not_read_stops_its_origin_alone() {
    let flood = "HTTP/1.1 200 OK\r\n\r\n";
    let origin = ScriptedOrigin::start(move |target| match target {
        "/app/flood" => vec![send(flood), Act::Flood],
        "/app/wait" => vec![Act::Wait],
        _ => vec![send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")],
    });
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, _) = serve(dir.path(), origin.address, "");
    let before = server.memory_kib("VmRSS");

    let window_bytes = 100_000;
    let limits = ClientLimits { window_bytes, ..ClientLimits::default() };
    let mut over_udp = UdpClient::connect_with(address, limits);
    let mut floods: u64 = 1;
    let first = over_udp.request("GET", "/app/flood");
    for _ in 0..10 {
        over_udp.request("GET", "/app/flood");
        floods += 1;
    }
    over_udp.request("GET", "/app/wait");
    let mut over_tcp = tcp_client::open(address, b"\x08http/1.1");
    over_tcp.write_all(b"GET /app/flood HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    floods += 1;

    over_udp.receive(first, 1);
    over_udp.fall_silent();
    let mut flooded = 0;
    wait_until("the origin stops", || {
        thread::sleep(10 * NAP);
        let last = std::mem::replace(&mut flooded, origin.flooded_bytes());
        origin.requests("/app/flood").len() as u64 == floods && flooded == last
    });
    assert!(flooded < floods * BUFFERED_BYTES_MAX, "{flooded}");
    let grown = server.memory_kib("VmRSS").saturating_sub(before);
    assert!(grown < 16 << 10, "{grown} KiB");
    for got in over_all(address, "GET", "/app/good", &[]) {
        check("good", &got, ExpectedResponse::Whole(200, "hello", Some("5")));
    }

    // Their requests end with the clients.
    over_udp.close();
    drop(over_tcp);
    wait_until("all requests end", || origin.ended() == floods + 1);
    assert!(server.stop().success());
}

#[test]
fn cancelled_request_ends_at_the_origin() {
    let origin = ScriptedOrigin::start(|target| match target {
        "/app/silent" => vec![Act::Wait],
        "/app/part" => vec![send("HTTP/1.1 200 OK\r\n\r\nx"), Act::Wait],
        _ => vec![send("HTTP/1.1 200 OK\r\n\r\n"), Act::Flood],
    });
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, metrics_at) = serve(dir.path(), origin.address, "");
    let mut client = UdpClient::connect(address);
    for (ended, (path, bytes_min)) in
        (1..).zip([("/app/silent", 0), ("/app/part", 1), ("/app/flood", 100_000)])
    {
        let stream = client.request("GET", path);
        client.receive(stream, bytes_min);
        client.settle();
        wait_until("the origin has the request", || origin.requests(path).len() == 1);
        client.cancel(stream);
        wait_until("it ends", || origin.ended() == ended);
    }
    let cancelled = "edge_server_origin_requests_total{outcome=\"cancelled\"}";
    metrics::wait_until(metrics_at, cancelled, |count| count == 3);
    client.close();
    assert!(server.stop().success());
}

#[test]
fn origin_has_no_more_requests_than_it_may() {
    let origin = ScriptedOrigin::start(|target| match target {
        "/few/wait" => vec![Act::Wait],
        _ => vec![send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")],
    });
    let dir = tempfile::tempdir().unwrap();
    let few = format!(
        "[[host.origin]]\npath = '/few/**'\nurl = 'http://{}'\nrequests-max = 2\n",
        origin.address
    );
    let (mut server, address, _) = serve(dir.path(), origin.address, &few);
    let mut client = UdpClient::connect(address);
    let stream = client.request("GET", "/few/wait");
    client.settle();
    wait_until("the origin has the request", || origin.requests("/few/wait").len() == 1);
    for got in over_all(address, "GET", "/few/", &[]) {
        let (status, fields, _) = got.unwrap();
        assert_eq!((status, value(&fields, "retry-after")), (503, Some("1")));
    }
    for got in over_all(address, "GET", "/app/", &[]) {
        check("another origin", &got, ExpectedResponse::Whole(200, "hello", Some("5")));
    }
    client.cancel(stream);
    wait_until("there is a vacancy", || {
        over_all(address, "GET", "/few/", &[]).iter().flatten().all(|got| got.0 == 200)
    });
    client.close();
    assert!(server.stop().success());
}

#[test]
fn requests_that_wait_for_an_origin_delay_nobody_else() {
    const REQUESTS: usize = 500;
    let good =
        ScriptedOrigin::start(|_| vec![send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello")]);
    let stalled = StalledOrigin::start();
    let dir = tempfile::tempdir().unwrap();
    let more = format!(
        "[[host.origin]]\npath = '/stalled/**'\nurl = 'http://{}'\nrequests-max = 1000\n\
         header-timeout = 3600\n",
        stalled.address
    );
    let (mut server, address, metrics_at) = serve(dir.path(), good.address, &more);
    let file: Vec<u8> = (0..5_000_000u32).map(|at| (at % 251) as u8).collect();
    fs::write(dir.path().join("www/file.bin"), &file).unwrap();
    let before = server.memory_kib("VmRSS");
    let waiting = WaitingRequests::send(address, "/stalled/", REQUESTS);
    wait_until("all wait", || stalled.requests() == REQUESTS);
    for got in over_all(address, "GET", "/file.bin", &[]) {
        assert!(got.unwrap().2 == file, "other bytes");
    }
    for got in over_all(address, "GET", "/app/", &[]) {
        check("good", &got, ExpectedResponse::Whole(200, "hello", Some("5")));
    }
    // As many as its subnet may have.
    for got in over_all(address, "GET", "/stalled/", &[]) {
        assert_eq!(got.unwrap().0, 503);
    }
    let grown = server.memory_kib("VmRSS").saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB");
    drop(waiting);
    let cancelled = "edge_server_origin_requests_total{outcome=\"cancelled\"}";
    metrics::wait_until(metrics_at, cancelled, |count| count == REQUESTS as u64);
    assert!(server.stop().success());
}

/// 50 Mbit/s and 40 ms hold 250 kB.
const PATH: &str = "--rate 50 --rtt 40 --buffer 250000";
const DOWNLOAD_BYTES: usize = 6_000_000;

#[test]
fn second_download_from_an_origin_jumps() {
    let origin = ScriptedOrigin::start(|target| {
        let body = vec![b'x'; DOWNLOAD_BYTES];
        match target {
            "/app/length" => {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {DOWNLOAD_BYTES}\r\n\r\n");
                vec![send(&head), Act::Send(body)]
            }
            _ => vec![send("HTTP/1.1 200 OK\r\n\r\n"), Act::Send(body), Act::Close],
        }
    });
    for path in ["/app/length", "/app/none"] {
        let folder = StoreFolder::new();
        let dir = tempfile::tempdir().unwrap();
        write_config(dir.path(), origin.address, "");
        let config = dir.path().join("edge.toml");
        let download = |run: &str| {
            let (mut server, address) = folder.serve(run, &["--config", config.to_str().unwrap()]);
            let mut emulator = emulate(address, PATH);
            let url = format!("https://{}{path}", emulator.address());
            let mut client = Command::new(sibling("edge-client"));
            let (status, said) = Running::start(client.args([&url, "--insecure"])).end();
            assert!(status.success(), "{said:?}");
            assert!(server.stop().success() && emulator.stop().success());
            let phases = folder.phases(run);
            phases.into_iter().take(2).map(|change| change.what).collect::<Vec<_>>()
        };
        assert_eq!(download("first"), ["normal: no_saved_set"], "{path}");
        // On a busy machine the reply of the store may come too late for a jump.
        let jump = ["reconnaissance", "unvalidated: congestion_window_limited"];
        assert!((0..10).any(|run| download(&format!("later-{run}")) == jump), "{path}");
    }
}

#[test]
fn reload_changes_the_origin() {
    let serve_text = |text: &'static str| {
        ScriptedOrigin::start(move |_| {
            vec![send(&format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{text}", text.len()))]
        })
    };
    let (old, new) = (serve_text("old"), serve_text("new one"));
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, _) = serve(dir.path(), old.address, "");
    let body = |got: &OriginReply| String::from_utf8(got.clone().unwrap().2).unwrap();
    assert_eq!(over_all(address, "GET", "/app/", &[]).each_ref().map(body), ["old"; 3]);
    write_config(dir.path(), new.address, "");
    server.ask_to_reload();
    wait_until("the new origin", || {
        over_all(address, "GET", "/app/", &[]).each_ref().map(body) == ["new one"; 3]
    });
    assert!(server.stop().success());
}
