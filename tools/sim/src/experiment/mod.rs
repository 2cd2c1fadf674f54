//! Report of one's own experiment: figures and tables of the results of any scenarios.
//!
//! Owns the page. [`groups`] sorts the downloads into what is compared, [`figures`] draws what
//! several runs have in common, [`map`] what depends on two numbers, and [`series`] one run over time
//! from its traces.

mod figures;
mod groups;
mod map;
mod series;
mod tables;

use std::fmt::Write;
use std::path::Path;

use anyhow::ensure;
use report::page::escape;
use report::page::note;
use report::page::page;
use report::provenance::makers;

use self::groups::Groups;
use crate::outcome::Outcome;

/// Runs whose time series are drawn; a page of more is not read.
pub const TRACED_MAX: usize = 8;

/// Returns a page about `outcomes`, with what the folder `traces` has of them, beside which so many
/// runs failed.
///
/// # Errors
///
/// There is no outcome, a trace cannot be read, or a figure cannot be drawn.
pub fn html(
    title: &str,
    outcomes: &[Outcome],
    failed: usize,
    traces: Option<&Path>,
) -> anyhow::Result<String> {
    ensure!(!outcomes.is_empty() || failed == 0, "no page: every run failed");
    ensure!(!outcomes.is_empty(), "no results: run sim run --out FILE first");
    let groups = Groups::new(outcomes);
    let mut body = heading(outcomes);
    if failed > 0 {
        let runs = outcomes.len() + failed;
        let words = format!("{failed} of {runs} runs failed, and are in no figure.");
        let _ = writeln!(body, "<p class=\"bad\">{words}</p>");
    }
    body.push_str(&figures::html(&groups)?);
    body.push_str(&map::html(&groups)?);
    body.push_str(&tables::html(&groups));
    if let Some(folder) = traces {
        body.push_str(&over_time(outcomes, folder)?);
    }
    body.push_str(&provenance(outcomes));
    Ok(page(title, &body))
}

fn heading(outcomes: &[Outcome]) -> String {
    let seeds: std::collections::BTreeSet<u64> = outcomes.iter().map(|o| o.seed).collect();
    let (Some(first), Some(last)) = (seeds.first(), seeds.last()) else { return String::new() };
    let flows: usize = outcomes.iter().map(|o| o.flows.len()).sum();
    let seeds = match seeds.len() {
        1 => format!("seed {first}"),
        count => format!("{count} seeds, {first} to {last}"),
    };
    let runs = outcomes.len();
    let words = format!(
        "{runs} runs with {flows} downloads; {seeds}. A run of the same number has the same seed in every scenario."
    );
    format!("<p class=\"date\">{}</p>\n", escape(&words))
}

/// Draws the traced runs, the first of each scenario first.
fn over_time(outcomes: &[Outcome], folder: &Path) -> anyhow::Result<String> {
    let mut html = String::from("<h2>Runs over time</h2>\n");
    let traced = |outcome: &&Outcome| series::folder(outcome, folder).is_dir();
    let mut drawn: Vec<&Outcome> = outcomes.iter().filter(traced).collect();
    drawn.sort_by_key(|outcome| outcome.run);
    for outcome in drawn.iter().take(TRACED_MAX) {
        html.push_str(&series::html(outcome, &series::folder(outcome, folder))?);
    }
    if drawn.is_empty() {
        let words = format!("No run has a trace in {}.", folder.display());
        html.push_str(&note(&words));
    } else if drawn.len() > TRACED_MAX {
        let words = format!("{} of {} traced runs are drawn.", TRACED_MAX, drawn.len());
        html.push_str(&note(&words));
    }
    Ok(html)
}

/// Says what made the results, each thing once.
fn provenance(outcomes: &[Outcome]) -> String {
    let mut html = String::from("<h2>How to make this again</h2>\n<ul>\n");
    for maker in makers(outcomes.iter().map(|outcome| &outcome.provenance)) {
        let _ = writeln!(html, "<li>{}</li>", escape(&maker));
    }
    for outcome in outcomes.iter().filter(|outcome| outcome.run == 1) {
        let made = &outcome.provenance;
        let _ = writeln!(
            html,
            "<li><code>{}</code><details><summary>settings</summary><pre>{}</pre></details></li>",
            escape(&made.command),
            escape(&serde_json::to_string_pretty(&made.settings).unwrap_or_default())
        );
    }
    html + "</ul>\n"
}
