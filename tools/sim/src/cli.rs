//! Command line of `sim`.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::num::NonZeroU64;
use std::num::NonZeroUsize;
use std::path::Path;
use std::path::PathBuf;

use clap::Args;
use clap::Parser;
use clap::Subcommand;
use command_line::Stop;
use sim::scenario::Controller;

const AFTER_HELP: &str = "\
docs/evaluation.md explains scenario files and results.

Exit codes: 0 done, 1 failed (a broken invariant, a stalled download), 2 bad usage,
125 this quiche lacks a patch that the command needs (a bisection skips it).";

const NOTHING_TO_RUN: &str = "\
run what? Name files or built-in names (sim list), or --all; see sim run --help";

/// Simulator of downloads over modelled paths, in virtual time, exact and repeatable
#[derive(Debug, Parser)]
#[command(name = "sim", version, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run scenario files and write one JSON line per run
    Run(RunArgs),

    /// List the built-in scenario files
    List,

    /// Run random scenarios, and write those that fail as scenario files
    Fuzz(FuzzArgs),

    /// Draw the results of any scenarios, or judge those of the evaluation: a page that needs no
    /// network
    Report(ReportArgs),
}

#[derive(Args, Debug)]
pub struct RunArgs {
    /// Scenario files, or the names that `sim list` prints
    #[arg(value_name = "FILE", conflicts_with = "all")]
    pub files: Vec<String>,

    /// Run every file that `sim list` prints
    #[arg(long)]
    pub all: bool,

    /// Only scenarios with all of these parameters, as key=value or value, separated by
    /// commas without spaces; if repeated, scenarios that match any of them
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,

    /// Seed of each scenario's first run; the following runs count up from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Number of runs of each scenario [default: as in its file]
    #[arg(long, value_name = "N")]
    pub runs: Option<NonZeroU32>,

    /// Number of concurrent runs; results do not depend on it [default: one per core]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,

    /// File for the results; - is standard output [default: -, or that of --page with the
    /// ending jsonl]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,

    /// Page with figures of the results, which needs no network; also of the first run of each
    /// scenario over time
    #[arg(long, value_name = "HTML")]
    pub page: Option<PathBuf>,

    /// Folder for traces: the qlog of every connection and the queue's depth over time, in a folder
    /// per run [default: none, or of the first run of each scenario, that of --page with the
    /// ending traces]
    #[arg(long, value_name = "DIR")]
    pub trace: Option<PathBuf>,
}

impl RunArgs {
    /// Returns the file for the results; none for standard output.
    pub fn out(&self) -> Option<PathBuf> {
        let beside_page = || self.page.as_ref().map(|page| page.with_extension("jsonl"));
        self.out.clone().or_else(beside_page).filter(|out| out != Path::new("-"))
    }

    /// Returns the folder for traces, if there are to be any.
    pub fn traces(&self) -> Option<PathBuf> {
        let beside_page = || self.page.as_ref().map(|page| page.with_extension("traces"));
        self.trace.clone().or_else(beside_page)
    }
}

#[derive(Args, Debug)]
pub struct FuzzArgs {
    /// Number of scenarios
    #[arg(long, value_name = "N", default_value = "10000")]
    pub cases: NonZeroU64,

    /// Time after which no further run starts, in seconds
    #[arg(long, value_name = "S")]
    pub time: Option<u64>,

    /// Seed of the first scenario; the following ones count up from it
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Number of concurrent runs [default: one per core]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,

    /// Congestion control of all flows, instead of what the scenario draws: cubic, reno or bbr2
    #[arg(long, value_name = "NAME", value_parser = controller)]
    pub cc: Option<Controller>,

    /// Folder for the files of scenarios that fail
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub out: PathBuf,
}

#[derive(Args, Debug)]
pub struct ReportArgs {
    /// Results, as `sim run --out` writes them
    #[arg(value_name = "JSONL")]
    pub results: PathBuf,

    /// Page to write [default: that of the results with the ending html]
    #[arg(long, value_name = "HTML")]
    pub out: Option<PathBuf>,

    /// Folder of traces that `sim run --trace` wrote; the first run of each scenario is drawn over
    /// time
    #[arg(long, value_name = "DIR", conflicts_with = "evaluation")]
    pub trace: Option<PathBuf>,

    /// Judge the results of `sim run --all` by the criteria of the evaluation, chapter by chapter
    #[arg(long)]
    pub evaluation: bool,
}

fn controller(name: &str) -> Result<Controller, String> {
    let value = toml::Value::from(name);
    value.try_into().map_err(|_| "must be one of cubic, reno, bbr2".into())
}

/// Returns how many runs go on at a time when nobody says.
pub fn jobs(asked: Option<NonZeroUsize>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    asked.map_or_else(cores, usize::from)
}

/// Reads the command line.
///
/// # Errors
///
/// It asks for help or the version, or makes no sense.
pub fn parse(args: impl IntoIterator<Item = impl Into<OsString> + Clone>) -> Result<Command, Stop> {
    let cli: Cli = command_line::parse(args)?;
    match &cli.command {
        Command::Run(args) if args.files.is_empty() && !args.all => {
            Err(Stop::Usage(NOTHING_TO_RUN.into()))
        }
        _ => Ok(cli.command),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_option_of_run_is_parsed() {
        let line = "sim run a.toml paths --only GEO --only x=1,y --seed 7 --runs 3 --jobs 2 \
                    --out o.jsonl --trace t";
        let Ok(Command::Run(args)) = parse(line.split_whitespace()) else {
            panic!("not understood")
        };
        assert_eq!(args.files, ["a.toml", "paths"]);
        assert_eq!(args.only, ["GEO", "x=1,y"]);
        assert_eq!(
            (args.seed, args.runs.map(u32::from), args.jobs.map(usize::from)),
            (7, Some(3), Some(2))
        );
        assert_eq!((args.out(), args.traces()), (Some("o.jsonl".into()), Some("t".into())));
        assert!(!args.all);
    }

    #[test]
    fn page_has_its_results_and_traces_beside_it() {
        let Ok(Command::Run(args)) = parse(["sim", "run", "a", "--page", "r/a.html"]) else {
            panic!("not understood")
        };
        assert_eq!(args.out(), Some("r/a.jsonl".into()));
        assert_eq!(args.traces(), Some("r/a.traces".into()));
        let Ok(Command::Run(args)) = parse(["sim", "run", "a"]) else { panic!("not understood") };
        assert_eq!((args.out(), args.traces()), (None, None));
    }

    #[test]
    fn bad_usage_is_one_line_that_names_the_input() {
        for (line, named) in [
            ("sim", "no command"),
            ("sim run --all paths", "--all"),
            ("sim run --all --jobs 0", "'0' for '--jobs <N>': must be at least 1"),
            ("sim fuzz --cases 0", "'0' for '--cases <N>': must be at least 1"),
            ("sim fuzz --cc bbr3", "must be one of cubic, reno, bbr2"),
            ("sim walk", "'walk'"),
        ] {
            let Err(Stop::Usage(said)) = parse(line.split(' ')) else { panic!("{line}") };
            assert!(said.contains(named) && said.ends_with("see sim --help"), "{said}");
            assert!(!said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn run_without_files_tells_what_can_be_run() {
        let Err(Stop::Usage(said)) = parse(["sim", "run"]) else { panic!("understood") };
        assert_eq!(said, NOTHING_TO_RUN);
    }
}
