//! Random loss.

use report::page::note;
use report::stats::mean;
use report::stats::Mean;

use super::groups::by_controller;
use crate::evaluation::data::Chapter;
use crate::evaluation::data::Pair;
use crate::evaluation::findings::Findings;
use crate::evaluation::names::controller_name;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;
use crate::outcome::Outcome;

/// By which ratio a run counts as slower, and how many runs may be, in %.
const SLOWER: f64 = 1.01;
const SLOWER_PERCENT: f64 = 5.0;

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let pairs = chapter.pairs();
    let heads =
        ["controller, path", "runs", "jumped", "retreated", "time, ratio", "slowest", "slower"];
    let mut html = page::table(&heads, &pairs.iter().map(row).collect::<Vec<_>>());
    html += &note(
        "Ratios are of runs with the same seed; ± is half of the 95 % interval of the mean; slower: \
         by more than 1 %.",
    );
    let slower = by_controller(&pairs).into_iter().map(|(cc, of_cc)| {
        let all: Vec<f64> = of_cc.iter().flat_map(|pair| ratios(pair)).collect();
        Figure::new(cc, slower_percent(&all))
    });
    let longest = pairs.iter().map(|pair| {
        let end = mean_ratio(pair).map_or(f64::NAN, |mean| mean.value + mean.error);
        Figure::new(pair.careful.label(), end)
    });
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
    let ratio = |run: &&Outcome| {
        let slow = pair.slow.runs.iter().find(|slow| slow.seed == run.seed)?;
        Some(run.flows[0].ttlb_ms / slow.flows[0].ttlb_ms)
    };
    pair.careful.runs.iter().filter_map(ratio).collect()
}

fn mean_ratio(pair: &Pair) -> Option<Mean> {
    mean(&ratios(pair))
}

fn slower_percent(ratios: &[f64]) -> f64 {
    let slower = ratios.iter().filter(|ratio| **ratio > SLOWER).count();
    100.0 * slower as f64 / ratios.len() as f64
}

fn row(pair: &Pair) -> Vec<String> {
    let ratios = ratios(pair);
    let jumped = pair.careful.judged(|f| f.jump_cwnd_bytes.is_some());
    let mean = mean_ratio(pair).map(|m| format!("{:.3} ± {:.3}", m.value, m.error));
    let slowest = ratios.iter().copied().fold(f64::NAN, f64::max);
    vec![
        format!("{}, {}", controller_name(pair.controller()), pair.careful.parameter("case")),
        ratios.len().to_string(),
        jumped.into_iter().filter(|jumped| *jumped).count().to_string(),
        pair.careful.retreats().to_string(),
        mean.unwrap_or_else(|| "–".into()),
        page::number(slowest, 3),
        format!("{:.1} %", slower_percent(&ratios)),
    ]
}
