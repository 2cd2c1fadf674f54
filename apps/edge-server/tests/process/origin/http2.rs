//! Origins of HTTP/2: good ones, and ones that break its rules.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;

use boring::ssl::AlpnError;
use boring::ssl::SslAcceptor;
use boring::ssl::SslFiletype;
use boring::ssl::SslMethod;
use http_body_util::BodyExt;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::Request;
use hyper::Response;
use hyper_util::rt::TokioExecutor;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::net::TcpListener;
use tokio::runtime;

use super::check;
use super::framed::FrameAct;
use super::framed::FramedOrigin;
use super::framed::CANCEL;
use super::framed::INTERNAL_ERROR;
use super::framed::NO_ERROR;
use super::framed::NO_STREAMS;
use super::framed::REFUSED_STREAM;
use super::over_all;
use super::serve;
use super::upload_over_all;
use super::value;
use super::wait_until;
use super::ExpectedResponse;
use crate::support::certify::certify;
use crate::support::client::ClientLimits;
use crate::support::client::UdpClient;

/// A response that is larger than the windows of a connection.
const LARGE_BYTES: usize = 20 << 20;

/// An origin of both versions that responds with the content of the request, or as the path says.
#[derive(Clone)]
struct EchoOrigin {
    address: SocketAddr,
    state: Arc<EchoState>,
}

#[derive(Default)]
struct EchoState {
    connections: AtomicUsize,

    /// Version, authority and `host` of each request.
    requests: Mutex<Vec<String>>,
}

impl EchoOrigin {
    /// Starts an origin without TLS.
    fn start() -> Self {
        Self::start_with(None)
    }

    /// Starts an origin with the certificate of `localhost`, which a folder has, and these protocols.
    fn start_tls(dir: &Path, protocols: &'static [u8]) -> Self {
        certify(dir, "localhost");
        let mut tls = SslAcceptor::mozilla_intermediate_v5(SslMethod::tls()).unwrap();
        tls.set_private_key_file(dir.join("localhost.key"), SslFiletype::PEM).unwrap();
        tls.set_certificate_chain_file(dir.join("localhost.pem")).unwrap();
        tls.set_alpn_select_callback(move |_, offered| {
            boring::ssl::select_next_proto(protocols, offered).ok_or(AlpnError::NOACK)
        });
        Self::start_with(Some(tls.build()))
    }

    fn start_with(tls: Option<SslAcceptor>) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let origin = Self { address: listener.local_addr().unwrap(), state: Arc::default() };
        let state = Arc::clone(&origin.state);
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        thread::spawn(move || {
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    state.connections.fetch_add(1, Ordering::Relaxed);
                    let (state, tls) = (Arc::clone(&state), tls.clone());
                    tokio::spawn(async move {
                        let Some(tls) = tls else { return serve_echo(stream, true, state).await };
                        let Ok(stream) = tokio_boring::accept(&tls, stream).await else { return };
                        let is_http2 = stream.ssl().selected_alpn_protocol() == Some(b"h2");
                        serve_echo(stream, is_http2, state).await;
                    });
                }
            });
        });
        origin
    }

    fn connections(&self) -> usize {
        self.state.connections.load(Ordering::Relaxed)
    }

    fn requests(&self) -> Vec<String> {
        self.state.requests.lock().unwrap().clone()
    }
}

async fn serve_echo<S>(stream: S, is_http2: bool, state: Arc<EchoState>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| respond(request, Arc::clone(&state)));
    let stream = TokioIo::new(stream);
    let _ = match is_http2 {
        true => http2::Builder::new(TokioExecutor::new()).serve_connection(stream, service).await,
        false => http1::Builder::new().serve_connection(stream, service).await,
    };
}

