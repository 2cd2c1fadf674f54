//! Comparison of the two sides of scenarios, which run in processes of their own.

use crate::catalogue;
use crate::cli::Choice;
use crate::cli::Side;
use crate::cli::Table;
use crate::determinism::MASK_RDRAND;
use crate::exceptions::Exceptions;
use crate::scenario::Scenario;
use crate::trace;
use crate::trace::FAULT;
use anyhow::bail;
use anyhow::Context;
use anyhow::Result;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Mutex;
use std::thread;

/// Lines before a difference that its report shows.
const CONTEXT: usize = 4;

/// Reports of differences that are printed in full.
const REPORTS_MAX: usize = 10;

/// Finds the patch that changes a scenario.
const BISECT: &str =
    "make bisect BUILD='cargo build --manifest-path tools/same-packets/Cargo.toml'";

/// Result of one scenario.
#[derive(Debug)]
enum Outcome {
    /// The datagrams of both sides, which are the same.
    Same(usize),

    /// The first difference.
    Differs(String),

    /// What an application noticed that no connection may do, on either side.
    Faulty(String),
}

/// Compares scenarios and prints the result. Returns whether it is as the table says.
pub fn compare_all(choice: &Choice, table: &Table, release: Option<&Path>) -> Result<bool> {
    let exceptions = exceptions(table)?;
    let names = chosen(choice)?;
    let known = read_known(release)?;
    let (outcomes, hashes): (Vec<_>, Vec<_>) =
        for_each(&names, |name| compare(name, known.get(name)))?.into_iter().unzip();
    if let Some(file) = release {
        write_known(file, &names, &hashes)?;
    }
    let verdict = judge(&names, &outcomes, &exceptions);
    print!("{}", verdict.text);
    Ok(verdict.is_right)
}

/// Reads the hashes of the release's traces of an earlier comparison.
fn read_known(file: Option<&Path>) -> Result<BTreeMap<String, u64>> {
    let Some(file) = file.filter(|f| f.exists()) else {
        return Ok(BTreeMap::new());
    };
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    text.lines()
        .map(|line| {
            let (name, hash) = line.split_once(' ')?;
            Some((name.to_string(), hash.parse().ok()?))
        })
        .collect::<Option<_>>()
        .with_context(|| {
            format!("{} has other lines than a name and a hash: delete it", file.display())
        })
}

fn write_known(file: &Path, names: &[String], hashes: &[u64]) -> Result<()> {
    let lines: String = names.iter().zip(hashes).map(|(name, h)| format!("{name} {h}\n")).collect();
    fs::write(file, lines).with_context(|| format!("cannot write {}", file.display()))
}

/// Compares the table with what a file says. Returns whether they agree.
pub fn check_table(changes: &Path, choice: &Choice, table: &Table) -> Result<bool> {
    let found = fs::read_to_string(changes)
        .with_context(|| format!("cannot read {}", changes.display()))?;
    let differences = exceptions(table)?.differences(&found, &chosen(choice)?);
    for line in &differences {
        println!("{line}");
    }
    Ok(differences.is_empty())
}

fn exceptions(table: &Table) -> Result<Exceptions> {
    match (&table.exceptions, &table.series) {
        (Some(page), Some(series)) => {
            let exceptions = Exceptions::read(page, series, table.applied)?;
            for name in exceptions.scenarios() {
                known(name).with_context(|| format!("table of {}", page.display()))?;
            }
            Ok(exceptions)
        }
        _ => Ok(Exceptions::default()),
    }
}

/// Result of all scenarios.
struct Verdict {
    text: String,
    is_right: bool,
}

fn judge(names: &[String], outcomes: &[Outcome], exceptions: &Exceptions) -> Verdict {
    let mut datagrams = 0;
    let mut excepted = 0;
    let mut wrong = Vec::new();
    let mut hint = String::new();
    for (name, outcome) in names.iter().zip(outcomes) {
        let reasons = exceptions.of(name);
        match outcome {
            Outcome::Same(count) if reasons.is_empty() => datagrams += count,
            Outcome::Same(_) => wrong.push(format!(
                "{name}: is the same, and the table says that {} changes it: remove it there\n",
                reasons.join(", ")
            )),
            Outcome::Faulty(line) => wrong.push(format!("{name}: {line}\n")),
            Outcome::Differs(_) if !reasons.is_empty() => excepted += 1,
            Outcome::Differs(report) => {
                if hint.is_empty() {
                    hint = format!("this finds the patch: {BISECT} RUN='same-packets compare --scenario {name}'\n");
                }
                let is_shown = wrong.len() < REPORTS_MAX;
                let report = if is_shown { format!("{report}\n") } else { String::new() };
                wrong.push(format!("{name}: differs\n{report}"));
            }
        }
    }
    let same = names.len() - excepted - wrong.len();
    let count =
        format!("{same} of {} scenarios are the same, in {datagrams} datagrams", names.len());
    let text = format!(
        "{}{hint}{count}; {excepted} differ as the table says; {} wrong\n",
        wrong.concat(),
        wrong.len()
    );
    Verdict { text, is_right: wrong.is_empty() }
}

