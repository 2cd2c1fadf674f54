//! Admin listeners: metrics, health and readiness over HTTP on a TCP address, and commands on a
//! Unix socket.

pub mod exchange;
pub mod socket;

use std::io;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;

use anyhow::Context;
use log::debug;
use rustix::net;
use rustix::net::sockopt;
use rustix::net::AddressFamily;
use rustix::net::Shutdown;
use rustix::net::SocketFlags;
use rustix::net::SocketType;

use crate::telemetry::admin::exchange::serve_clients;
use crate::telemetry::admin::exchange::AdminRequest;
use crate::telemetry::admin::exchange::Page;
use crate::telemetry::admin::exchange::Pages;
use crate::telemetry::admin::exchange::RemoteStream;
use crate::telemetry::health::Health;
use crate::telemetry::health::HealthState;
use crate::telemetry::metrics::exposition::Format;
use crate::telemetry::metrics::Metrics;

/// Length of the listener's accept queue.
const BACKLOG: i32 = 128;

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
        let accept =
            move || listener.accept().map(|(stream, client)| RemoteStream::new(stream, client));
        let serve = move || serve_clients(&closed, accept, &server);
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

impl Pages for AdminServer {
    fn page(&self, request: &AdminRequest) -> Page {
        if !request.is_read() {
            return Page::method_not_allowed("use GET or HEAD");
        }
        self.find(request).unwrap_or_else(|| {
            Page::not_found("not found; the pages are /metrics, /healthz and /readyz")
        })
    }
}

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

    /// Returns the page at a path, if there is one.
    fn find(&self, request: &AdminRequest) -> Option<Page> {
        match request.path.as_str() {
            "/metrics" | "/" => {
                let format = Format::accepted(&request.accept);
                let body = format.write(self.metrics.page());
                Some(Page { content_type: format.content_type(), body, ..Page::ok("") })
            }
            "/healthz" => Some(self.health()),
            "/readyz" => Some(self.readiness()),
            _ => None,
        }
    }

    fn health(&self) -> Page {
        match self.health.stuck().as_slice() {
            [] => Page::ok("ok"),
            stuck => Page::unavailable(format!("stuck workers: {stuck:?}")),
        }
    }

    fn readiness(&self) -> Page {
        match self.health.readiness() {
            HealthState::Ready => Page::ok("ready"),
            HealthState::Starting => Page::unavailable("starting"),
            HealthState::Draining => Page::unavailable("draining"),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::admin::exchange::CLIENTS_MAX;
    use std::io::Read;
    use std::io::Write;
    use std::net::TcpStream;

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

        for stream in &mut slow {
            let mut response = String::new();
            stream.read_to_string(&mut response).unwrap();
            assert!(response.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{response}");
        }
    }

    // Those of the other address stay, although one of them is older.
    #[test]
    fn clients_too_many_give_way_to_new_ones() {
        let at = serve(admin_server());
        let begin = |from| {
            let mut stream = connect_from(from, at);
            stream.write_all(b"GET /").unwrap();
            stream
        };
        let mut others = vec![begin([127, 0, 0, 2])];
        let mut slow: Vec<_> = (0..2 * CLIENTS_MAX).map(|_| begin([127, 0, 0, 1])).collect();
        for _ in 0..CLIENTS_MAX {
            assert!(fetch(at, "GET /healthz HTTP/1.1\r\n\r\n").ends_with("ok\n"));
        }
        others.push(begin([127, 0, 0, 3]));
        for mut other in others {
            other.write_all(b"healthz HTTP/1.1\r\n\r\n").unwrap();
            let mut response = String::new();
            other.read_to_string(&mut response).unwrap();
            assert!(response.ends_with("ok\n"), "{response}");
        }
        assert!(slow[0].read(&mut [0; 9]).is_ok_and(|read| read == 0));
    }

    // Each address has one; together they have most.
    #[test]
    fn clients_of_a_subnet_give_way_before_another_client() {
        let at = serve(admin_server());
        let begin = |from| {
            let mut stream = connect_from(from, at);
            stream.write_all(b"GET /").unwrap();
            stream
        };
        let mut other = begin([127, 0, 1, 1]);
        let _slow: Vec<_> = (0..2 * CLIENTS_MAX as u8).map(|n| begin([127, 0, 0, n + 1])).collect();
        assert!(fetch(at, "GET /healthz HTTP/1.1\r\n\r\n").ends_with("ok\n"));
        other.write_all(b"healthz HTTP/1.1\r\n\r\n").unwrap();
        let mut response = String::new();
        other.read_to_string(&mut response).unwrap();
        assert!(response.ends_with("ok\n"), "{response}");
    }

    /// Pages that do not fit into the socket's buffer.
    #[derive(Clone)]
    struct LargePages;

    impl Pages for LargePages {
        fn page(&self, _request: &AdminRequest) -> Page {
            Page::ok("x".repeat(LARGE_PAGE_BYTES))
        }
    }

    const LARGE_PAGE_BYTES: usize = 20_000_000;

    #[test]
    fn clients_without_a_request_give_way_before_one_that_reads_its_response() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let accept =
            move || listener.accept().map(|(stream, from)| RemoteStream::new(stream, from));
        thread::spawn(move || serve_clients(&AtomicBool::new(false), accept, &LargePages));
        let mut scraper = connect_from([127, 0, 0, 1], at);
        scraper.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        scraper.peek(&mut [0]).unwrap();
        let begin = |subnet| connect_from([127, 0, subnet, 1], at);
        let mut silent: Vec<_> = (1..=CLIENTS_MAX as u8).map(begin).collect();
        // The first has given way.
        assert!(silent[0].read(&mut [0]).is_ok_and(|read| read == 0));
        let mut response = String::new();
        scraper.read_to_string(&mut response).unwrap();
        assert!(response.len() > LARGE_PAGE_BYTES);
    }

    fn connect_from(from: [u8; 4], to: SocketAddr) -> TcpStream {
        let family = AddressFamily::INET;
        let socket = net::socket(family, SocketType::STREAM, None).unwrap();
        net::bind(&socket, &SocketAddr::from((from, 0))).unwrap();
        net::connect(&socket, &to).unwrap();
        socket.into()
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
