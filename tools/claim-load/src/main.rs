//! Load of claims on a store of path state, and a check of the claims that it granted.
//!
//! `run` has simulated connections claim, jump and release as edge-server's do, and records each
//! claim. `check` reads the records of several nodes, and finds claims of one endpoint that were
//! live at a time.

mod check;
mod cli;
mod connection;
mod counted_backend;
mod load;
mod monotonic;
mod record;

use std::fs::File;
use std::io::BufReader;
use std::process::ExitCode;

use anyhow::bail;
use anyhow::Context;

use crate::check::Report;
use crate::cli::CheckArgs;
use crate::cli::Cli;
use crate::cli::Command;
use crate::cli::PROGRAM;
use crate::monotonic::MonotonicClock;
use crate::record::Record;

fn main() -> ExitCode {
    let cli: Cli = match command_line::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(stop) => return PROGRAM.stop(&stop),
    };
    let done = match &cli.command {
        Command::Run(args) => load::run(args),
        Command::Check(args) => check(args),
    };

    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => PROGRAM.fail(format_args!("{error:#}")),
    }
}

fn check(args: &CheckArgs) -> anyhow::Result<()> {
    let mut record = Record::default();
    for path in &args.records {
        let name = path.display();
        let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
        record.read(BufReader::new(file)).with_context(|| format!("{name}"))?;
    }
    let clock = MonotonicClock::new();
    let failovers_ns = args.failovers.iter().map(|at| clock.ns_of_wall(*at)).collect();
    let report = Report::new(&record, failovers_ns);
    PROGRAM.print(&report);

    match report.violations() {
        0 => Ok(()),
        count => bail!("{count} pairs of claims were live at a time within one reign of a primary"),
    }
}
