//! Evaluation of outcomes: tables, plots and verdicts, in one report.
//!
//! Each scenario file has a chapter. The file's `about` has the question and the method; the
//! chapter compares the results with published figures and with the bounds of a fluid model.
//! Verdicts are code: a broken one fails the evaluation, and so does a scenario without a
//! result.

mod chapters;
mod data;
#[cfg(test)]
pub(crate) mod fake;
mod findings;
mod known_misses;
mod names;
mod page;
mod rules;
mod verdict;

use std::path::Path;

use anyhow::ensure;
use report::provenance::makers;

pub use verdict::Verdict;

use crate::outcome::Outcome;
use crate::scenario::file::File;
use crate::scenario::shipped;

use data::Chapter;

/// The report of an evaluation.
pub struct Evaluation {
    /// One page that needs no network.
    pub html: String,
    /// The key figures, for a terminal.
    pub text: String,
    pub verdicts: Vec<Verdict>,
}

impl Evaluation {
    /// Returns every breach, one line each.
    pub fn breaches(&self) -> impl Iterator<Item = String> + '_ {
        self.verdicts.iter().flat_map(Verdict::lines)
    }
}

/// Reads the outcomes that `sim run --out` wrote.
///
/// # Errors
///
/// The file cannot be read, or a line is not an outcome.
pub fn read(file: &Path) -> anyhow::Result<Vec<Outcome>> {
    report::record::read_json_lines(file, "an outcome of `sim run`")
}

/// Reports the outcomes of the scenario files that are part of the program.
///
/// # Errors
///
/// A file has no outcome at all, or a figure cannot be drawn.
pub fn report(outcomes: &[Outcome]) -> anyhow::Result<Evaluation> {
    let files = shipped::all()?;
    let was_run = |file: &&File| outcomes.iter().any(|o| o.scenario == file.stem);
    let missing: Vec<&str> =
        files.iter().filter(|f| !was_run(f)).map(|f| f.stem.as_str()).collect();
    ensure!(
        missing.is_empty(),
        "no results of {}: the report needs the results of sim run --all",
        missing.join(", ")
    );
    let mut evaluation = report_of(&files, outcomes)?;
    for rule in known_misses::stale(&evaluation.verdicts) {
        evaluation.text += &format!("{rule}: listed as missed, but met: see known_misses.rs\n");
    }
    Ok(evaluation)
}

fn report_of(files: &[File], outcomes: &[Outcome]) -> anyhow::Result<Evaluation> {
    let chapters: Vec<Chapter> = files.iter().map(|f| Chapter::new(f, outcomes)).collect();
    let mut verdicts = vec![rules::present(files, &chapters, outcomes)];
    verdicts.extend(rules::everywhere(&chapters));

    let mut found = Vec::new();
    for chapter in &chapters {
        let findings = chapters::findings(chapter)?;
        verdicts.extend(findings.verdicts.iter().cloned());
        found.push((chapter, findings));
    }
    let verdicts = known_misses::mark(verdicts);
    let html = page::html(&found, &verdicts, &made(outcomes));
    let text = page::text(&found, &verdicts);
    Ok(Evaluation { html, text, verdicts })
}

/// Says what made the results.
fn made(outcomes: &[Outcome]) -> String {
    let makers = makers(outcomes.iter().map(|outcome| &outcome.provenance)).join("; ");
    let seeds = outcomes.iter().map(|outcome| outcome.seed);
    let (first, last) = (seeds.clone().min().unwrap_or(0), seeds.max().unwrap_or(0));
    format!(
        "Made by {makers}, with sim run --all and seeds {first} to {last}. Every line of the results \
         has its seed, its settings and the command that repeats it."
    )
}

#[cfg(test)]
mod tests;
