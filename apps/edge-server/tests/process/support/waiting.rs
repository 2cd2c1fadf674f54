//! Requests that wait for an origin which never responds.

use std::net::SocketAddr;
use std::net::TcpListener;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;

use boring::ssl::SslConnector;
use boring::ssl::SslMethod;
use boring::ssl::SslVerifyMode;
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http2;
use hyper::Request;
use hyper_util::rt::TokioExecutor;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime;
use tokio::runtime::Runtime;

/// Requests on one connection.
const STREAMS: usize = 100;

/// An origin that takes connections, and neither reads nor responds.
#[derive(Clone)]
pub struct StalledOrigin {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
}

/// Requests under way. They end when it is dropped.
pub struct WaitingRequests(#[expect(dead_code, reason = "has their tasks")] Runtime);

impl StalledOrigin {
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let origin = Self { address, connections: Arc::default() };
        let connections = Arc::clone(&origin.connections);
        thread::spawn(move || {
            let mut kept = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                kept.push(stream);
                connections.fetch_add(1, Ordering::Relaxed);
            }
        });
        origin
    }

    /// Returns how many requests have come, each on a connection.
    pub fn requests(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

impl WaitingRequests {
    /// Sends so many requests over HTTP/2.
    pub fn send(server: SocketAddr, path: &'static str, count: usize) -> Self {
        let mut builder = runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        for first in (0..count).step_by(STREAMS) {
            let streams = STREAMS.min(count - first);
            runtime.spawn(send_on_connection(server, path, streams));
        }
        Self(runtime)
    }
}

async fn send_on_connection(server: SocketAddr, path: &'static str, streams: usize) {
    let mut connector = SslConnector::builder(SslMethod::tls()).unwrap();
    connector.set_verify(SslVerifyMode::NONE);
    connector.set_alpn_protos(b"\x02h2").unwrap();
    let settings = connector.build().configure().unwrap().verify_hostname(false);
    let stream = TcpStream::connect(server).await.unwrap();
    let stream = tokio_boring::connect(settings, "localhost", stream).await.unwrap();
    let connected = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (sender, connection) = connected.unwrap();
    for _ in 0..streams {
        let mut sender = sender.clone();
        let request = Request::get(format!("https://localhost{path}"));
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        tokio::spawn(async move { sender.send_request(request).await });
    }
    // It ends with the runtime.
    let _ = connection.await;
}
