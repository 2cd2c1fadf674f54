//! Random loss.

use report::page::note;

use super::gains::loss_row;
use super::gains::loss_table;
use super::groups::by_controller;
use crate::evaluation::data::Chapter;
use crate::evaluation::data::Pair;
use crate::evaluation::findings::Findings;
use crate::evaluation::names::controller_name;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;
use crate::interval::Interval;

/// By which ratio a run counts as slower, and how many runs may be, in %.
const SLOWER: f64 = 1.01;
const SLOWER_PERCENT: f64 = 5.0;

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let pairs = chapter.pairs();
    let heads =
        ["controller, path", "runs", "jumped", "retreated", "time, ratio", "slowest", "slower"];
    let mut html = page::table(&heads, &pairs.iter().map(row).collect::<Vec<_>>());
    let name =
        |p: &Pair| format!("{}, {}", controller_name(p.controller()), p.careful.parameter("case"));
    let losses = pairs.iter().map(|p| loss_row(name(p), p));
    html += &loss_table("controller, path", &losses.collect::<Vec<_>>());
    html += &note(
        "Time: the ratio of means. Slowest and slower are of runs with the same seed; slower: by more \
         than 1 %.",
    );
    let slower = by_controller(&pairs).into_iter().map(|(cc, of_cc)| {
        let all: Vec<f64> = of_cc.iter().flat_map(|pair| ratios(pair)).collect();
        Figure::new(cc, slower_percent(&all))
    });
    let longest = pairs.iter().map(|pair| Figure::new(pair.careful.label(), pair.ratio()));
    let verdicts = vec![
        Verdict::at_most(
            "lossy: Careful Resume is slower in at most 5 runs of 100",
            SLOWER_PERCENT,
            (1, " %"),
            slower.collect(),
        ),
        Verdict::at_most(
            "lossy: Careful Resume takes less time in the mean",
            1.0,
            (3, ""),
            longest.collect(),
        ),
    ];
    Ok(Findings { html, verdicts, ..Findings::default() })
}

/// Returns the ratio to slow start's time, of each seed.
fn ratios(pair: &Pair) -> Vec<f64> {
    pair.by_seed(|flow| flow.ttlb_ms).iter().map(|(careful, slow)| careful / slow).collect()
}

/// Returns how many are slower, in %.
fn slower_percent(ratios: &[f64]) -> Interval {
    let slower = ratios.iter().map(|ratio| if *ratio > SLOWER { 100.0 } else { 0.0 });
    Interval::mean(&slower.collect::<Vec<_>>())
}

fn row(pair: &Pair) -> Vec<String> {
    let ratios = ratios(pair);
    let jumped = pair.careful.judged(|f| f.jump_cwnd_bytes.is_some());
    let slowest = ratios.iter().copied().fold(f64::NAN, f64::max);
    vec![
        format!("{}, {}", controller_name(pair.controller()), pair.careful.parameter("case")),
        ratios.len().to_string(),
        jumped.into_iter().filter(|jumped| *jumped).count().to_string(),
        pair.careful.retreats().to_string(),
        page::interval(pair.ratio(), 3),
        page::number(slowest, 3),
        format!("{} %", page::interval(slower_percent(&ratios), 1)),
    ]
}
