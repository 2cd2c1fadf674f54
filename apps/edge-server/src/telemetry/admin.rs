//! Admin listener: metrics, health and readiness over HTTP.
//!
//! A thread of its own makes and sends the pages, for one reader at a time.

use std::io;
use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use log::debug;
use log::warn;
use rustix::net;
use rustix::net::sockopt;
use rustix::net::AddressFamily;
use rustix::net::Shutdown;
use rustix::net::SocketFlags;
use rustix::net::SocketType;

use crate::telemetry::health::Health;
use crate::telemetry::health::HealthState;
use crate::telemetry::metrics::Metrics;

/// How long a reader may take to ask, and to take the page.
const READER_PATIENCE: Duration = Duration::from_secs(2);

/// Readers that wait to be answered at most.
const READERS_WAITING_MAX: i32 = 128;

/// Longest request, in bytes.
const REQUEST_BYTES_MAX: usize = 8 << 10;

const PLAIN_TEXT: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const OK: &str = "200 OK";
const UNAVAILABLE: &str = "503 Service Unavailable";

/// Where the pages come from.
#[derive(Clone)]
pub struct AdminServer {
    pub metrics: Metrics,
    pub health: Health,
}

/// The listener of status pages.
pub struct AdminListener {
    /// With the port that was taken.
    pub address: SocketAddr,
    listener: Arc<TcpListener>,
    closed: Arc<AtomicBool>,
}

impl AdminListener {
    /// Leaves the address to others.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        if let Err(e) = rustix::net::shutdown(&self.listener, Shutdown::Both) {
            debug!("admin listener: {e}");
        }
    }
}

/// Status, content type and body.
type Page = (&'static str, &'static str, String);

impl AdminServer {
    /// Serves them at an address, of which another process may have its `share`.
    ///
    /// # Errors
    ///
    /// One line that names the address.
    pub fn serve(self, at: SocketAddr, share: bool) -> anyhow::Result<AdminListener> {
        let start = || {
            let listener = if share { listen_shared(at)? } else { TcpListener::bind(at)? };
            let address = listener.local_addr()?;
            let (listener, closed) = (Arc::new(listener), Arc::new(AtomicBool::new(false)));
            let server = AdminListener { address, listener, closed };
            let (listener, closed) = (Arc::clone(&server.listener), Arc::clone(&server.closed));
            let run = move || self.answer_until(&closed, &listener);
            std::thread::Builder::new().name("status-pages".into()).spawn(run)?;
            Ok(server)
        };
        start().map_err(|e: io::Error| {
            anyhow::anyhow!("cannot serve --metrics at {at}: {e}; choose another address")
        })
    }

    fn answer_until(&self, closed: &AtomicBool, listener: &TcpListener) {
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => {
                    if let Err(e) = self.answer(stream) {
                        debug!("admin listener: {e}");
                    }
                }
                Err(_) if closed.load(Ordering::Relaxed) => return,
                Err(e) => {
                    warn!("admin listener: {e}");
                    std::thread::sleep(READER_PATIENCE);
                }
            }
        }
    }

    fn answer(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(READER_PATIENCE))?;
        stream.set_write_timeout(Some(READER_PATIENCE))?;
        let request = read_request(&mut stream)?;
        let (status, content_type, body) = match path_of(&request) {
            Some("/metrics" | "/") => (OK, OPEN_METRICS, self.metrics.page()),
            Some("/healthz") => self.health(),
            Some("/readyz") => self.readiness(),
            Some(_) => {
                let others = "there are /metrics, /healthz and /readyz\n";
                ("404 Not Found", PLAIN_TEXT, others.to_owned())
            }
            None => ("405 Method Not Allowed", PLAIN_TEXT, "only GET is understood\n".to_owned()),
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())
    }

    fn health(&self) -> Page {
        match self.health.stuck().as_slice() {
            [] => (OK, PLAIN_TEXT, "ok\n".to_owned()),
            stuck => (UNAVAILABLE, PLAIN_TEXT, format!("workers do not turn: {stuck:?}\n")),
        }
    }

    fn readiness(&self) -> Page {
        let (status, said) = match self.health.readiness() {
            HealthState::Ready => (OK, "ready\n"),
            HealthState::Starting => (UNAVAILABLE, "starting\n"),
            HealthState::Draining => (UNAVAILABLE, "draining\n"),
        };
        (status, PLAIN_TEXT, said.to_owned())
    }
}

/// A listener that shares its address with those of other processes.
fn listen_shared(address: SocketAddr) -> io::Result<TcpListener> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    net::bind(&socket, &address)?;
    net::listen(&socket, READERS_WAITING_MAX)?;
    Ok(socket.into())
}

/// The head of a request, or as much of it as is taken.
fn read_request(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut piece = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST_BYTES_MAX {
        match stream.read(&mut piece)? {
            0 => break,
            count => request.extend_from_slice(&piece[..count]),
        }
    }
    Ok(request)
}

/// What a GET asks for, without a query.
fn path_of(request: &[u8]) -> Option<&str> {
    let line = request.split(|byte| *byte == b'\r').next()?;
    let (method, rest) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    let target = rest.split(' ').next()?;
    (method == "GET").then(|| target.split('?').next().unwrap_or(target))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> AdminServer {
        AdminServer { metrics: Metrics::new(None), health: Health::default() }
    }

    fn ask(at: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn metrics_are_served() {
        let pages = pages();
        pages.metrics.of_worker(0).count_connection();
        let at = pages.serve("127.0.0.1:0".parse().unwrap(), false).unwrap().address;
        let page = ask(at, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        assert!(page.contains("\nedge_server_connections_total{worker=\"0\"} 1\n"), "{page}");
    }

    #[test]
    fn what_is_no_question_about_the_server_is_refused() {
        let at = pages().serve("127.0.0.1:0".parse().unwrap(), false).unwrap().address;
        for (request, status) in [
            ("GET /other HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("\r\n\r\n", "405"),
            ("GET /metrics?x=1 HTTP/1.1\r\n\r\n", "200"),
            ("GET /healthz HTTP/1.1\r\n\r\n", "200"),
            ("GET /readyz HTTP/1.1\r\n\r\n", "503"),
        ] {
            let answer = ask(at, request);
            assert_eq!(answer.split(' ').nth(1), Some(status), "{request}");
        }
        let taken = pages().serve(at, false).map(drop).unwrap_err().to_string();
        assert!(taken.contains(&at.to_string()) && taken.contains("choose another"), "{taken}");
    }
}
