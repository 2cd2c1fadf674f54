//! Gains of Careful Resume over slow start: a sentence, a table, and a rule.

use report::stats::median;

use crate::evaluation::data::Cell;
use crate::evaluation::data::Pair;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;
use crate::outcome::FlowOutcome;

/// Why Reno's slow start has no bound.
pub const RENO: &str =
    "Reno of quiche grows by a whole packet for each that is acknowledged, however \
    small, those of the handshake as well: its slow start more than doubles, gains less from a \
    jump, and has no bound here but the path's rate. ";

/// Heads of [`loss_row`], after the name.
const LOSS_HEADS: [&str; 8] = [
    "lost in all, slow start",
    "bytes",
    "lost in all, Careful Resume",
    "bytes",
    "of it before the jump was validated",
    "after",
    "more, BDP",
    "retreats",
];

/// Returns what a pair loses: packets, and bytes of payload, dropped on the path.
pub fn loss_row(name: String, pair: &Pair) -> Vec<String> {
    let mean = |cell: &Cell, figure: fn(&FlowOutcome) -> f64| page::interval(cell.mean(figure), 0);
    let kilobytes = |cell: &Cell| {
        format!("{} kB", page::number(cell.mean(|f| f.dropped_bytes as f64 / 1e3).value, 0))
    };
    let before = |f: &FlowOutcome| f.dropped_before_validated_packets.unwrap_or(0) as f64;
    let after = |f: &FlowOutcome| {
        f.dropped_before_validated_packets
            .map_or(0.0, |before| f.dropped_packets as f64 - before as f64)
    };
    vec![
        name,
        mean(pair.slow, |f| f.dropped_packets as f64),
        kilobytes(pair.slow),
        mean(pair.careful, |f| f.dropped_packets as f64),
        kilobytes(pair.careful),
        mean(pair.careful, before),
        mean(pair.careful, after),
        page::interval(pair.more_lost_bdp(), 3),
        format!("{} of {}", pair.careful.retreats(), pair.careful.runs.len()),
    ]
}

/// Returns a table of [`loss_row`]s under its heading. `name` heads its first column.
pub fn loss_table(name: &str, rows: &[Vec<String>]) -> String {
    let mut heads = vec![name];
    heads.extend(LOSS_HEADS);
    page::heading("What the jump costs: packets that the path drops, means")
        + &page::table(&heads, rows)
}

/// Describes the gains of pairs of modes in a sentence.
pub fn gains(pairs: &[Pair]) -> String {
    let ratio = median(pairs.iter().map(|p| p.ratio().value)).unwrap_or(f64::NAN);
    let ratios = page::range(pairs.iter().map(|p| p.ratio().value), 2);
    let saved = page::range(pairs.iter().map(|p| p.saved_rtts().value), 1);
    page::paragraph(&format!(
        "Careful Resume takes {ratios} of slow start's time (median {ratio:.2}) and saves {saved} \
         RTTs."
    ))
}

/// Checks that Careful Resume takes at most `limit` of slow start's time.
pub fn slower_nowhere(rule: &str, limit: f64, pairs: &[Pair]) -> Verdict {
    let figure = |p: &Pair| Figure::new(p.careful.label(), p.ratio());
    Verdict::at_most(rule, limit, (3, ""), pairs.iter().map(figure).collect())
}

/// Heads of [`gain_row`], after the name and the published figure.
const GAIN_HEADS: [&str; 8] =
    ["slow start", "bound", "Careful Resume", "bound", "ratio", "bound", "RTTs saved", "bound"];

/// Returns the times and gains of a pair, each beside its bound.
pub fn gain_row(name: String, published: &str, pair: &Pair) -> Vec<String> {
    vec![
        name,
        published.into(),
        page::time(pair.slow.ttlb_ms()),
        page::time(pair.slow.bound_ms()),
        page::time(pair.careful.ttlb_ms()),
        page::time(pair.careful.bound_ms()),
        page::interval(pair.ratio(), 2),
        page::number(pair.bound_ratio(), 2),
        page::interval(pair.saved_rtts(), 1),
        page::number(pair.bound_saved_rtts(), 1),
    ]
}

/// Returns a table of [`gain_row`]s. `name` heads its first column.
pub fn gain_table(name: &str, rows: &[Vec<String>]) -> String {
    let mut heads = vec![name, "published"];
    heads.extend(GAIN_HEADS);
    page::table(&heads, rows)
}
