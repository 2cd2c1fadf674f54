//! Admin listener: metrics, health and readiness over HTTP. Each client has a thread and little
//! time, so that no slow one keeps an orchestrator from the health page.

use std::io;
use std::io::Read;
use std::io::Write;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use log::debug;
use log::warn;
use quiche::clock;
use rustix::net;
use rustix::net::sockopt;
use rustix::net::AddressFamily;
use rustix::net::Shutdown;
use rustix::net::SocketFlags;
use rustix::net::SocketType;

use crate::telemetry::health::Health;
use crate::telemetry::health::HealthState;
use crate::telemetry::metrics::exposition::Format;
use crate::telemetry::metrics::Metrics;

/// Time for a request and its response.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of clients at a time. Further ones are closed.
const CLIENTS_MAX: usize = 32;

/// Pause after an error of accept, such as no free file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(2);

/// Length of the listener's accept queue.
const BACKLOG: i32 = 128;

/// Longest request, in bytes.
const REQUEST_BYTES_MAX: usize = 8 << 10;

const PLAIN_TEXT: &str = "text/plain; charset=utf-8";

const OK: &str = "200 OK";
const UNAVAILABLE: &str = "503 Service Unavailable";

/// Sources of the pages.
#[derive(Clone)]
pub struct AdminServer {
    pub metrics: Metrics,
    pub health: Health,
}

/// Running admin listener.
pub struct AdminListener {
    /// Address with the actual port.
    pub address: SocketAddr,
    server: AdminServer,
    listener: Arc<TcpListener>,
    closed: Arc<AtomicBool>,
}

/// Connection of a client, for the length of an exchange. Reads and writes fail after its end.
struct HurriedStream {
    stream: TcpStream,
    until: Instant,
}

impl HurriedStream {
    fn new(stream: TcpStream) -> Self {
        Self { stream, until: clock::now() + EXCHANGE_TIMEOUT }
    }

    /// Returns the stream, whose next operation ends in time.
    fn in_time(&mut self) -> io::Result<&mut TcpStream> {
        let left = self.until.saturating_duration_since(clock::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.set_write_timeout(Some(left))?;
        Ok(&mut self.stream)
    }
}

impl Read for HurriedStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.in_time()?.read(buffer)
    }
}

impl Write for HurriedStream {
    fn write(&mut self, contents: &[u8]) -> io::Result<usize> {
        self.in_time()?.write(contents)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.in_time()?.flush()
    }
}

impl AdminListener {
    /// Stops listening.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        if let Err(e) = rustix::net::shutdown(&self.listener, Shutdown::Both) {
            debug!("admin listener: {e}");
        }
    }

    /// Serves the pages.
    ///
    /// # Errors
    ///
    /// One line that names the address.
    pub fn serve(&self) -> anyhow::Result<()> {
        let (server, listener) = (self.server.clone(), Arc::clone(&self.listener));
        let closed = Arc::clone(&self.closed);
        let serve = move || server.run(&closed, &listener);
        let listening = net::listen(&self.listener, BACKLOG).map_err(io::Error::from);
        let thread = thread::Builder::new().name("admin".into());
        let started = listening.and_then(|()| thread.spawn(serve).map(drop));
        started.with_context(|| unusable(self.address))
    }

    /// Serves again at the same address.
    ///
    /// # Errors
    ///
    /// One line that names the address.
    pub fn reopen(&mut self) -> anyhow::Result<()> {
        *self = self.server.clone().bind(self.address, true)?;
        self.serve()
    }
}

/// Status, content type and body.
type Page = (&'static str, &'static str, String);

impl AdminServer {
    /// Binds an address, which other processes may `share` during a takeover. They get the
    /// connections until this one [serves](AdminListener::serve).
    ///
    /// # Errors
    ///
    /// One line that names the address.
    pub fn bind(self, at: SocketAddr, share: bool) -> anyhow::Result<AdminListener> {
        let bound = bind(at, share).and_then(|socket| Ok((socket.local_addr()?, socket)));
        let (address, listener) = bound.with_context(|| unusable(at))?;
        Ok(AdminListener {
            address,
            server: self,
            listener: listener.into(),
            closed: Arc::default(),
        })
    }

