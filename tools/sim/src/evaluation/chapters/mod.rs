//! Findings of each chapter.

mod buffers;
mod ceiling;
mod changed;
mod dynamics;
mod exits;
mod fairness;
mod grid;
mod lossy;
mod neighbours;
mod objects;
mod overshoot;
mod paths;
mod published;
mod random;
mod recovery;
mod visits;

use report::stats::median;

use super::data::Cell;
use super::data::Chapter;
use super::data::Pair;
use super::page;
use super::verdict::Figure;
use super::verdict::Verdict;
use super::Findings;
use crate::scenario::Controller;

/// The chapters that an evaluation has.
pub const STEMS: [&str; 17] = [
    "paths",
    "grid",
    "objects",
    "buffers",
    "overshoot",
    "exits",
    "ceiling",
    "random-steady",
    "random-jittery",
    "changed",
    "visits",
    "recovery",
    "fairness",
    "neighbours",
    "dynamics",
    "lossy",
    "published",
];

/// What came out of a chapter's scenarios.
///
/// # Errors
///
/// A figure cannot be drawn.
pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    match chapter.file.stem.as_str() {
        "paths" => paths::findings(chapter),
        "grid" => grid::findings(chapter),
        "objects" => objects::findings(chapter),
        "buffers" => buffers::findings(chapter),
        "overshoot" => overshoot::findings(chapter),
        "exits" => exits::findings(chapter),
        "ceiling" => ceiling::findings(chapter),
        "random-steady" => random::findings(chapter, &random::STEADY),
        "random-jittery" => random::findings(chapter, &random::JITTERY),
        "changed" => changed::findings(chapter),
        "visits" => visits::findings(chapter),
        "recovery" => recovery::findings(chapter),
        "fairness" => fairness::findings(chapter),
        "neighbours" => neighbours::findings(chapter),
        "dynamics" => dynamics::findings(chapter),
        "lossy" => lossy::findings(chapter),
        "published" => published::findings(chapter),
        other => anyhow::bail!("scenarios/{other}.toml has no chapter in the report"),
    }
}

/// What pairs of modes show, in a sentence.
fn gains(pairs: &[Pair]) -> String {
    let ratio = median(pairs.iter().map(Pair::ratio)).unwrap_or(f64::NAN);
    let ratios = page::range(pairs.iter().map(Pair::ratio), 2);
    let saved = page::range(pairs.iter().map(Pair::saved_rtts), 1);
    page::paragraph(&format!(
        "Careful Resume takes {ratios} of slow start's time (median {ratio:.2}) and saves {saved} \
         RTTs."
    ))
}

/// Careful Resume may take at most `limit` of slow start's time.
fn slower_nowhere(rule: &str, limit: f64, pairs: &[Pair]) -> Verdict {
    let figure = |p: &Pair| Figure::new(p.careful.who(), p.ratio());
    Verdict::at_most(rule, limit, (3, ""), pairs.iter().map(figure).collect())
}

/// Heads of [`gain_row`], after the name and the published figure.
const GAIN_HEADS: [&str; 8] =
    ["slow start", "bound", "Careful Resume", "bound", "ratio", "bound", "RTTs saved", "bound"];

/// Times and gains of a pair, each beside its bound.
fn gain_row(name: String, published: &str, pair: &Pair) -> Vec<String> {
    vec![
        name,
        published.into(),
        page::time(pair.slow.ttlb_ms()),
        page::time(pair.slow.bound_ms()),
        page::time(pair.careful.ttlb_ms()),
        page::time(pair.careful.bound_ms()),
        page::number(pair.ratio(), 2),
        page::number(pair.bound_ratio(), 2),
        page::number(pair.saved_rtts(), 1),
        page::number(pair.bound_saved_rtts(), 1),
    ]
}

/// A table of [`gain_row`]s. `name` heads its first column.
fn gain_table(name: &str, rows: &[Vec<String>]) -> String {
    let mut heads = vec![name, "published"];
    heads.extend(GAIN_HEADS);
    page::table(&heads, rows)
}

/// A chapter's pairs by congestion controller, with its name.
fn by_controller<'a>(pairs: &'a [Pair<'a>]) -> Vec<(&'static str, Vec<&'a Pair<'a>>)> {
    let controllers = distinct(pairs.iter().map(Pair::controller));
    let of = |cc| (controller_name(cc), pairs.iter().filter(|p| p.controller() == cc).collect());
    controllers.into_iter().map(of).collect()
}

/// As people write it.
pub fn controller_name(cc: Controller) -> &'static str {
    match cc {
        Controller::Cubic => "CUBIC",
        Controller::Reno => "Reno",
    }
}

/// The key of what may end slow start before loss does.
const EXIT: &str = "flow.slow_start_exit";

/// What ends slow start, as people write it.
fn exit_name(cell: &Cell) -> &'static str {
    match cell.said(EXIT).as_str() {
        "queue" => "a standing queue",
        "rapid" => "Rapid Start, a standing queue",
        "hystart" => "HyStart++",
        "search" => "SEARCH 4.0",
        "search-3" => "SEARCH 3.x",
        _ => "loss alone",
    }
}

/// Why Reno's slow start has no bound.
const RENO: &str = "Reno of quiche grows by a whole packet for each that is acknowledged, however \
    small, those of the handshake as well: its slow start more than doubles, gains less from a \
    jump, and has no bound here but the path's rate. ";

/// Values in the order of their first appearance.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut all = Vec::new();
    for value in values {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}
