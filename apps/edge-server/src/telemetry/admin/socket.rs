//! Admin socket (`--admin`): the pages of the admin listener and commands to the server, over HTTP on
//! a Unix socket that only the server's user and root may use.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Once;
use std::thread;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use anyhow::ensure;
use anyhow::Context;
use log::warn;
use serde::Serialize;
use serde_json::json;
use serde_json::Value;

use crate::content::cache::purge::PurgeTarget;
use crate::net::private_socket;
use crate::net::private_socket::PrivateListener;
use crate::quic::certificate::CertificateInfo;
use crate::telemetry::admin::exchange::serve_clients;
use crate::telemetry::admin::exchange::turn_away;
use crate::telemetry::admin::exchange::AdminRequest;
use crate::telemetry::admin::exchange::Page;
use crate::telemetry::admin::exchange::Pages;
use crate::telemetry::admin::AdminServer;
use crate::telemetry::metrics::collected::unix_seconds;
use crate::telemetry::printable::printable;
use crate::telemetry::process_log;

/// Connections in a list: by default, and at most.
const LISTED_DEFAULT: usize = 100;
pub const LISTED_MAX: usize = 10_000;

const SECONDS_PER_DAY: f64 = 86_400.0;

/// The server, as far as the socket commands it.
pub trait Controls: Send + Sync {
    /// Reopens the access log, and reloads the configuration.
    ///
    /// # Errors
    ///
    /// One line that names what cannot be used.
    fn reload(&self) -> anyhow::Result<ReloadOutcome>;

    /// Reopens the access log.
    ///
    /// # Errors
    ///
    /// One line that says why not.
    fn reopen(&self) -> anyhow::Result<()>;

    /// Has a new process take over, or only if a new program or an option needs that. Returns its
    /// process ID.
    ///
    /// # Errors
    ///
    /// It does not, and this process serves on.
    fn restart(&self, only_if_needed: bool) -> anyhow::Result<Option<u32>>;

    /// Has the cache forget responses. Returns how many there were.
    ///
    /// # Errors
    ///
    /// There is no cache.
    fn purge(&self, target: &PurgeTarget) -> anyhow::Result<usize>;

    /// Begins to drain.
    fn drain(&self);

    /// Ends the server at once, so that the youngest older one serves again.
    ///
    /// # Errors
    ///
    /// There is none.
    fn roll_back(&self) -> anyhow::Result<()>;

    /// Returns how many older servers have not ended.
    fn older_servers(&self) -> usize;

    /// Closes every connection, and ends the server.
    fn stop(&self);

    /// Returns how many connections there are, and up to `max` of them.
    fn connections(&self, max: usize) -> (usize, Vec<ConnectionInfo>);

    /// Returns the same of connections over TCP, unless that is off.
    fn tcp_connections(&self, max: usize) -> Option<(usize, Vec<TcpConnectionInfo>)>;

    /// Returns the certificates in use.
    fn certificates(&self) -> Vec<CertificateInfo>;

    /// Returns the number of workers and the generation of the process.
    fn workers(&self) -> (usize, u8);
}

/// What an operator may have to do after a reload.
#[derive(Debug, Default)]
pub struct ReloadOutcome {
    /// Options that need a restart.
    pub kept: Vec<String>,

    /// Warnings of what was read.
    pub warnings: Vec<String>,
}

/// State of one connection.
#[derive(Clone, Debug, Serialize)]
pub struct ConnectionInfo {
    pub worker: u8,

    /// Connection ID, as in the access log.
    pub connection: String,
    pub client: String,
    pub age_s: f64,
    pub state: &'static str,

    /// Congestion controller, if it is known.
    pub cc: Option<&'static str>,
    pub rtt_ms: f64,
    pub min_rtt_ms: Option<f64>,
    pub window_bytes: usize,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub lost_packets: usize,

    /// What the server keeps for the client, in bytes.
    pub kept_bytes: u64,
    pub open_files: u64,

