//! Command `sim`.

mod cli;
mod progress;
mod runner;
mod search;

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use command_line::Program;
use command_line::Stop;
use sim::evaluation;
use sim::experiment;

use crate::cli::Command;
use crate::cli::ReportArgs;
use crate::cli::RunArgs;
use crate::runner::Plan;

const PROGRAM: Program = Program("sim");

/// Exit code if the quiche of this program lacks a patch: `git bisect` skips this step.
const EXIT_LACKING: u8 = 125;

fn main() -> ExitCode {
    let command = match cli::parse(std::env::args_os()) {
        Ok(command) => command,
        Err(stop) => return PROGRAM.stop(&stop),
    };
    let result = match command {
        Command::Run(_) | Command::Fuzz(_) if !quiche::HAS_CLOCK => {
            return lacking("a clock that can be simulated");
        }
        Command::Fuzz(_) if !quiche::HAS_CAREFUL_RESUME => return lacking("Careful Resume"),
        Command::Run(args) => match plan(&args) {
            Ok(plan) if plan.resumes() && !quiche::HAS_CAREFUL_RESUME => {
                return lacking("Careful Resume; choose runs whose mode is slow-start");
            }
            Ok(plan) => run(&plan, &args),
            Err(error) => return PROGRAM.stop(&Stop::Usage(format!("{error:#}"))),
        },
        Command::List => list(),
        Command::Fuzz(args) => search::search(PROGRAM, &args, &stop_after(args.time)),
        Command::Report(args) => report(&args),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => PROGRAM.fail(format_args!("{error:#}")),
    }
}

fn lacking(what: &str) -> ExitCode {
    PROGRAM.say(format_args!("this quiche lacks {what}"));
    ExitCode::from(EXIT_LACKING)
}

/// Returns a check of whether this many seconds have passed since now.
#[expect(clippy::disallowed_methods, reason = "the one reading of the clock, to stop in time")]
fn stop_after(seconds: Option<u64>) -> impl Fn() -> bool + Sync {
    let end = seconds.and_then(|s| Instant::now().checked_add(Duration::from_secs(s)));
    move || end.is_some_and(|end| Instant::now() >= end)
}

/// Reads and checks the files, and returns what is to be run.
fn plan(args: &RunArgs) -> anyhow::Result<Plan> {
    spare_scenarios(args)?;
    let files = if args.all {
        sim::scenario::shipped::all()?
    } else {
        args.files
            .iter()
            .map(|name| sim::scenario::shipped::find(name))
            .collect::<Result<_, _>>()?
    };
    Plan::new(files, args)
}

/// Fails if results or a page would replace one of the scenario files.
fn spare_scenarios(args: &RunArgs) -> anyhow::Result<()> {
    let is_scenario = |written: &Path| {
        let written = written.canonicalize().ok();
        let mut scenarios = args.files.iter().map(|file| Path::new(file).canonicalize().ok());
        written.is_some() && scenarios.any(|scenario| scenario == written)
    };
    for (option, written) in [("--out", args.out()), ("--page", args.page.clone())] {
        if let Some(file) = written.filter(|written| is_scenario(written)) {
            anyhow::bail!("{} is a scenario file, name another {option}", file.display());
        }
    }
    Ok(())
}

/// Returns whether every run came to its end.
fn run(plan: &Plan, args: &RunArgs) -> anyhow::Result<bool> {
    if let Some(folder) = args.traces() {
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}, name another --trace", folder.display()))?;
    }
    let summary = match args.out() {
        None => runner::run(plan, &mut BufWriter::new(std::io::stdout().lock()))?,
        Some(out) => {
            let file = File::create(&out)
                .with_context(|| format!("cannot write {}, name another --out", out.display()))?;
            runner::run(plan, &mut BufWriter::new(file))?
        }
    };
    if summary.failed > 0 {
        PROGRAM.say(format_args!("{} of {} runs failed", summary.failed, summary.runs));
    }
    if let Some(page) = &args.page {
        let results = args.out().context("--page draws the results of a file: name an --out")?;
        draw(&plan.title(), &results, summary.failed, args.traces().as_deref(), page)?;
    }
    Ok(summary.failed == 0)
}

fn draw(
    title: &str,
    results: &Path,
    failed: usize,
    traces: Option<&Path>,
    page: &Path,
) -> anyhow::Result<()> {
    anyhow::ensure!(page != results, "{} has the results, name another page", page.display());
    let html = experiment::html(title, &evaluation::read(results)?, failed, traces)?;
    write_page(page, &html, "")
}

fn write_page(page: &Path, html: &str, text: &str) -> anyhow::Result<()> {
    std::fs::write(page, html)
        .with_context(|| format!("cannot write {}, name another page", page.display()))?;
    PROGRAM.print(format_args!("{text}written: {}\n", page.display()));
    Ok(())
}

/// Returns whether every figure is what it must be.
fn report(args: &ReportArgs) -> anyhow::Result<bool> {
    let page = args.out.clone().unwrap_or_else(|| args.results.with_extension("html"));
    if let Some(folder) = args.trace.as_ref().filter(|folder| !folder.is_dir()) {
        anyhow::bail!("there is no folder {}, name that of sim run --trace", folder.display());
    }
    if !args.evaluation {
        let stem = args.results.file_stem().unwrap_or_default().to_string_lossy();
        draw(&stem, &args.results, 0, args.trace.as_deref(), &page)?;
        return Ok(true);
    }
    let outcomes = evaluation::read(&args.results)?;
    let evaluation = evaluation::report(&outcomes)?;
    write_page(&page, &evaluation.html, &evaluation.text)?;
    let mut passed = true;
    for breach in evaluation.breaches() {
        PROGRAM.say(breach);
        passed = false;
    }
    Ok(passed)
}

/// Prints what is shipped: name, runs, what it costs, title.
fn list() -> anyhow::Result<bool> {
    let files = sim::scenario::shipped::all()?;
    let width = files.iter().map(|file| file.stem.len()).max().unwrap_or(0);
    for file in files {
        let runs = file.scenarios.len() as u64 * u64::from(file.runs);
        let packets: u64 = file.scenarios.iter().map(|s| s.scenario.data_packets()).sum();
        let packets = packets as f64 * f64::from(file.runs) / 1e6;
        let (stem, title) = (file.stem, file.title);
        PROGRAM.print(format_args!(
            "{stem:<width$} {runs:>5} runs {packets:>6.1} M packets  {title}\n"
        ));
    }
    Ok(true)
}