async fn respond(
    request: Request<Incoming>,
    state: Arc<EchoState>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let host = request.headers().get("host").map_or("-", |host| host.to_str().unwrap());
    let authority = request.uri().authority().map_or("-", |authority| authority.as_str());
    let line = format!("{:?} {authority} {host}", request.version());
    state.requests.lock().unwrap().push(line);
    let body = match request.uri().path() {
        "/h2/large" => Bytes::from(vec![b'x'; LARGE_BYTES]),
        _ => {
            request.into_body().collect().await.map_or_else(|_| Bytes::new(), |all| all.to_bytes())
        }
    };
    Ok(Response::new(Full::new(body)))
}

/// Returns the rule of an origin for paths below `/h2/`.
fn rule(url: &str, more: &str) -> String {
    format!("[[host.origin]]\npath = '/h2/**'\nurl = '{url}'\n{more}\nheader-timeout = 3\nbody-timeout = 2\n")
}

fn prior_knowledge(address: SocketAddr) -> String {
    rule(&format!("http://{address}"), "http-version = '2'")
}

#[test]
fn content_goes_both_ways_on_one_connection() {
    let origin = EchoOrigin::start();
    let dir = tempfile::tempdir().unwrap();
    let rules = prior_knowledge(origin.address) + "content-bytes-max = 3000000\n";
    let (mut server, address, _) = serve(dir.path(), origin.address, &rules);
    let large: Vec<u8> = (0..3_000_000u32).map(|i| (i % 251) as u8).collect();
    for (method, content) in
        [("GET", &b""[..]), ("POST", b"hello"), ("PUT", &large), ("DELETE", b""), ("POST", &large)]
    {
        for got in upload_over_all(address, method, "/h2/", &[], content) {
            assert!(got == Some((200, content.to_vec())), "{method} {} bytes", content.len());
        }
    }
    for (bytes, status) in [(2_999_999, 200), (3_000_000, 200), (3_000_001, 413)] {
        let content = vec![b'x'; bytes];
        for got in upload_over_all(address, "POST", "/h2/", &[], &content).into_iter().flatten() {
            assert_eq!(got.0, status, "{bytes}");
        }
    }
    for got in over_all(address, "GET", "/h2/large", &[]) {
        let (status, fields, body) = got.unwrap();
        assert_eq!((status, body.len()), (200, LARGE_BYTES));
        assert!(value(&fields, "via").unwrap().starts_with("2 edge-server-"), "{fields:?}");
    }
    assert_eq!(origin.connections(), 1);
    assert!(origin.requests().iter().all(|line| line == "HTTP/2.0 localhost -"));
    assert!(server.stop().success());
}

#[test]
fn version_is_the_one_that_both_have() {
    let dir = tempfile::tempdir().unwrap();
    for (number, (protocols, version, expected)) in [
        (&b"\x02h2\x08http/1.1"[..], "auto", Some("HTTP/2.0 localhost -")),
        (b"\x08http/1.1", "auto", Some("HTTP/1.1 - localhost")),
        (b"\x02h2\x08http/1.1", "1.1", Some("HTTP/1.1 - localhost")),
        (b"\x02h2", "2", Some("HTTP/2.0 localhost -")),
        (b"\x08http/1.1", "2", None),
    ]
    .into_iter()
    .enumerate()
    {
        let dir = dir.path().join(number.to_string());
        std::fs::create_dir(&dir).unwrap();
        let origin = EchoOrigin::start_tls(&dir, protocols);
        let url = format!("https://localhost:{}", origin.address.port());
        let more = format!("ca = 'DIR/localhost.pem'\nhttp-version = '{version}'");
        let (mut server, address, _) = serve(&dir, origin.address, &rule(&url, &more));
        let status = if expected.is_some() { 200 } else { 502 };
        for got in over_all(address, "GET", "/h2/", &[]) {
            assert_eq!(got.unwrap().0, status, "{version} {expected:?}");
        }
        let requests = origin.requests();
        assert_eq!(requests.len(), if expected.is_some() { 3 } else { 0 });
        assert!(requests.iter().all(|line| Some(line.as_str()) == expected), "{requests:?}");
        assert!(server.stop().success());
    }
}