/// Prints a hash of the fork's trace of each scenario.
pub fn print_digests(choice: &Choice) -> Result<()> {
    let names = chosen(choice)?;
    let digests = for_each(&names, |name| Ok(trace::hash(run_side(Side::Fork, name)?.as_bytes())))?;
    for (name, digest) in names.iter().zip(digests) {
        println!("{name} {digest:016x}");
    }
    Ok(())
}

fn chosen(choice: &Choice) -> Result<Vec<String>> {
    for name in &choice.scenarios {
        known(name)?;
    }
    let mut names = choice.scenarios.clone();
    if names.is_empty() {
        names = catalogue::named().into_iter().map(|s| s.name).collect();
    }
    names.extend((0..choice.random).map(|n| catalogue::random(choice.seed + n).name));
    Ok(names)
}

/// Returns a scenario by its name.
pub fn known(name: &str) -> Result<Scenario> {
    catalogue::find(name)
        .with_context(|| format!("no scenario '{name}': same-packets list prints their names"))
}

/// Calls a function for each scenario, on all processors. Returns the results in order.
fn for_each<T: Send>(names: &[String], call: impl Fn(&str) -> Result<T> + Sync) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                while let Some(name) = names.get(next.fetch_add(1, Relaxed)) {
                    let result = call(name).with_context(|| format!("scenario {name}"));
                    results.lock().expect("no panic").push((name, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no panic");
    results.sort_by_key(|(name, _)| names.iter().position(|n| n == *name));
    results.into_iter().map(|(_, result)| result).collect()
}

/// Compares both sides of a scenario, and the release with itself unless the hash of its
/// trace is known. Returns that hash as well.
fn compare(name: &str, known: Option<&u64>) -> Result<(Outcome, u64)> {
    let fork = run_side(Side::Fork, name)?;
    let release = match known {
        Some(hash) if *hash == trace::hash(fork.as_bytes()) => fork.clone(),
        _ => run_side(Side::Release, name)?,
    };
    let hash = trace::hash(release.as_bytes());
    let itself = match known {
        Some(known) if *known == hash => None,
        Some(_) => Some("its trace has another hash than before: delete that file".to_string()),
        None => first_difference(&release, &run_side(Side::Release, name)?),
    };
    if let Some(report) = itself {
        bail!("the release differs from itself, so that the comparison proves nothing:\n{report}");
    }
    Ok((outcome(&release, &fork), hash))
}

fn outcome(release: &str, fork: &str) -> Outcome {
    let fault = |side, trace: &str| {
        let line = trace.lines().find(|line| line.starts_with('#') && line.contains(FAULT))?;
        Some(Outcome::Faulty(format!("{side}: {line}")))
    };
    if let Some(faulty) = fault("fork", fork).or_else(|| fault("release", release)) {
        return faulty;
    }
    match first_difference(release, fork) {
        Some(report) => Outcome::Differs(report),
        None => Outcome::Same(datagrams(release)),
    }
}

fn datagrams(trace: &str) -> usize {
    trace.lines().filter(|line| !line.starts_with('#')).count()
}

/// Runs one side in a process of its own. Returns its trace, or how it failed.
fn run_side(side: Side, name: &str) -> Result<String> {
    let side = match side {
        Side::Release => "release",
        Side::Fork => "fork",
    };
    let (variable, value) = MASK_RDRAND;
    let output = Command::new(std::env::current_exe()?)
        .args(["trace", "--side", side, name])
        .env(variable, value)
        .output()?;
    let mut trace = String::from_utf8(output.stdout)?;
    if !output.status.success() {
        // A panic of the crate is a result as well. Its first line has the process's number.
        let stderr = String::from_utf8_lossy(&output.stderr);
        let lines = stderr.lines().filter(|line| !line.is_empty() && !line.starts_with("thread "));
        let text: String = lines.map(|line| format!("# {line}\n")).collect();
        trace += &format!("# failed: {}\n{text}", output.status);
    }
    Ok(trace)
}

/// Returns the first lines that differ, with some before.
fn first_difference(release: &str, fork: &str) -> Option<String> {
    let release: Vec<&str> = release.lines().collect();
    let fork: Vec<&str> = fork.lines().collect();
    let equal = release.iter().zip(&fork).take_while(|(a, b)| a == b).count();
    if equal == release.len() && equal == fork.len() {
        return None;
    }
    let before = release[equal.saturating_sub(CONTEXT)..equal]
        .iter()
        .map(|line| format!("          {line}"));
    let line = |lines: &[&str]| lines.get(equal).copied().unwrap_or("(ends)").to_string();
    let lines = [
        format!("  release {}", line(&release)),
        format!("  fork    {}", line(&fork)),
        format!("  after {equal} lines, of {} and {}", release.len(), fork.len()),
    ];
    Some(before.chain(lines).collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(is_same: bool, page: &str) -> Verdict {
        let exceptions = Exceptions::parse(page, "10-fixes/01-lib-one.patch", None).unwrap();
        let outcome = if is_same { Outcome::Same(9) } else { Outcome::Differs("here".to_string()) };
        judge(&["a".to_string()], &[outcome], &exceptions)
    }

    const ROW: &str = "| `10-fixes/lib-one` | `a` | because |";

    #[test]
    fn difference_must_be_in_the_table() {
        assert!(verdict(false, ROW).is_right);
        let wrong = verdict(false, "");
        assert!(!wrong.is_right);
        assert!(wrong.text.starts_with("a: differs\nhere\n"), "{}", wrong.text);
        assert!(wrong.text.contains("\n0 of 1 scenarios"), "{}", wrong.text);
    }

    #[test]
    fn stale_exception_is_an_error() {
        assert!(verdict(true, "").is_right);
        let wrong = verdict(true, ROW);
        assert!(!wrong.is_right);
        assert!(wrong.text.contains("10-fixes/lib-one"), "{}", wrong.text);
    }

    #[test]
    fn hint_follows_differences_only() {
        assert!(verdict(false, "").text.contains("make bisect BUILD="));
        assert!(!verdict(true, ROW).text.contains("make bisect"));
    }

    #[test]
    fn fault_is_an_error_even_if_both_sides_have_it() {
        let trace = format!("# 1.0 Client{FAULT}here\n");
        let outcomes = [outcome(&trace, &trace), outcome(&trace, "")];
        let exceptions = Exceptions::parse(ROW, "10-fixes/01-lib-one.patch", None).unwrap();
        for outcome in outcomes {
            let wrong = judge(&["a".to_string()], &[outcome], &exceptions);
            assert!(!wrong.is_right);
            assert!(wrong.text.contains("Client FAULT: here"), "{}", wrong.text);
        }
    }

    #[test]
    fn hashes_of_the_release_are_read_as_written() {
        let file = std::env::temp_dir().join(format!("same-packets-{}", std::process::id()));
        let names = ["a".to_string(), "b".to_string()];
        write_known(&file, &names, &[7, 1 << 63]).unwrap();
        let known = read_known(Some(&file)).unwrap();
        fs::write(&file, "a seven\n").unwrap();
        let error = read_known(Some(&file)).unwrap_err();
        fs::remove_file(&file).unwrap();
        assert_eq!(Vec::from_iter(known), [("a".to_string(), 7), ("b".to_string(), 1 << 63)]);
        assert!(error.to_string().contains("delete it"), "{error}");
        assert!(read_known(Some(&file)).unwrap().is_empty());
    }

    #[test]
    fn first_difference_has_the_lines_before() {
        assert_eq!(first_difference("1\n2\n", "1\n2\n"), None);
        let report = first_difference("1\n2\n3\n", "1\n2\n").unwrap();
        for line in ["2", "release 3", "fork    (ends)", "after 2 lines, of 3 and 2"] {
            assert!(report.lines().any(|l| l.trim() == line), "{report}");
        }
    }

    #[test]
    fn names_of_scenarios_are_different() {
        let names: std::collections::BTreeSet<String> =
            catalogue::named().into_iter().map(|s| s.name).collect();
        assert_eq!(names.len(), catalogue::named().len());
        assert!(known("random-7").is_ok() && known("random-x").is_err() && known("none").is_err());
    }
}