    /// Requests under way.
    pub requests: usize,

    /// Phase of Careful Resume, unless it is off.
    pub resume: Option<&'static str>,
    pub jump_bytes: Option<usize>,

    /// Where its saved parameters come from: `store`, or the client's `token`.
    pub resume_source: Option<&'static str>,

    /// State of ECN on its path, unless it is off.
    pub ecn: Option<&'static str>,
}

/// State of one connection over TCP.
#[derive(Clone, Debug, Serialize)]
pub struct TcpConnectionInfo {
    /// Name, as in the access log.
    pub connection: String,
    pub client: String,
    pub age_s: f64,

    /// Requests under way.
    pub requests: u32,

    /// Time without any.
    pub idle_s: Option<f64>,

    /// Content of requests and responses.
    pub moved_bytes: u64,
}

/// Sources of the pages, and what carries out the commands.
#[derive(Clone)]
pub struct AdminSocket {
    pub server: AdminServer,
    pub controls: Arc<dyn Controls>,
    pub started: SystemTime,
}

/// Admin socket beside its path, until it serves.
pub struct AdminSocketListener(PrivateListener);

/// Second name of the socket while a newer server has the first: that with the generation of the
/// process at its end. It ends with the process.
pub struct SecondName {
    first: PathBuf,
    second: PathBuf,
    is_used: AtomicBool,
}

/// Checks whether a socket can be at `path`.
///
/// # Errors
///
/// One line that names it.
pub fn check(path: &Path) -> anyhow::Result<()> {
    private_socket::check(path).with_context(|| unusable(path))
}

/// Checks that no server listens at `path`, which would lose the socket for good.
///
/// # Errors
///
/// One line that names it.
pub fn check_unanswered(path: &Path) -> anyhow::Result<()> {
    let is_answered = private_socket::is_answered(path).with_context(|| unusable(path))?;
    let shown = path.display();
    ensure!(
        !is_answered,
        "cannot use --admin {shown}: another server listens there; name another path"
    );
    Ok(())
}

impl AdminSocketListener {
    /// Builds the socket for `path`, where another process may still have its own.
    ///
    /// # Errors
    ///
    /// One line that names the path.
    pub fn build(path: &Path) -> anyhow::Result<Self> {
        PrivateListener::build(path).map(Self).with_context(|| unusable(path))
    }

    /// Takes its place, and serves until the process ends.
    ///
    /// # Errors
    ///
    /// One line that names the path.
    pub fn serve(self, socket: AdminSocket) -> anyhow::Result<()> {
        let Self(private) = self;
        let path = private.path().to_owned();
        private.take_place().with_context(|| unusable(&path))?;
        let accept = move || loop {
            let (stream, _) = private.listener.accept()?;
            match private_socket::check_peer(&stream) {
                Ok(()) => return Ok(stream),
                Err(e) => turn_away_stranger(stream, &e),
            }
        };
        let serve = move || serve_clients(&AtomicBool::new(false), accept, &socket);
        let thread = thread::Builder::new().name("admin-socket".into());
        thread.spawn(serve).map(drop).with_context(|| unusable(&path))
    }
}

impl SecondName {
    /// Returns the second name of the socket at `first`, which a process of this generation has.
    pub fn new(first: &Path, generation: u8) -> Self {
        let mut second = first.as_os_str().to_owned();
        second.push(format!(".{generation}"));
        Self { first: first.to_owned(), second: second.into(), is_used: AtomicBool::new(false) }
    }

    /// Gives the socket its second name, before a newer server takes the first. Returns it.
    ///
    /// # Errors
    ///
    /// One line that names the path.
    pub fn add(&self) -> anyhow::Result<&Path> {
        // Of a process that was killed.
        let _ = fs::remove_file(&self.second);
        fs::hard_link(&self.first, &self.second).with_context(|| unusable(&self.second))?;
        self.is_used.store(true, Ordering::Relaxed);
        Ok(&self.second)
    }