/// Behaviours, and what is to become of a GET.
fn behaviours() -> Vec<(&'static str, Vec<FrameAct>, ExpectedResponse)> {
    use ExpectedResponse::*;
    use FrameAct::*;
    let head = |length: &'static str| Head(200, vec![("content-length", length)]);
    let whole = Whole(200, "hello", Some("5"));
    let unknown = Whole(200, "hello", None);
    vec![
        ("plain", vec![head("5"), Data("hello"), End], whole),
        ("parts", vec![head("5"), Data("hel"), Data("lo"), End], whole),
        ("no-length", vec![Head(200, vec![]), Data("hello"), End], unknown),
        ("trailers", vec![Head(200, vec![]), Data("hello"), Trailers], unknown),
        ("informed", vec![Head(103, vec![("link", "</a>")]), head("5"), Data("hello"), End], whole),
        ("empty", vec![Head(204, vec![]), End], Whole(204, "", None)),
        ("short", vec![head("6"), Data("hello"), End], Broken),
        ("reset", vec![head("9"), Data("hello"), Reset(INTERNAL_ERROR)], Broken),
        ("reset-cleanly", vec![head("9"), Data("hello"), Reset(NO_ERROR)], Broken),
        ("reset-unknown", vec![Head(200, vec![]), Data("hello"), Reset(NO_ERROR)], Broken),
        ("cancelled-unknown", vec![Head(200, vec![]), Data("hello"), Reset(CANCEL)], Broken),
        ("closed", vec![head("9"), Data("hello"), Close], Broken),
        ("closed-unknown", vec![Head(200, vec![]), Data("hello"), Close], Broken),
        ("stall", vec![head("9"), Data("hello")], Broken),
        ("reset-first", vec![Reset(INTERNAL_ERROR)], Error(502)),
        ("refused", vec![Reset(REFUSED_STREAM)], Error(502)),
        ("left-out", vec![GoAway, Close], Error(502)),
        ("closed-first", vec![Close], Error(502)),
        ("garbage", vec![Garbage, Close], Error(502)),
        ("continued", vec![Continue], Error(502)),
        ("no-status", vec![Trailers], Error(502)),
        ("silent", vec![], Error(504)),
    ]
}

#[test]
fn every_behaviour_over_http2_has_its_exact_result() {
    for (name, acts, expected) in behaviours() {
        let origin = FramedOrigin::start(move |_| acts.clone());
        let dir = tempfile::tempdir().unwrap();
        let rules = format!("error = {{ 502 = '/502.html' }}\n{}", prior_knowledge(origin.address));
        let (mut server, address, _) = serve(dir.path(), origin.address, &rules);
        for got in over_all(address, "GET", "/h2/", &[]) {
            check(name, &got, expected);
        }
        assert!(server.stop().success());
    }
}

#[test]
fn request_that_http2_leaves_out_is_sent_again() {
    use FrameAct::*;
    let good = vec![Head(200, vec![("content-length", "5")]), Data("hello"), End];
    for (name, bad, method, is_sent_again) in [
        ("refused", vec![Reset(REFUSED_STREAM)], "GET", true),
        ("refused", vec![Reset(REFUSED_STREAM)], "POST", true),
        ("left out", vec![GoAway, Close], "POST", true),
        ("closed", vec![Close], "GET", true),
        ("closed", vec![Close], "POST", false),
        ("reset", vec![Reset(INTERNAL_ERROR)], "GET", false),
    ] {
        let acts = good.clone();
        let origin = FramedOrigin::start(move |number| match number {
            0 => bad.clone(),
            _ => acts.clone(),
        });
        let dir = tempfile::tempdir().unwrap();
        let (mut server, address, _) =
            serve(dir.path(), origin.address, &prior_knowledge(origin.address));
        let got = upload_over_all(address, method, "/h2/", &[], b"");
        let statuses = got.map(|got| got.unwrap().0);
        let first = if is_sent_again { 200 } else { 502 };
        assert_eq!(statuses, [first, 200, 200], "{name} {method}");
        assert_eq!(origin.requests(), if is_sent_again { 4 } else { 3 }, "{name} {method}");
        assert!(server.stop().success());
    }
}