    fn run(&self, closed: &AtomicBool, listener: &TcpListener) {
        let clients = Arc::new(());
        for stream in listener.incoming() {
            match stream {
                Ok(_) if Arc::strong_count(&clients) > CLIENTS_MAX => {
                    debug!("admin listener: more than {CLIENTS_MAX} clients");
                }
                Ok(stream) => {
                    let (server, client) = (self.clone(), Arc::clone(&clients));
                    let respond = move || {
                        if let Err(e) = server.respond(HurriedStream::new(stream)) {
                            debug!("admin listener: {e}");
                        }
                        drop(client);
                    };
                    if let Err(e) =
                        thread::Builder::new().name("admin-client".into()).spawn(respond)
                    {
                        warn!("admin listener: {e}");
                    }
                }
                Err(_) if closed.load(Ordering::Relaxed) => return,
                Err(e) => {
                    warn!("admin listener: {e}");
                    thread::sleep(ACCEPT_RETRY_DELAY);
                }
            }
        }
    }

    fn respond(&self, mut stream: HurriedStream) -> io::Result<()> {
        let request = read_request(&mut stream)?;
        let (method, path) = request_line(&request).unwrap_or_default();
        let path = Some(path).filter(|_| ["GET", "HEAD"].contains(&method));
        let (status, content_type, body) = match path {
            Some("/metrics" | "/") => {
                let format = Format::accepted(field(&request, "accept").unwrap_or_default());
                (OK, format.content_type(), format.write(self.metrics.page()))
            }
            Some("/healthz") => self.health(),
            Some("/readyz") => self.readiness(),
            Some(_) => {
                let paths = "not found; the pages are /metrics, /healthz and /readyz\n";
                ("404 Not Found", PLAIN_TEXT, paths.to_owned())
            }
            None => ("405 Method Not Allowed", PLAIN_TEXT, "use GET or HEAD\n".to_owned()),
        };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        if method == "HEAD" {
            return Ok(());
        }
        stream.write_all(body.as_bytes())
    }

    fn health(&self) -> Page {
        match self.health.stuck().as_slice() {
            [] => (OK, PLAIN_TEXT, "ok\n".to_owned()),
            stuck => (UNAVAILABLE, PLAIN_TEXT, format!("stuck workers: {stuck:?}\n")),
        }
    }

    fn readiness(&self) -> Page {
        let (status, text) = match self.health.readiness() {
            HealthState::Ready => (OK, "ready\n"),
            HealthState::Starting => (UNAVAILABLE, "starting\n"),
            HealthState::Draining => (UNAVAILABLE, "draining\n"),
        };
        (status, PLAIN_TEXT, text.to_owned())
    }
}

/// Binds an address, which other processes may share.
fn bind(address: SocketAddr, share: bool) -> io::Result<TcpListener> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, share)?;
    net::bind(&socket, &address)?;
    Ok(socket.into())
}

fn unusable(at: SocketAddr) -> String {
    format!("cannot serve --metrics at {at}; choose another address")
}

/// Reads the head of a request, up to the size limit.
fn read_request(stream: &mut HurriedStream) -> io::Result<Vec<u8>> {
    let mut request = Vec::new();
    let mut chunk = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < REQUEST_BYTES_MAX {
        match stream.read(&mut chunk)? {
            0 => break,
            count => request.extend_from_slice(&chunk[..count]),
        }
    }
    Ok(request)
}

/// Returns the method of a request, and its path without the query.
fn request_line(request: &[u8]) -> Option<(&str, &str)> {
    let line = request.split(|byte| *byte == b'\r').next()?;
    let (method, rest) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    let target = rest.split(' ').next()?;
    Some((method, target.split('?').next().unwrap_or(target)))
}

