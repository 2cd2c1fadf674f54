//! Comparison of the two sides of scenarios, which run in processes of their own.

use crate::catalogue;
use crate::cli::Choice;
use crate::cli::Side;
use crate::cli::Table;
use crate::determinism::MASK_RDRAND;
use crate::exceptions::Exceptions;
use crate::scenario::Scenario;
use crate::trace;
use anyhow::bail;
use anyhow::Context;
use anyhow::Result;
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

/// Result of one scenario.
#[derive(Debug)]
enum Outcome {
    /// The datagrams of both sides, which are the same.
    Same(usize),

    /// The first difference.
    Differs(String),
}

/// Compares scenarios and prints the result. Returns whether it is as the table says.
pub fn compare_all(choice: &Choice, table: &Table) -> Result<bool> {
    let exceptions = exceptions(table)?;
    let names = chosen(choice)?;
    let outcomes = for_each(&names, compare)?;
    let verdict = judge(&names, &outcomes, &exceptions);
    print!("{}", verdict.text);
    Ok(verdict.is_right)
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
    for (name, outcome) in names.iter().zip(outcomes) {
        let reasons = exceptions.of(name);
        match outcome {
            Outcome::Same(count) if reasons.is_empty() => datagrams += count,
            Outcome::Same(_) => wrong.push(format!(
                "{name}: is the same, and the table says that {} changes it: remove it there\n",
                reasons.join(", ")
            )),
            Outcome::Differs(_) if !reasons.is_empty() => excepted += 1,
            Outcome::Differs(report) if wrong.len() < REPORTS_MAX => {
                wrong.push(format!("{name}: differs\n{report}\n"))
            }
            Outcome::Differs(_) => wrong.push(format!("{name}: differs\n")),
        }
    }
    let same = names.len() - excepted - wrong.len();
    let count =
        format!("{same} of {} scenarios are the same, in {datagrams} datagrams", names.len());
    let text = format!(
        "{}{count}; {excepted} differ as the table says; {} wrong\n",
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

fn compare(name: &str) -> Result<Outcome> {
    let release = run_side(Side::Release, name)?;
    if let Some(report) = first_difference(&release, &run_side(Side::Release, name)?) {
        bail!("the release differs from itself, so that the comparison proves nothing:\n{report}");
    }
    let fork = run_side(Side::Fork, name)?;
    Ok(match first_difference(&release, &fork) {
        Some(report) => Outcome::Differs(report),
        None => Outcome::Same(release.lines().filter(|line| !line.starts_with('#')).count()),
    })
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
        assert!(wrong.text.starts_with("a: differs\nhere\n0 of 1 scenarios"), "{}", wrong.text);
    }

    #[test]
    fn stale_exception_is_an_error() {
        assert!(verdict(true, "").is_right);
        let wrong = verdict(true, ROW);
        assert!(!wrong.is_right);
        assert!(wrong.text.contains("10-fixes/lib-one"), "{}", wrong.text);
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
