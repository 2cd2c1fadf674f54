//! Runner of every run of every scenario, on several threads, with results in order.
//!
//! Owns the runs and their seeds. Neither the lines nor their order depend on the number
//! of threads. [`world`] simulates a run. Runs that differ by what a flow with slow start does not
//! use are one simulation.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::collections::HashMap;
use std::io::Write;
use std::panic::catch_unwind;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;

use anyhow::ensure;
use anyhow::Context;
use report::provenance::Provenance;
use sim::outcome::Outcome;
use sim::scenario::file::File;
use sim::scenario::file::Named;
use sim::scenario::Mode;
use sim::trace;
use sim::world;

use crate::cli;
use crate::cli::RunArgs;
use crate::progress::Progress;

/// Cost of a run in packets besides its own packets: the handshake's keys.
const RUN_COST: u64 = 200;

/// Runs to do.
pub struct Plan {
    files: Vec<File>,
    runs: Vec<Run>,
    /// Indices of runs that are one simulation, the first of which is done.
    alike: Vec<Vec<usize>>,
    jobs: usize,
    trace: Option<PathBuf>,
    /// So many runs of each scenario are traced.
    traced_runs: u32,
}

/// One run of one scenario.
struct Run {
    file: usize,
    scenario: usize,
    /// From 1.
    number: u32,
    seed: u64,
}

/// Result of a plan.
pub struct Summary {
    pub runs: usize,
    pub failed: usize,
}

impl Plan {
    /// Runs of the same number have the same seed in every scenario, so that
    /// scenarios are compared under the same chance.
    ///
    /// # Errors
    ///
    /// An `--only` that nothing matches.
    pub fn new(files: Vec<File>, args: &RunArgs) -> anyhow::Result<Self> {
        for terms in &args.only {
            let found = files.iter().flat_map(|f| &f.scenarios).any(|s| s.matches(terms));
            ensure!(found, "--only {terms}: no scenario has it; {}", parameters_of(&files));
        }
        let mut runs = Vec::new();
        for (file, content) in files.iter().enumerate() {
            for (scenario, named) in content.scenarios.iter().enumerate() {
                if !args.only.is_empty() && !args.only.iter().any(|terms| named.matches(terms)) {
                    continue;
                }
                runs.extend((1..=args.runs.map_or(content.runs, u32::from)).map(|number| {
                    let seed = args.seed.wrapping_add(u64::from(number) - 1);
                    Run { file, scenario, number, seed }
                }));
            }
        }
        let traced_runs = if args.trace.is_some() { u32::MAX } else { 1 };
        let mut plan = Plan {
            files,
            runs,
            alike: Vec::new(),
            jobs: cli::jobs(args.jobs),
            trace: args.traces(),
            traced_runs,
        };
        plan.alike = plan.alike()?;
        Ok(plan)
    }

    /// Returns the indices of runs by what is simulated. A traced run has a folder of its own, and
    /// therefore none like it.
    fn alike(&self) -> anyhow::Result<Vec<Vec<usize>>> {
        let mut alike: Vec<Vec<usize>> = Vec::new();
        let mut places: HashMap<(String, u64), usize> = HashMap::new();
        for (index, run) in self.runs.iter().enumerate() {
            let simulated = self.named(run).scenario.as_simulated();
            let simulated = (serde_json::to_string(&simulated)?, run.seed);
            match places.get(&simulated).filter(|_| self.trace.is_none()) {
                Some(place) => alike[*place].push(index),
                None => {
                    places.insert(simulated, alike.len());
                    alike.push(vec![index]);
                }
            }
        }
        Ok(alike)
    }

    /// Returns the title of its page.
    pub fn title(&self) -> String {
        self.files.iter().map(|file| file.title.as_str()).collect::<Vec<_>>().join("; ")
    }

    /// Returns whether a connection of it uses Careful Resume.
    pub fn resumes(&self) -> bool {
        let flows = self.runs.iter().flat_map(|run| &self.named(run).scenario.flows);
        flows.into_iter().any(|flow| flow.mode == Mode::CarefulResume)
    }

    fn named(&self, run: &Run) -> &Named {
        &self.files[run.file].scenarios[run.scenario]
    }

    fn cost(&self, run: &Run) -> u64 {
        RUN_COST + self.named(run).scenario.data_packets()
    }

    /// Returns the command that repeats `run` alone.
    fn replay(&self, run: &Run) -> String {
        let name = &self.named(run).name;
        let only = if name.is_empty() { String::new() } else { format!(" --only {name}") };
        let source = &self.files[run.file].source;
        let source = match source.contains(char::is_whitespace) {
            true => format!("'{source}'"),
            false => source.clone(),
        };
        format!("sim run {source}{only} --seed {} --runs 1", run.seed)
    }

