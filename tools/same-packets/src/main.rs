//! Comparison of the fork with the release, datagram by datagram.
//!
//! Each side of a scenario runs in a process of its own, in virtual time and with seeded
//! random bytes, so that equal code sends equal bytes.

mod catalogue;
mod cli;
mod compare;
mod content;
mod determinism;
mod exceptions;
mod fork_side;
mod frames;
mod path;
mod release_side;
mod scenario;
mod trace;

use crate::cli::Cli;
use crate::cli::Command;
use crate::cli::Side;
use crate::cli::PROGRAM;
use anyhow::Result;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match command_line::parse::<Cli>(std::env::args_os()) {
        Ok(cli) => cli,
        Err(stop) => return PROGRAM.stop(&stop),
    };
    let done = match &cli.command {
        Command::List => {
            for scenario in catalogue::named() {
                println!("{}", scenario.name);
            }
            Ok(true)
        }
        Command::Trace { side, frames, scenario } => {
            if *frames {
                frames::print();
            }
            trace_side(*side, scenario).map(|()| true)
        }
        Command::Digest(choice) => compare::print_digests(choice).map(|()| true),
        Command::Compare { choice, table, release } => {
            compare::compare_all(choice, table, release.as_deref())
        }
        Command::CheckTable { changes, choice, table } => {
            compare::check_table(changes, choice, table)
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => PROGRAM.fail(format_args!("{error:#}")),
    }
}

/// Prints the trace of one side, in this process.
fn trace_side(side: Side, name: &str) -> Result<()> {
    let scenario = compare::known(name)?;
    let mut out = std::io::stdout().lock();
    determinism::start(scenario.seed);
    trace::note(&mut out, &format!("{scenario:?}"))?;
    match side {
        Side::Release => release_side::side::run(&scenario, &mut out)?,
        Side::Fork => fork_side::side::run(&scenario, &mut out)?,
    }
    out.flush()?;
    Ok(())
}