/// Returns the value of a header field of a request.
fn field<'a>(request: &'a [u8], name: &str) -> Option<&'a str> {
    let lines = std::str::from_utf8(request).ok()?.split("\r\n").skip(1);
    let mut fields = lines.filter_map(|line| line.split_once(':'));
    fields.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admin_server() -> AdminServer {
        AdminServer { metrics: Metrics::new(None), health: Health::default() }
    }

    fn serve(admin_server: AdminServer) -> SocketAddr {
        let listener = admin_server.bind("127.0.0.1:0".parse().unwrap(), false).unwrap();
        listener.serve().unwrap();
        listener.address
    }

    fn fetch(at: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    #[test]
    fn metrics_page_is_served() {
        let admin_server = admin_server();
        admin_server.metrics.of_worker(0).count_connection();
        let at = serve(admin_server);
        let page = fetch(at, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        assert!(page.contains("\nedge_server_connections_total{worker=\"0\"} 1\n"), "{page}");
    }

    #[test]
    fn metrics_format_is_negotiated() {
        let at = serve(admin_server());
        let page =
            |more: &str| fetch(at, &format!("GET /metrics HTTP/1.1\r\nHost: x\r\n{more}\r\n"));
        let text = page("");
        assert!(text.contains("\r\nContent-Type: text/plain; version=0.0.4;"), "{text}");
        assert!(text.contains("# TYPE edge_server_access_log_dropped_total counter\n"), "{text}");
        assert!(!text.contains("# EOF"), "{text}");
        let open = page("Accept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\n");
        assert!(open.contains("\r\nContent-Type: application/openmetrics-text;"), "{open}");
        assert!(open.contains("# TYPE edge_server_access_log_dropped counter\n"), "{open}");
        assert!(open.ends_with("# EOF\n"), "{open}");
    }

    #[test]
    fn unknown_path_and_method_are_refused() {
        let at = serve(admin_server());
        for (request, status) in [
            ("GET /other HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("\r\n\r\n", "405"),
            ("GET /metrics?x=1 HTTP/1.1\r\n\r\n", "200"),
            ("GET /healthz HTTP/1.1\r\n\r\n", "200"),
            ("HEAD /healthz HTTP/1.1\r\n\r\n", "200"),
            ("GET /readyz HTTP/1.1\r\n\r\n", "503"),
        ] {
            let response = fetch(at, request);
            assert_eq!(response.split(' ').nth(1), Some(status), "{request}");
        }
        let other = admin_server().bind(at, false).and_then(|other| other.serve());
        let error = other.unwrap_err().to_string();
        assert!(error.contains(&at.to_string()) && error.contains("choose another"), "{error}");
    }

    #[test]
    fn head_has_no_body() {
        let at = serve(admin_server());
        let response = fetch(at, "HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(response.ends_with("\r\n\r\n") && !response.contains("Content-Length: 0"));
    }

    #[test]
    fn slow_clients_do_not_delay_the_health_page() {
        let at = serve(admin_server());
        let mut slow: Vec<_> = (1..CLIENTS_MAX).map(|_| TcpStream::connect(at).unwrap()).collect();
        slow.iter_mut().for_each(|stream| stream.write_all(b"GET /").unwrap());
        assert!(fetch(at, "GET /healthz HTTP/1.1\r\n\r\n").ends_with("ok\n"));

        let ended = |stream: &mut TcpStream| stream.read(&mut [0; 9]).is_ok_and(|read| read == 0);
        assert!(slow.iter_mut().all(ended));
    }

    // Before it is ready, a new server must not answer for the old one.
    #[test]
    fn shared_address_is_served_by_those_that_serve() {
        let old = admin_server().bind("127.0.0.1:0".parse().unwrap(), true).unwrap();
        old.serve().unwrap();
        let new = admin_server().bind(old.address, true).unwrap();
        old.server.health.drain();
        let readiness = || fetch(old.address, "GET /readyz HTTP/1.1\r\n\r\n");
        assert!((0..30).all(|_| readiness().ends_with("draining\n")));

        new.serve().unwrap();
        old.close();
        assert!(readiness().ends_with("starting\n"));
    }
}