    /// Returns where the traces of `run` go: a folder of its own.
    fn trace_folder(&self, run: &Run) -> Option<PathBuf> {
        let stem = &self.files[run.file].stem;
        let traces = self.trace.as_ref().filter(|_| run.number <= self.traced_runs)?;
        Some(trace::folder_of(traces, stem, &self.named(run).name, run.seed))
    }

    fn simulate(&self, run: &Run) -> Result<Outcome, String> {
        let scenario = &self.named(run).scenario;
        let outcome = unpanicked(|| match self.trace_folder(run) {
            Some(folder) => world::run_traced(scenario, run.seed, &folder),
            None => world::run(scenario, run.seed),
        });
        outcome.map_err(|error| format!("{error:#}").replace('\n', " "))
    }

    /// Returns the run's JSON line, or its error and how to repeat it, from the outcome of its
    /// simulation.
    fn line(&self, run: &Run, outcome: &Result<Outcome, String>) -> Result<String, String> {
        let named = self.named(run);
        let line = outcome.clone().and_then(|outcome| {
            let outcome = Outcome {
                scenario: self.files[run.file].stem.clone(),
                parameters: named.parameters.clone(),
                run: run.number,
                provenance: Provenance::new(
                    "sim",
                    self.replay(run),
                    serde_json::to_value(&named.scenario).unwrap_or_default(),
                ),
                ..outcome
            };
            serde_json::to_string(&outcome).map_err(|error| format!("no JSON: {error}"))
        });
        line.map_err(|error| format!("seed {}: {error}; again: {}", run.seed, self.replay(run)))
    }
}

/// Describes the parameters of the files' scenarios for a message.
fn parameters_of(files: &[File]) -> String {
    let scenarios = files.iter().flat_map(|f| &f.scenarios);
    let mut keys: Vec<&String> = Vec::new();
    for key in scenarios.flat_map(|s| s.parameters.keys()) {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let keys: Vec<&str> = keys.into_iter().map(String::as_str).collect();
    match keys.is_empty() {
        true => "without lists and cases there are no parameters".into(),
        false => format!("the parameters are {}", keys.join(", ")),
    }
}

/// Does the plan, and writes one line a run to `out`, in the plan's order.
/// Reports runs that fail on standard error, and continues.
///
/// # Errors
///
/// If a line cannot be written to `out`.
pub fn run(plan: &Plan, out: &mut dyn Write) -> anyhow::Result<Summary> {
    let cost = |alike: &Vec<usize>| plan.cost(&plan.runs[alike[0]]);
    let mut progress = Progress::new(plan.runs.len(), plan.alike.iter().map(cost).sum());
    let mut summary = Summary { runs: plan.runs.len(), failed: 0 };
    let next = AtomicUsize::new(0);
    let (done, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..plan.jobs.min(plan.alike.len()) {
            let (done, next) = (done.clone(), &next);
            scope.spawn(move || {
                while let Some(alike) = take(plan, next) {
                    let outcome = plan.simulate(&plan.runs[alike[0]]);
                    for index in alike {
                        let line = plan.line(&plan.runs[*index], &outcome);
                        if done.send((*index, *index == alike[0], line)).is_err() {
                            return;
                        }
                    }
                }
            });
        }
        drop(done);

        let mut early = BTreeMap::new();
        let mut due = 0;
        for (index, is_simulated, result) in results {
            progress.done(if is_simulated { plan.cost(&plan.runs[index]) } else { 0 });
            early.insert(index, result);
            while let Some(result) = early.remove(&due) {
                due += 1;
                match result {
                    Ok(line) => writeln!(out, "{line}").context("cannot write results")?,
                    Err(line) => {
                        summary.failed += 1;
                        progress.say(&format!("sim: {line}"));
                    }
                }
            }
        }
        out.flush().context("cannot write results")?;
        Ok(summary)
    })
}

/// Takes the next runs that are one simulation.
fn take<'a>(plan: &'a Plan, next: &AtomicUsize) -> Option<&'a Vec<usize>> {
    plan.alike.get(next.fetch_add(1, Ordering::Relaxed))
}

/// Turns a panic in a run into an error of this run.
fn unpanicked<T>(run: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    thread_local! {
        static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
    }
    static QUIET: std::sync::Once = std::sync::Once::new();
    QUIET.call_once(|| {
        std::panic::set_hook(Box::new(|panic| MESSAGE.set(panic.to_string())));
    });
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(anyhow::anyhow!(MESSAGE.take())))
}
