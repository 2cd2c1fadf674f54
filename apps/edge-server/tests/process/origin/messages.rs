//! Messages around the response of an origin: interim responses, trailers, and requests for other
//! protocols.

use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use hyper::HeaderMap;

use super::framed::FrameAct;
use super::framed::FramedOrigin;
use super::over_all;
use super::scripted::Act;
use super::scripted::ScriptedOrigin;
use super::send;
use super::serve;
use crate::support::client::UdpClient;
use crate::support::metrics;
use crate::support::tcp_client;
use crate::support::tcp_client::TcpClient;
use crate::support::tcp_client::Version;

/// H3_MESSAGE_ERROR (RFC 9114, 8.1).
const H3_MESSAGE_ERROR: u64 = 0x10e;

const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

#[test]
fn interim_responses_of_an_origin_are_passed_on_over_http3_and_http11() {
    let origin = ScriptedOrigin::start(|target| match target {
        "/app/none" => vec![send("HTTP/1.1 100 Continue\r\n\r\n"), send(HELLO)],
        "/app/one" | "/kept/one" => vec![Act::Inform(1), send(HELLO)],
        "/app/two" => {
            vec![Act::Inform(1), send("HTTP/1.1 102 Processing\r\n\r\n"), send(HELLO)]
        }
        _ => vec![Act::Inform(3000), send(HELLO)],
    });
    let hints = "[[host.early-hints]]\npath = '/app/one'\nlinks = ['</b>; rel=preload; as=style']";
    let kept = format!(
        "{hints}\n[[host.origin]]\npath = '/kept/**'\nurl = 'http://{}'\ncache = {{ ttl = {{ 200 = 60 }} }}",
        origin.address
    );
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, _) = serve(dir.path(), origin.address, &kept);
    let navigation = ("sec-fetch-mode", "navigate");
    for (path, fields, expected) in [
        ("/app/none", &[][..], &["200"][..]),
        ("/app/one", &[], &["103", "200"]),
        ("/app/one", &[navigation], &["103", "103", "200"]),
        ("/app/two", &[], &["103", "102", "200"]),
    ] {
        let mut client = UdpClient::connect(address);
        let stream = client.request_with(&[&get(path), fields].concat());
        let response = client.response(stream);
        assert_eq!(response.statuses, expected, "{path}");
        assert_eq!(response.body, b"hello", "{path}");
        assert_eq!(response.headers.contains_key("link"), expected.contains(&"103"), "{path}");
        client.close();
    }
    let mut client = UdpClient::connect(address);
    let response = client.get("/app/storm");
    assert_eq!((response.status(), response.body.as_slice()), ("200", &b"hello"[..]));
    assert!((2..=9).contains(&response.statuses.len()), "{:?}", response.statuses);
    client.close();
    for got in over_all(address, "GET", "/app/one", &[]) {
        assert_eq!(got.unwrap().2, b"hello");
    }
    let get = |path, more| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{more}\r\n");
    let last = "connection: close\r\n";
    let upload = "POST /app/two HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\nexpect: 100-continue\r\n\
                  connection: close\r\n\r\nx";
    for (requests, expected) in [
        (get("/app/none", last), &["200"][..]),
        (get("/app/one", last), &["103", "200"]),
        (get("/app/two", "") + &get("/app/one", last), &["103", "102", "200", "103", "200"]),
        (get("/kept/one", "") + &get("/kept/one", last), &["103", "200", "200"]),
        (get("/app/one", "").replace("HTTP/1.1", "HTTP/1.0"), &["200"]),
    ] {
        assert_eq!(statuses_over_http1(address, &requests), expected, "{requests}");
    }
    // The server's own comes when it wants the content, perhaps after the origin's.
    let mut statuses = statuses_over_http1(address, upload);
    let own = statuses.iter().position(|status| status == "100");
    statuses.remove(own.unwrap());
    assert_eq!(statuses, ["103", "102", "200"]);
    let statuses = statuses_over_http1(address, &get("/app/storm", last));
    assert!((2..=9).contains(&statuses.len()), "{statuses:?}");
    assert!(server.stop().success());
}

/// Returns the statuses of all responses on a connection with these requests, of which the last one ends it.
fn statuses_over_http1(server: SocketAddr, requests: &str) -> Vec<String> {
    let mut stream = tcp_client::open(server, b"\x08http/1.1");
    stream.write_all(requests.as_bytes()).unwrap();
    let mut received = String::new();
    stream.read_to_string(&mut received).unwrap();
    let bodies = received.matches("\r\n\r\nhello").count();
    // A status line follows the body before it at once.
    let statuses = received.split("HTTP/1.").skip(1);
    let statuses: Vec<_> = statuses.map(|response| response[2..5].to_owned()).collect();
    let finals = statuses.iter().filter(|status| *status == "200").count();
    assert_eq!(bodies, finals, "{received}");
    statuses
}

