//! Evaluation of outcomes: tables, plots and verdicts, in one report.
//!
//! A chapter a scenario file. What was asked and how is the file's own `about`;
//! a chapter adds what came out beside what was published and what a fluid model
//! allows. Verdicts are code: one that is broken fails the evaluation, and so
//! does a scenario without a result.

mod chapters;
mod data;
#[cfg(test)]
mod fake;
mod findings;
mod limits;
mod names;
mod page;
mod rules;
mod verdict;

use std::path::Path;

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
    /// Every breach, one line each; none when all is well.
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
/// A figure cannot be drawn.
pub fn report(outcomes: &[Outcome]) -> anyhow::Result<Evaluation> {
    report_of(&shipped::all()?, outcomes)
}

fn report_of(files: &[File], outcomes: &[Outcome]) -> anyhow::Result<Evaluation> {
    let chapters: Vec<Chapter> = files.iter().map(|f| Chapter::new(f, outcomes)).collect();
    let mut verdicts = vec![rules::present(files, &chapters, outcomes)];
    verdicts.extend(rules::everywhere(&chapters));

    let mut told = Vec::new();
    for chapter in &chapters {
        let findings = chapters::findings(chapter)?;
        verdicts.extend(findings.verdicts.iter().cloned());
        told.push((chapter, findings));
    }
    let html = page::html(&told, &verdicts);
    let text = page::text(&told, &verdicts);
    Ok(Evaluation { html, text, verdicts })
}

#[cfg(test)]
mod tests;