#[test]
fn upstream_without_streams_costs_less_than_the_response_may_take() {
    use FrameAct::*;
    let idle = FramedOrigin::start_with(NO_STREAMS, |_| vec![]);
    let good =
        FramedOrigin::start(|_| vec![Head(200, vec![("content-length", "5")]), Data("hello"), End]);
    let dir = tempfile::tempdir().unwrap();
    let urls = format!("['http://{}', 'http://{}']", idle.address, good.address);
    let rules = format!(
        "[[host.origin]]\npath = '/h2/**'\nurl = {urls}\nhttp-version = 2\nconnect-timeout = 1\n\
         header-timeout = 4\n"
    );
    let (mut server, address, _) = serve(dir.path(), idle.address, &rules);
    for got in (0..2).flat_map(|_| over_all(address, "GET", "/h2/", &[])) {
        check("good", &got, ExpectedResponse::Whole(200, "hello", Some("5")));
    }
    assert!(idle.connections() > 0);
    assert!(server.stop().success());
}

// By the time that an upstream has told how many streams it allows, others have come.
#[test]
fn upstream_of_one_stream_is_sent_no_more() {
    let origin = FramedOrigin::start_narrow();
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, _) =
        serve(dir.path(), origin.address, &prior_knowledge(origin.address));
    let clients = [(); 6].map(|()| thread::spawn(move || over_all(address, "GET", "/h2/", &[])));
    for got in clients.into_iter().flat_map(|client| client.join().unwrap()) {
        check("one stream", &got, ExpectedResponse::Whole(200, "hello", None));
    }
    assert!(server.stop().success());
}

#[test]
fn connection_that_is_silent_is_replaced() {
    use FrameAct::*;
    let origin = FramedOrigin::start(|number| match number {
        0 => vec![Freeze],
        _ => vec![Head(200, vec![("content-length", "5")]), Data("hello"), End],
    });
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, _) =
        serve(dir.path(), origin.address, &prior_knowledge(origin.address));
    wait_until("it is replaced", || {
        over_all(address, "GET", "/h2/", &[]).iter().flatten().any(|got| got.0 == 200)
    });
    assert_eq!(origin.connections(), 2);
    for got in over_all(address, "GET", "/h2/", &[]) {
        check("good", &got, ExpectedResponse::Whole(200, "hello", Some("5")));
    }
    assert!(server.stop().success());
}

#[test]
fn clients_that_do_not_read_leave_the_connection_to_others() {
    let origin = EchoOrigin::start();
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address, _) =
        serve(dir.path(), origin.address, &prior_knowledge(origin.address));
    let before = server.memory_kib("VmRSS");
    let limits = ClientLimits { window_bytes: 100_000, ..ClientLimits::default() };
    let mut idle: Vec<_> = (0..3)
        .map(|_| {
            let mut client = UdpClient::connect_with(address, limits);
            let first = client.request("GET", "/h2/large");
            for _ in 0..19 {
                client.request("GET", "/h2/large");
            }
            client.receive(first, 1);
            client.fall_silent();
            client
        })
        .collect();
    wait_until("all are there", || origin.requests().len() == 60);
    for got in over_all(address, "GET", "/h2/large", &[]) {
        assert_eq!(got.unwrap().2.len(), LARGE_BYTES);
    }
    assert_eq!(origin.connections(), 1);
    let grown = server.memory_kib("VmRSS").saturating_sub(before);
    assert!(grown < 60 << 10, "{grown} KiB");
    idle.iter_mut().for_each(UdpClient::close);
    assert!(server.stop().success());
}