    /// Takes the first name back from a newer server that has ended.
    ///
    /// # Errors
    ///
    /// One line that names the path.
    pub fn take_back(&self) -> anyhow::Result<()> {
        let renamed = fs::rename(&self.second, &self.first).with_context(|| unusable(&self.first));
        // Two names of one file stay if the newer server had not taken the first.
        self.remove();
        renamed
    }

    /// Removes the second name, if there is one.
    pub fn remove(&self) {
        if self.is_used.swap(false, Ordering::Relaxed) {
            let _ = fs::remove_file(&self.second);
        }
    }
}

impl fmt::Display for ReloadOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("reloaded")?;
        if !self.kept.is_empty() {
            write!(f, "; changed, but not applied until a restart: {}", self.kept.join(", "))?;
        }
        self.warnings.iter().try_for_each(|line| write!(f, "\nwarning: {}", printable(line)))
    }
}

impl Pages for AdminSocket {
    fn page(&self, request: &AdminRequest) -> Page {
        match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/reload") => self.reload(),
            ("POST", "/reopen") => match self.controls.reopen() {
                Ok(()) => Page::ok("reopened"),
                Err(e) => Page::unprocessable(format!("{e:#}")),
            },
            ("POST", "/restart") => self.restart(request),
            ("POST", "/rollback") => match self.controls.roll_back() {
                Ok(()) => Page::ok("rolling back"),
                Err(e) => Page::unprocessable(format!("{e:#}")),
            },
            ("POST", "/drain") => {
                self.controls.drain();
                Page::ok("draining")
            }
            ("POST", "/stop") => {
                self.controls.stop();
                Page::ok("stopping")
            }
            ("POST", "/log") => set_log(request),
            ("POST", "/purge") => self.purge(request),
            (
                _,
                "/reload" | "/reopen" | "/restart" | "/rollback" | "/drain" | "/stop" | "/purge",
            ) => Page::method_not_allowed("use POST"),
            ("GET" | "HEAD", "/log") => Page::ok(process_log::filter()),
            ("GET" | "HEAD", "/stats") => Page::json(&self.stats()),
            ("GET" | "HEAD", "/connections") => self.connections(request),
            ("GET" | "HEAD", "/certificates") => Page::json(&self.certificates()),
            _ => match self.server.page(request) {
                page if page.status.starts_with("404") => Page::not_found(
                    "not found; GET /metrics, /healthz, /readyz, /stats, /connections, \
                     /certificates or /log, POST /reload, /reopen, /restart, /rollback, /drain, \
                     /stop, /purge?target=all or /log?filter=debug",
                ),
                page => page,
            },
        }
    }
}

impl AdminSocket {
    fn purge(&self, request: &AdminRequest) -> Page {
        let target = request.parameter("target").unwrap_or_default();
        let target = match PurgeTarget::parse(&target) {
            Ok(target) => target,
            Err(e) => return Page::bad_request(format!("target: {e}")),
        };
        match self.controls.purge(&target) {
            Ok(count) => Page::ok(format!("purged {count}")),
            Err(e) => Page::unprocessable(format!("{e:#}")),
        }
    }

    fn reload(&self) -> Page {
        match self.controls.reload() {
            Ok(outcome) => Page::ok(outcome.to_string()),
            Err(e) => Page::unprocessable(format!("{e:#}")),
        }
    }

    fn restart(&self, request: &AdminRequest) -> Page {
        let only_if_needed = request.parameter("if-needed").is_some();
        match self.controls.restart(only_if_needed) {
            Ok(Some(id)) => Page::ok(format!("restarted; process {id} serves")),
            Ok(None) => Page::ok("nothing needs a restart"),
            Err(e) => Page::unprocessable(format!("cannot restart: {e:#}")),
        }
    }

