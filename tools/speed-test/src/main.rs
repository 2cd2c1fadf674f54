//! Command line of speed-test. Reads the clock, which no other module does.

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use clap::Parser;
use command_line::Program;
use report::provenance::makers;
use report::record::write_json_lines;
use report::record::Download;
use speed_test::about::about;
use speed_test::keep::prune_qlogs;
use speed_test::page;
use speed_test::page::heading::Heading;
use speed_test::path::parse_own_path;
use speed_test::path::parse_path;
use speed_test::path::PathSpec;
use speed_test::path::DEFAULT_PATHS;
use speed_test::path::PATHS;
use speed_test::process::Programs;
use speed_test::remote;
use speed_test::runner;
use speed_test::runner::Plan;
use speed_test::scenario;
use speed_test::summary::groups;
use speed_test::summary::text_table;
use speed_test::verdict::failures;
use speed_test::verdict::notes;

const PROGRAM: Program = Program("speed-test");

/// Measurement of what Careful Resume gains
///
/// Downloads over emulated paths, with slow start and with path state that an
/// earlier connection saved, and reports times, bounds and phases. Fails if a
/// figure cannot be right: a time under its bound, a wrong saved capacity,
/// unexpected phases, or loss caused by the jump.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// Paths to emulate: 500M, LEO, GEO, GEO-1MB, GEO-10MB, LEO-150M, fibre, 5G,
    /// terrestrial [default: the first three]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = parse_path,
          conflicts_with = "remote")]
    paths: Vec<PathSpec>,

    /// A path of your own: Mbit/s, RTT in ms, buffer and object in bytes, kB, MB or bdp, as in
    /// 50,600,1bdp,3.75MB. May be repeated
    #[arg(long, value_name = "RATE,RTT,BUFFER,SIZE", value_parser = parse_own_path,
          conflicts_with = "remote")]
    path: Vec<PathSpec>,

    /// A scenario file of the simulator, of which it takes the paths and the size of the object. May be
    /// repeated
    #[arg(long, value_name = "FILE", conflicts_with = "remote")]
    scenario: Vec<String>,

    /// Number of downloads of each kind [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,

    /// Congestion controller of edge-server
    #[arg(long, value_name = "NAME", default_value = "cubic",
          value_parser = ["cubic", "reno", "bbr2"], conflicts_with = "remote")]
    cc: String,

    /// One download of each kind over the first path, unless --runs, --path, --paths or --scenario is
    /// given
    #[arg(long)]
    quick: bool,

    /// Another server program to compare slow start with; it must support --listen,
    /// --root and --speedtest
    #[arg(long, value_name = "PROGRAM", conflicts_with = "remote")]
    pristine_server: Option<PathBuf>,

    /// Also with the request in early data (0-RTT), by a client that has a token: the jump then comes a
    /// round trip earlier
    #[arg(long, conflicts_with = "remote")]
    early_data: bool,

    /// Download from this URL over the real path instead
    #[arg(long, value_name = "URL")]
    remote: Option<String>,

    /// Accept any certificate of the remote server
    #[arg(long, requires = "remote")]
    insecure: bool,

    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "results")]
    out: PathBuf,

    /// Keep the qlog of every download, not only of first connections, of those
    /// that the page draws and of those that violate a rule
    #[arg(long)]
    keep_qlogs: bool,
}

impl Args {
    fn runs(&self) -> u32 {
        self.runs.unwrap_or(if self.quick { 1 } else { 5 })
    }

    /// Returns the paths to measure.
    ///
    /// # Errors
    ///
    /// One line about a file of --scenario.
    fn paths(&self) -> anyhow::Result<Vec<PathSpec>> {
        let mut paths = [self.paths.clone(), self.path.clone()].concat();
        for file in &self.scenario {
            paths.extend(scenario::read(file).map_err(anyhow::Error::msg).context("--scenario")?);
        }
        if paths.is_empty() {
            paths = PATHS[..if self.quick { 1 } else { DEFAULT_PATHS }].to_vec();
        }
        Ok(paths)
    }
}

fn main() -> ExitCode {
    let args: Args = match command_line::parse(std::env::args_os()) {
        Ok(args) => args,
        Err(stop) => return PROGRAM.stop(&stop),
    };
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => PROGRAM.fail(format_args!("{error:#}")),
    }
}

/// Returns whether every check passed.
fn run(args: &Args) -> anyhow::Result<bool> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot catch signals")?;
    }
    let programs = Programs::beside_executable()?;
    fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot make {}, name another --out", args.out.display()))?;

    let (mut downloads, about) = match &args.remote {
        Some(url) => {
            let all = remote::run(&programs.client, url, args.runs(), args.insecure, &stop)?;
            (all, remote::about(url, args.runs()))
        }
        None => {
            let plan = Plan {
                paths: args.paths()?,
                runs: args.runs(),
                cc: args.cc.clone(),
                pristine_server: args.pristine_server.clone(),
                early_data: args.early_data,
                results: args.out.clone(),
            };
            (runner::run(&plan, &programs, &stop)?, about(&plan))
        }
    };
    if !args.keep_qlogs {
        prune_qlogs(&args.out, &mut downloads)?;
    }
    finish(&args.out, &downloads, about)
}

/// Writes and prints the results. Returns whether every check passed.
fn finish(results: &Path, downloads: &[Download], mut about: Vec<String>) -> anyhow::Result<bool> {
    let json_lines = results.join("speed-test.jsonl");
    write_json_lines(&json_lines, downloads)?;

    let (failures, notes) = (failures(downloads), notes(downloads));
    about.extend(provenance(downloads));
    let heading = Heading { date: date(), about, failures: failures.clone(), notes: notes.clone() };
    let timeline = |d: &Download| page::timeline_in(results, d);
    let text = page::render(&heading, downloads, &timeline)?;
    let html = results.join("speed-test.html");
    fs::write(&html, text).with_context(|| format!("cannot write {}", html.display()))?;

    print!("{}", text_table(&groups(downloads)));
    println!("written: {}, {}", json_lines.display(), html.display());
    for line in notes.iter().chain(&failures) {
        PROGRAM.say(line);
    }
    Ok(failures.is_empty())
}

/// Says what made the downloads.
fn provenance(downloads: &[Download]) -> Vec<String> {
    let made = || downloads.iter().map(|download| &download.provenance);
    let mut commands: Vec<&str> = made().map(|made| made.command.as_str()).collect();
    commands.dedup();
    vec![format!(
        "Made by {}: {}. Every line of speed-test.jsonl has all settings.",
        makers(made()).join("; "),
        commands.join("; ")
    )]
}

/// Returns the time of the report.
#[expect(clippy::disallowed_methods, reason = "the one reading of the clock, for the page's date")]
fn date() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use command_line::Stop;

    #[test]
    fn bad_usage_is_one_line_that_names_the_input() {
        for (line, named) in [
            ("speed-test --frobnicate", "'--frobnicate'"),
            ("speed-test --paths moon", "known paths are 500M"),
            ("speed-test --path 50,600", "50,600,1bdp,3.75MB"),
            ("speed-test --runs 0", "'0'"),
            ("speed-test --remote https://h/ --paths GEO", "--paths"),
        ] {
            let parsed = command_line::parse::<Args>(line.split(' '));
            let Err(Stop::Usage(said)) = parsed else { panic!("{line}") };
            assert!(said.contains(named) && said.ends_with("see speed-test --help"), "{said}");
            assert!(!said.contains('\n'), "{said}");
        }
    }
}
