//! Client of the admin socket (`edge-server admin`), whose exit code tells the outcome.

use std::ffi::OsString;
use std::io;
use std::io::Read;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use anyhow::Context;
use clap::Parser;
use clap::Subcommand;
use percent_encoding::utf8_percent_encode;
use percent_encoding::NON_ALPHANUMERIC;

use crate::config::PROGRAM;

/// Time for the response: a reload waits for every worker.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Commands a running edge-server through its admin socket (--admin).
///
/// Prints the response. Exit codes: 0 done, 1 failed, 2 bad usage.
#[derive(Debug, Parser)]
#[command(name = "edge-server admin", bin_name = "edge-server admin")]
struct AdminCli {
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
        /// The most to list
        #[arg(long, value_name = "N", default_value_t = 100)]
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
    /// Returns method and target of the request.
    fn request(&self) -> (&'static str, String) {
        match self {
            Self::Reload => ("POST", "/reload".into()),
            Self::Reopen => ("POST", "/reopen".into()),
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
    let response = exchange(&cli.socket, method, &target);
    let response = response.with_context(|| {
        format!("cannot command a server at {}; name its --admin socket", cli.socket.display())
    });
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
fn exchange(socket: &Path, method: &str, target: &str) -> anyhow::Result<(bool, String)> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(format!("{method} {target} HTTP/1.1\r\nHost: admin\r\n\r\n").as_bytes())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let status = response.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    match (status, response.split_once("\r\n\r\n")) {
        (Some(status), Some((_, body))) => Ok((status.starts_with('2'), body.to_owned())),
        _ => bail!("it does not speak HTTP"),
    }
}