fn get(path: &str) -> [(&str, &str); 4] {
    [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", path)]
}

/// Returns the trailers of a response with this body over HTTP/3, HTTP/2 and HTTP/1.1.
fn trailers(server: SocketAddr, path: &str, expected: &[u8]) -> [Option<String>; 3] {
    let over_tcp = |version| {
        let mut client = TcpClient::connect(server, "localhost", version);
        let response = client.get("localhost", path, &[("te", "trailers")]);
        assert_eq!(response.body(), expected, "{path}");
        let trailers = response.extensions().get::<HeaderMap>().unwrap();
        trailers.get("x-trailer").map(|value| value.to_str().unwrap().to_owned())
    };
    let mut client = UdpClient::connect(server);
    let response = client.get(path);
    assert_eq!((response.body.as_slice(), response.reset), (expected, None), "{path}");
    client.close();
    let over_http3 = response.trailers.get("x-trailer").cloned();
    [over_http3, over_tcp(Version::Http2), over_tcp(Version::Http11)]
}

#[test]
fn trailers_of_an_origin_follow_over_http3_and_http2() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let end = "0\r\nx-trailer: 1\r\ncontent-length: 9\r\n\r\n";
    let origin = ScriptedOrigin::start(move |target| match target {
        "/app/empty" => vec![send(&format!("{chunked}{end}"))],
        "/app/large" => {
            let chunk = format!("30d40\r\n{}\r\n", "x".repeat(200_000));
            vec![send(chunked), send(&chunk), send(end)]
        }
        "/app/long" => {
            vec![send(&format!("{chunked}0\r\nx-trailer: {}\r\n\r\n", "x".repeat(5000)))]
        }
        _ => vec![send(chunked), send("5\r\nhello\r\n"), send(end)],
    });
    let framed = FramedOrigin::start(|_| {
        vec![FrameAct::Head(200, vec![]), FrameAct::Data("hello"), FrameAct::Trailers]
    });
    let http2 = format!(
        "[[host.origin]]\npath = '/h2/**'\nurl = 'http://{}'\nhttp-version = '2'\n",
        framed.address
    );
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, _) = serve(dir.path(), origin.address, &http2);
    let large = vec![b'x'; 200_000];
    let (passed_on, left_out) =
        ([Some("1".to_owned()), Some("1".to_owned()), None], [None, None, None]);
    for (path, body, expected) in [
        ("/app/small", &b"hello"[..], &passed_on),
        ("/app/empty", b"", &passed_on),
        ("/app/large", &large, &passed_on),
        ("/app/long", b"", &left_out),
        ("/h2/small", b"hello", &passed_on),
    ] {
        assert_eq!(&trailers(address, path, body), expected, "{path}");
    }
    assert!(server.stop().success());
}

#[test]
fn websocket_is_refused_over_http11() {
    let origin = ScriptedOrigin::start(|_| vec![send(HELLO)]);
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, metrics_at) = serve(dir.path(), origin.address, "");
    for (path, upgrade, status) in [
        ("/app/", "websocket", "501"),
        ("/app/", "other, WebSocket", "501"),
        ("/app/", "other", "200"),
        ("/", "websocket", "200"),
    ] {
        let mut stream = tcp_client::open(address, b"\x08http/1.1");
        stream.get_ref().set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: {upgrade}\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut start = [0; 12];
        stream.read_exact(&mut start).unwrap();
        let expected = format!("HTTP/1.1 {status}");
        assert_eq!(String::from_utf8_lossy(&start), expected, "{path} {upgrade}");
    }
    assert_eq!(origin.requests("/app/").len(), 1);
    let name = "edge_server_origin_requests_total{outcome=\"upgrade\"}";
    assert_eq!(metrics::read(metrics_at, name), 2);
    assert!(server.stop().success());
}

#[test]
fn extended_connect_is_malformed_over_http3() {
    let origin = ScriptedOrigin::start(|_| vec![send(HELLO)]);
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, _) = serve(dir.path(), origin.address, "");
    let mut client = UdpClient::connect(address);
    let mut request = get("/app/").to_vec();
    request[0] = (":method", "CONNECT");
    request.insert(1, (":protocol", "websocket"));
    let stream = client.request_with(&request);
    // The server has not offered it (RFC 9220, 3).
    assert_eq!(client.response(stream).reset, Some(H3_MESSAGE_ERROR));
    assert_eq!(client.get("/app/").body, b"hello");
    client.close();
    assert_eq!(origin.requests("/app/").len(), 1);
    assert!(server.stop().success());
}