    fn stats(&self) -> Value {
        let (workers, generation) = self.controls.workers();
        let uptime = quiche::clock::wall_now().duration_since(self.started);
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "state": format!("{:?}", self.server.health.readiness()).to_lowercase(),
            "started": rfc3339(self.started),
            "uptime_s": uptime.unwrap_or_default().as_secs(),
            "workers": workers,
            "generation": generation,
            "stuck_workers": self.server.health.stuck(),
            "connections": self.controls.connections(0).0,
            "tcp_connections": self.controls.tcp_connections(0).map(|(open, _)| open),
            "older_servers": self.controls.older_servers(),
            "log": process_log::filter(),
        })
    }

    fn connections(&self, request: &AdminRequest) -> Page {
        let max = request.parameter("max").map_or(Ok(LISTED_DEFAULT), |max| max.parse());
        let Some(max) = max.ok().filter(|max| *max <= LISTED_MAX) else {
            return Page::bad_request(format!(
                "max is a whole number up to {LISTED_MAX}: /connections?max=20"
            ));
        };
        let mut page = listed(self.controls.connections(max));
        page["tcp"] = self.controls.tcp_connections(max).map(listed).into();
        Page::json(&page)
    }

    fn certificates(&self) -> Value {
        let now = quiche::clock::wall_now();
        let certificates = self.controls.certificates().into_iter().map(|certificate| {
            let left_s = unix_seconds(certificate.expiry) - unix_seconds(now);
            json!({
                "hosts": certificate.hosts,
                "names": certificate.names,
                "hosts_not_covered": certificate.uncovered,
                "origin": certificate.origin.name(),
                "key": certificate.key,
                "start": rfc3339(certificate.start),
                "expiry": rfc3339(certificate.expiry),
                "days_left": (left_s / SECONDS_PER_DAY).floor(),
            })
        });
        Value::Array(certificates.collect())
    }
}

/// Refuses the command of another user, to whom somebody has opened the socket.
fn turn_away_stranger(stream: UnixStream, reason: &io::Error) {
    static WARNING: Once = Once::new();
    WARNING.call_once(|| warn!("admin socket: {reason}; it gets 403, and so do further ones"));
    turn_away(stream, &Page::forbidden("only the server's own user and root may command it"));
}

fn listed<T: Serialize>((open, connections): (usize, Vec<T>)) -> Value {
    let omitted = open.saturating_sub(connections.len());
    json!({ "open": open, "omitted": omitted, "connections": connections })
}

fn set_log(request: &AdminRequest) -> Page {
    let Some(filter) = request.parameter("filter") else {
        return Page::bad_request("name what to show: /log?filter=debug");
    };
    match process_log::set_filter(&filter) {
        Ok(()) => Page::ok(filter),
        Err(reason) => Page::bad_request(reason),
    }
}

fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time.max(UNIX_EPOCH)).to_string()
}

