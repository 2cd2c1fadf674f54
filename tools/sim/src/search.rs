//! Command `sim fuzz`: random scenarios, and a file for each that fails.

use std::fs;
use std::sync::Mutex;
use std::sync::PoisonError;

use anyhow::Context;
use command_line::Program;
use sim::fuzz;
use sim::fuzz::Failed;
use sim::fuzz::Search;

use crate::cli;
use crate::cli::FuzzArgs;
use crate::progress::Progress;

/// Returns whether none of the scenarios failed. Begins none once `stop` says so.
///
/// # Errors
///
/// If the file of a failed scenario cannot be written.
pub fn search(
    program: Program,
    args: &FuzzArgs,
    stop: &(dyn Fn() -> bool + Sync),
) -> anyhow::Result<bool> {
    // What a panic says is in the failure.
    std::panic::set_hook(Box::new(|_| ()));
    let cases = u64::from(args.cases);
    let search = Search { first_seed: args.seed, cases, jobs: cli::jobs(args.jobs), cc: args.cc };
    let progress = Mutex::new(Progress::new(cases as usize, cases));
    let done = |_| progress.lock().unwrap_or_else(PoisonError::into_inner).done(1);
    let found = fuzz::search(&search, stop, &done);
    drop(progress);
    for failed in &found.failed {
        keep(args, failed)?;
    }
    let failed = found.failed.len();
    program.print(format_args!("{} of {cases} random scenarios, {failed} failed\n", found.cases));
    Ok(found.failed.is_empty())
}

/// Writes the scenario, and says how it is run again.
fn keep(args: &FuzzArgs, failed: &Failed) -> anyhow::Result<()> {
    let out = &args.out;
    let write = || -> anyhow::Result<_> {
        fs::create_dir_all(out)?;
        let file = out.join(format!("fuzz-{}.toml", failed.seed));
        fs::write(&file, failed.to_file()?)?;
        Ok(file)
    };
    let file = write()
        .with_context(|| format!("cannot write to {}, name another --out", out.display()))?;
    eprintln!("sim: {failed}; again: sim run {} --seed {}", file.display(), failed.seed);
    Ok(())
}
