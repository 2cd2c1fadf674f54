//! Client of the admin socket (`edge-server admin`), whose exit code tells the outcome.

use std::ffi::OsString;
use std::io;
use std::io::Read;
use std::io::Write;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use anyhow::bail;
use anyhow::Context;
use clap::Parser;
use clap::Subcommand;
use percent_encoding::utf8_percent_encode;
use percent_encoding::NON_ALPHANUMERIC;
use rustix::net;
use rustix::net::sockopt;
use rustix::net::AddressFamily;
use rustix::net::SocketAddrUnix;
use rustix::net::SocketFlags;
use rustix::net::SocketType;

use crate::config::PROGRAM;
use crate::telemetry::admin::socket::LISTED_MAX;

/// Time for the response: a reload waits for every worker.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The same for a restart: the new process reads its configuration and waits for the old one.
const RESTART_TIMEOUT: Duration = Duration::from_secs(75);

/// The same for a query, which a server answers at once unless it hangs.
const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Commands a running edge-server through its admin socket (--admin).
///
/// Prints the response. Exit codes: 0 done, 1 failed, 2 bad usage.
#[derive(Debug, Parser)]
#[command(name = "edge-server admin", bin_name = "edge-server admin")]
pub struct AdminCli {
    /// The socket that --admin names
    socket: PathBuf,

    #[command(subcommand)]
    command: AdminCommand,
}

#[derive(Debug, Subcommand)]
enum AdminCommand {
    /// Read the configuration and the certificates again
    Reload,

    /// Reopen the access log, after a rotation
    Reopen,

    /// Have the cache forget responses of origins
    Purge {
        /// What to forget: url=https://host/path, prefix=https://host/path, tag=NAME, or all
        target: String,
    },

    /// Have a new process take over, of the program and the configuration that are there now
    Restart {
        /// Only if the program or an option has changed that a reload does not apply
        #[arg(long)]
        if_needed: bool,
    },

    /// Exit, and let the older server serve again, if it is still there
    Rollback,

    /// Finish what clients have requested, and exit, as after SIGTERM
    Drain,

    /// Close every connection, and exit, as after SIGINT
    Stop,

    /// Show what the log shows, or change it
    Log {
        /// A level, or a list like edge_server=debug,path_store=warn
        filter: Option<String>,
    },

    /// List connections, as JSON
    Connections {
        /// The most to list, up to 10000
        #[arg(long, value_name = "N", default_value_t = 100,
            value_parser = clap::value_parser!(u32).range(..=LISTED_MAX as i64))]
        max: u32,
    },

    /// Show version, state, uptime and counts, as JSON
    Stats,

    /// List certificates, their names and when they expire, as JSON
    Certificates,

    /// Print the metrics
    Metrics,

    /// Check that every event loop responds
    Health,

    /// Check that the server accepts clients
    Ready,
}

impl AdminCommand {
    fn timeout(&self) -> Duration {
        match self.request().0 {
            "GET" => QUERY_TIMEOUT,
            _ if matches!(self, Self::Restart { .. }) => RESTART_TIMEOUT,
            _ => TIMEOUT,
        }
    }

    /// Returns method and target of the request.
    fn request(&self) -> (&'static str, String) {
        match self {
            Self::Reload => ("POST", "/reload".into()),
            Self::Reopen => ("POST", "/reopen".into()),
            Self::Purge { target } => {
                let target = utf8_percent_encode(target, NON_ALPHANUMERIC);
                ("POST", format!("/purge?target={target}"))
            }
            Self::Restart { if_needed: false } => ("POST", "/restart".into()),
            Self::Restart { if_needed: true } => ("POST", "/restart?if-needed=1".into()),
            Self::Rollback => ("POST", "/rollback".into()),
            Self::Drain => ("POST", "/drain".into()),
            Self::Stop => ("POST", "/stop".into()),
            Self::Log { filter: Some(filter) } => {
                let filter = utf8_percent_encode(filter, NON_ALPHANUMERIC);
                ("POST", format!("/log?filter={filter}"))
            }
            Self::Log { filter: None } => ("GET", "/log".into()),
            Self::Connections { max } => ("GET", format!("/connections?max={max}")),
            Self::Stats => ("GET", "/stats".into()),
            Self::Certificates => ("GET", "/certificates".into()),
            Self::Metrics => ("GET", "/metrics".into()),
            Self::Health => ("GET", "/healthz".into()),
            Self::Ready => ("GET", "/readyz".into()),
        }
    }
}

/// Runs the command of a command line that begins with `admin`.
pub fn main(args: &[OsString]) -> ExitCode {
    let cli: AdminCli = match command_line::parse(args) {
        Ok(cli) => cli,
        Err(stop) => return PROGRAM.stop(&stop),
    };
    let (method, target) = cli.command.request();
    let response = exchange(&cli.socket, method, &target, cli.command.timeout());
    let response =
        response.with_context(|| format!("cannot command a server at {}", cli.socket.display()));
    match response {
        Ok((true, body)) => print(&body),
        Ok((false, body)) => PROGRAM.fail(body.trim_end()),
        Err(e) => PROGRAM.fail(format_args!("{e:#}")),
    }
}

