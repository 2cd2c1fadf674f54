//! Gains of Careful Resume over slow start: a sentence, a table, and a rule.

use report::stats::median;

use crate::evaluation::data::Pair;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;

/// Why Reno's slow start has no bound.
pub const RENO: &str =
    "Reno of quiche grows by a whole packet for each that is acknowledged, however \
    small, those of the handshake as well: its slow start more than doubles, gains less from a \
    jump, and has no bound here but the path's rate. ";

/// Describes the gains of pairs of modes in a sentence.
pub fn gains(pairs: &[Pair]) -> String {
    let ratio = median(pairs.iter().map(Pair::ratio)).unwrap_or(f64::NAN);
    let ratios = page::range(pairs.iter().map(Pair::ratio), 2);
    let saved = page::range(pairs.iter().map(Pair::saved_rtts), 1);
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
        page::number(pair.ratio(), 2),
        page::number(pair.bound_ratio(), 2),
        page::number(pair.saved_rtts(), 1),
        page::number(pair.bound_saved_rtts(), 1),
    ]
}

/// Returns a table of [`gain_row`]s. `name` heads its first column.
pub fn gain_table(name: &str, rows: &[Vec<String>]) -> String {
    let mut heads = vec![name, "published"];
    heads.extend(GAIN_HEADS);
    page::table(&heads, rows)
}