fn unusable(path: &Path) -> String {
    format!("cannot use --admin {}; name a socket in a writable folder", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::certificate::CertificateOrigin;
    use crate::telemetry::health::Health;
    use crate::telemetry::metrics::Metrics;
    use anyhow::bail;
    use std::io::Read;
    use std::io::Write;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    /// A server that reloads every second time.
    #[derive(Default)]
    struct Recorder {
        reloads: AtomicUsize,
        drains: AtomicUsize,
        stops: AtomicUsize,
    }

    impl Controls for Recorder {
        fn reload(&self) -> anyhow::Result<ReloadOutcome> {
            let warnings = vec!["the certificate of a has expired".into(), "two\nlines".into()];
            match self.reloads.fetch_add(1, Ordering::Relaxed) {
                0 => Ok(ReloadOutcome::default()),
                1 => Ok(ReloadOutcome { kept: vec!["--workers".into()], warnings }),
                _ => bail!("cannot reload, nothing has changed: edge.toml: line 3"),
            }
        }

        fn reopen(&self) -> anyhow::Result<()> {
            bail!("no --access-log")
        }

        fn restart(&self, only_if_needed: bool) -> anyhow::Result<Option<u32>> {
            ensure!(only_if_needed, "the new process has ended");
            Ok(None)
        }

        fn purge(&self, target: &PurgeTarget) -> anyhow::Result<usize> {
            ensure!(*target != PurgeTarget::All, "there is no cache");
            Ok(2)
        }

        fn drain(&self) {
            self.drains.fetch_add(1, Ordering::Relaxed);
        }

        fn roll_back(&self) -> anyhow::Result<()> {
            bail!("no older server")
        }

        fn older_servers(&self) -> usize {
            2
        }

        fn stop(&self) {
            self.stops.fetch_add(1, Ordering::Relaxed);
        }

        fn connections(&self, max: usize) -> (usize, Vec<ConnectionInfo>) {
            let info = |worker| ConnectionInfo {
                worker,
                connection: "00ab".into(),
                client: "192.0.2.1:5".into(),
                age_s: 1.5,
                state: "open",
                cc: None,
                rtt_ms: 20.0,
                min_rtt_ms: None,
                window_bytes: 1,
                sent_bytes: 2,
                received_bytes: 3,
                lost_packets: 4,
                kept_bytes: 0,
                open_files: 0,
                requests: 5,
                resume: None,
                jump_bytes: None,
                resume_source: None,
                ecn: None,
            };
            (200, (0..max.min(200) as u8).map(info).collect())
        }

        fn tcp_connections(&self, max: usize) -> Option<(usize, Vec<TcpConnectionInfo>)> {
            let info = TcpConnectionInfo {
                connection: "tcp-0".into(),
                client: "192.0.2.1:6".into(),
                age_s: 0.5,
                requests: 0,
                idle_s: Some(0.25),
                moved_bytes: 6,
            };
            Some((2, vec![info; max.min(2)]))
        }

        fn certificates(&self) -> Vec<CertificateInfo> {
            let expiry = quiche::clock::wall_now() + Duration::from_secs(10 * 86_400 + 60);
            vec![CertificateInfo {
                origin: CertificateOrigin::Files,
                key: "ECDSA P-256".into(),
                hosts: vec!["*".into()],
                names: vec!["a.example".into()],
                uncovered: Vec::new(),
                start: UNIX_EPOCH,
                expiry,
            }]
        }

        fn workers(&self) -> (usize, u8) {
            (3, 7)
        }
    }

    fn socket(controls: &Arc<Recorder>) -> AdminSocket {
        AdminSocket {
            server: AdminServer { metrics: Metrics::new(None), health: Health::default() },
            controls: Arc::clone(controls) as Arc<dyn Controls>,
            started: UNIX_EPOCH,
        }
    }

    fn page(socket: &AdminSocket, method: &str, target: &str) -> Page {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let (method, path) = (method.to_owned(), path.to_owned());
        socket.page(&AdminRequest { method, path, query: query.to_owned(), accept: String::new() })
    }

    fn document(socket: &AdminSocket, target: &str) -> Value {
        let page = page(socket, "GET", target);
        assert_eq!((page.status, page.content_type), ("200 OK", "application/json"));
        serde_json::from_str(&page.body).unwrap()
    }

    #[test]
    fn reload_is_answered_with_its_outcome() {
        let socket = socket(&Arc::default());
        let reload = || page(&socket, "POST", "/reload");
        assert_eq!(reload(), Page::ok("reloaded"));
        let warned = "reloaded; changed, but not applied until a restart: --workers\n\
                      warning: the certificate of a has expired\nwarning: two\\nlines\n";
        assert_eq!(reload().body, warned);
        let failed = reload();
        assert!(failed.status.starts_with("422 "));
        assert_eq!(failed.body, "cannot reload, nothing has changed: edge.toml: line 3\n");
    }

    #[test]
    fn commands_need_post_and_unknown_paths_are_refused() {
        let controls = Arc::new(Recorder::default());
        let socket = socket(&controls);
        for (method, target, status) in [
            ("GET", "/reload", "405"),
            ("GET", "/drain", "405"),
            ("GET", "/stop", "405"),
            ("GET", "/reopen", "405"),
            ("POST", "/reopen", "422"),
            ("GET", "/restart", "405"),
            ("POST", "/restart", "422"),
            ("POST", "/restart?if-needed=1", "200"),
            ("GET", "/rollback", "405"),
            ("POST", "/rollback", "422"),
            ("POST", "/metrics", "405"),
            ("GET", "/other", "404"),
            ("POST", "/log", "400"),
            ("POST", "/log?filter=debug", "200"),
            ("POST", "/log?filter=edge_server%3Ddebug", "200 OK"),
            ("POST", "/log?filter=wran", "400 Bad Request"),
            ("POST", "/log?filter=", "400 Bad Request"),
            ("HEAD", "/log", "200"),
            ("GET", "/purge", "405"),
            ("POST", "/purge", "400"),
            ("POST", "/purge?target=tag", "400"),
            ("POST", "/purge?target=tag%3Dnews", "200"),
            ("POST", "/purge?target=all", "422"),
            ("HEAD", "/stats", "200"),
            ("HEAD", "/connections", "200"),
            ("GET", "/connections?max=x", "400"),
            ("GET", "/connections?max=-1", "400"),
            ("GET", "/connections?max=10001", "400"),
            ("GET", "/connections?max=10000", "200"),
            ("HEAD", "/certificates", "200"),
            ("DELETE", "/stats", "405"),
            ("GET", "/metrics", "200"),
            ("HEAD", "/healthz", "200"),
            ("GET", "/readyz", "503"),
            ("POST", "/drain", "200"),
            ("POST", "/stop", "200"),
        ] {
            let page = page(&socket, method, target);
            assert!(page.status.starts_with(status), "{method} {target}: {page:?}");
        }
        let Recorder { reloads, drains, stops } = &*controls;
        assert_eq!([reloads, drains, stops].map(|n| n.load(Ordering::Relaxed)), [0, 1, 1]);
    }

    #[test]
    fn connections_are_listed_up_to_a_bound() {
        let socket = socket(&Arc::default());
        for (target, listed) in
            [("/connections", 100), ("/connections?max=3", 3), ("/connections?max=999", 200)]
        {
            let document = document(&socket, target);
            assert_eq!(document["connections"].as_array().unwrap().len(), listed);
            assert_eq!(document["omitted"], 200 - listed);
        }
    }

    #[test]
    fn another_user_is_told_who_may_command() {
        let (mut client, server) = UnixStream::pair().unwrap();
        client.write_all(b"POST /drain HTTP/1.1\r\n\r\n").unwrap();
        turn_away_stranger(server, &io::ErrorKind::PermissionDenied.into());
        let mut response = String::new();
        client.read_to_string(&mut response).unwrap();
        assert!(response.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{response}");
        assert!(response.ends_with("own user and root may command it\n"), "{response}");
    }

    #[test]
    fn stats_and_certificates_are_json() {
        let socket = socket(&Arc::default());
        let stats = document(&socket, "/stats");
        assert_eq!((&stats["state"], &stats["workers"]), (&"starting".into(), &3.into()));
        assert_eq!((&stats["connections"], &stats["generation"]), (&200.into(), &7.into()));
        assert_eq!(stats["older_servers"], 2);
        assert_eq!(stats["started"], "1970-01-01T00:00:00Z");
        let certificates = document(&socket, "/certificates");
        assert_eq!(certificates[0]["hosts"][0], "*");
        assert_eq!(certificates[0]["days_left"], 10.0);
        assert_eq!(certificates[0]["key"], "ECDSA P-256");
    }
}
