//! HTTP/3 downloader that measures how long a user waits.
//!
//! Each download has a connection of its own: a new socket, one GET, and a full handshake
//! unless it may reuse the previous session. A load is many requests on many connections at a
//! time. The receive windows are so large that only the path and the server limit the rate.

mod body;
mod cli;
mod client_certificate;
mod download;
mod ech;
mod ecn;
mod exchange;
mod failure;
mod header_field;
mod load;
mod poller;
mod progress;
mod report;
mod resumption;
mod sha256;
mod socket;
mod system;
mod target;
mod transport;

use std::io;
use std::io::Write;
use std::num::NonZeroU32;
use std::process::ExitCode;

use body::Body;
use cli::Cli;
use command_line::Program;
use download::Downloader;
use failure::Failure;
use progress::Progress;
use report::Report;

const PROGRAM: Program = Program("edge-client");

fn main() -> ExitCode {
    let cli = match cli::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(stop) => return PROGRAM.stop(&stop),
    };
    start_log();

    match run(&cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => PROGRAM.fail(format_args!("{}: {failure}", cli.target.url)),
    }
}

/// Starts the log. Libraries log only what RUST_LOG selects: an error is one line of ours.
fn start_log() {
    let filter = env_logger::Env::default().default_filter_or("edge_client=warn");
    env_logger::Builder::from_env(filter).format_timestamp(None).init();
}

/// Runs the load, or the downloads one after the other until one fails.
fn run(cli: &Cli) -> Result<(), Failure> {
    if let Some(requests) = cli.load.requests {
        return load(cli, requests);
    }
    let mut downloader = Downloader::new(cli)?;

    for run in 0..cli.repeat.get() {
        if run > 0 {
            downloader.sleep(cli.interval)?;
        }
        one_download(cli, &mut downloader)?;
    }
    Ok(())
}

fn one_download(cli: &Cli, downloader: &mut Downloader) -> Result<(), Failure> {
    let mut body = Body::open(cli.output.as_deref())?;
    let mut progress = Progress::for_stderr(&cli.target.url);

    let (measurements, result) = downloader.download(&mut body, &mut progress);
    progress.clear();
    let result = result.and_then(|()| body.complete());

    let error = result.as_ref().err().map(Failure::to_string);
    let report = Report::new(&cli.target.url, &measurements, error);
    print_report(cli, &report)
        .map_err(|e| Failure::failed(format!("cannot write the result: {e}")))
        .and(result)
}

fn load(cli: &Cli, requests: NonZeroU32) -> Result<(), Failure> {
    let summary = load::run(cli, requests)?;
    let line = if cli.json { summary.json() } else { summary.line() };
    writeln!(io::stdout(), "{line}")
        .map_err(|e| Failure::failed(format!("cannot write the result: {e}")))?;
    summary.failure().map_or(Ok(()), |reason| Err(Failure::failed(reason)))
}

/// Prints the result: JSON also of a failed download, text only of a complete one.
fn print_report(cli: &Cli, report: &Report) -> io::Result<()> {
    if cli.json {
        return writeln!(io::stdout(), "{}", report.json());
    }
    if report.error.is_some() {
        return Ok(());
    }
    match body::is_stdout(cli.output.as_deref()) {
        true => writeln!(io::stderr(), "{}", report.summary()),
        false => writeln!(io::stdout(), "{}", report.summary()),
    }
}