/// Prints the response. A reader that has closed its end has read what it needs.
fn print(body: &str) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(body.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            PROGRAM.fail(format_args!("done, but cannot print the response: {e}"))
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Returns whether the request succeeded, and the body of the response.
fn exchange(
    socket: &Path,
    method: &str,
    target: &str,
    timeout: Duration,
) -> anyhow::Result<(bool, String)> {
    let mut stream = connect(socket, timeout).map_err(|e| explained(&e))?;
    stream.set_read_timeout(Some(timeout))?;
    let request = format!("{method} {target} HTTP/1.1\r\nHost: admin\r\n\r\n");
    let sent = stream.write_all(request.as_bytes());
    let mut response = Vec::new();
    let read = stream.read_to_end(&mut response);
    // A server that turns a client away does not wait for the request.
    if let Some(parsed) = std::str::from_utf8(&response).ok().and_then(parse) {
        return Ok(parsed);
    }
    read.map_err(|e| explained(&e))?;
    sent.map_err(|e| explained(&e))?;
    match response.is_empty() {
        true => bail!("it ended without a response; see its log"),
        false => bail!("it is no edge-server; name the path of --admin"),
    }
}

/// Parses a complete response.
fn parse(response: &str) -> Option<(bool, String)> {
    let status = response.strip_prefix("HTTP/1.1 ")?.get(..3)?;
    let (head, body) = response.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "))?;
    (length.parse() == Ok(body.len())).then(|| (status.starts_with('2'), body.to_owned()))
}

/// Connects, and sets the timeout of that and of writes.
fn connect(path: &Path, timeout: Duration) -> io::Result<UnixStream> {
    if !path.metadata()?.file_type().is_socket() {
        return Err(io::Error::other("it is no socket; name the path of --admin"));
    }
    let socket =
        net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(timeout))?;
    net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// Returns what an error means, and the way out.
fn explained(error: &io::Error) -> anyhow::Error {
    anyhow!(match error.kind() {
        io::ErrorKind::NotFound =>
            "there is no such socket; start the server, or name the path of \
                                    its --admin"
                .to_owned(),
        io::ErrorKind::ConnectionRefused =>
            "the server that listened there has ended; start it".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied; run the command as root, or as the \
                                            server's user"
            .to_owned(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no response in time: the server \
            hangs or is suspended; see its log, and restart it"
            .to_owned(),
        _ => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::thread;

    #[test]
    fn failed_command_says_why_and_the_way_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("file"), "").unwrap();
        drop(UnixListener::bind(path("dead")).unwrap());
        // One that accepts nobody.
        let _hung = UnixListener::bind(path("hung")).unwrap();
        for (name, responds, part) in [
            ("missing", None, "there is no such socket; start the server"),
            ("file", None, "it is no socket; name the path of --admin"),
            ("dead", None, "the server that listened there has ended; start it"),
            ("hung", None, "no response in time: the server hangs"),
            ("silent", Some(""), "it ended without a response"),
            ("other", Some("220 mail.example ESMTP\r\n"), "it is no edge-server"),
            ("cut", Some("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"), "no edge-server"),
        ] {
            let server = responds.map(|response| respond_once(&path(name), response));
            let timeout = Duration::from_millis(if name == "hung" { 50 } else { 10_000 });
            let error = exchange(&path(name), "GET", "/stats", timeout).unwrap_err().to_string();
            assert!(error.contains(part), "{name}: {error}");
            server.into_iter().for_each(|server| server.join().unwrap());
        }
    }

    #[test]
    fn more_connections_than_a_server_lists_are_refused() {
        for (max, is_valid) in [("0", true), ("10000", true), ("10001", false), ("-1", false)] {
            let words = ["edge-server admin", "s", "connections", "--max", max];
            let parsed = command_line::parse::<AdminCli>(words);
            assert_eq!(parsed.is_ok(), is_valid, "{max}");
        }
    }

    // As a server with too many clients: the end of the connection may come before the request.
    #[test]
    fn response_that_did_not_wait_for_the_request_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let response = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 5\r\n\r\nfull\n";
        let listener = UnixListener::bind(&path).unwrap();
        for _ in 0..20 {
            let client = thread::scope(|scope| {
                scope.spawn(|| listener.accept().unwrap().0.write_all(response.as_bytes()));
                exchange(&path, "GET", "/stats", TIMEOUT)
            });
            assert_eq!(client.unwrap(), (false, "full\n".to_owned()));
        }
    }

    /// Responds to a request on a thread.
    fn respond_once(path: &Path, response: &'static str) -> thread::JoinHandle<()> {
        let listener = UnixListener::bind(path).unwrap();
        thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let read = stream.read(&mut [0; 1024]).unwrap();
            assert!(read > 0);
            stream.write_all(response.as_bytes()).unwrap();
        })
    }
}
