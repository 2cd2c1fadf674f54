//! Slow start where the RTT swings.

use report::page::note;

use super::groups::distinct;
use crate::evaluation::data::paired;
use crate::evaluation::data::Cell;
use crate::evaluation::data::Chapter;
use crate::evaluation::findings::Findings;
use crate::evaluation::names::EXIT;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;
use crate::interval::Interval;

/// Time with the exit at a queue over that with HyStart++: by the largest swing,
/// as a share of the RTT, what is allowed.
const TIME_RATIO_MAX: [(f64, f64); 2] = [(0.2, 1.25), (0.3, 1.5)];

/// Two outcomes that differ by the slow-start exit alone.
struct ExitPair<'a> {
    queue: &'a Cell<'a>,
    hystart: &'a Cell<'a>,
}

impl ExitPair<'_> {
    /// Returns the share of the RTT that swings.
    fn share(&self) -> f64 {
        self.queue.named.scenario.path.swing.map_or(0.0, |swing| swing.rtt_share)
    }

    fn time_ratio(&self) -> Interval {
        Interval::ratio_of_means(&paired(self.queue, self.hystart, |flow| flow.ttlb_ms))
    }
}

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let pairs = exit_pairs(chapter);
    let heads = [
        "path, controller",
        "runs",
        "time, HyStart++",
        "time, queue",
        "ratio",
        "lost, HyStart++",
        "lost, queue",
    ];
    let mut html = page::table(&heads, &pairs.iter().map(row).collect::<Vec<_>>());
    html += &note("Means over the runs; lost: packets that the bottleneck dropped.");
    let mut least = 0.0;
    let mut verdicts = Vec::new();
    for (most, bound) in TIME_RATIO_MAX {
        let is = |pair: &&ExitPair| pair.share() > least && pair.share() <= most;
        let figure = |pair: &ExitPair| Figure::new(pair.queue.label(), pair.time_ratio());
        verdicts.push(Verdict::at_most(
            &format!("swinging: by {most} RTTs, at most {bound} times HyStart++'s time"),
            bound,
            (2, ""),
            pairs.iter().filter(is).map(figure).collect(),
        ));
        least = most;
    }
    let more = |pair: &ExitPair| {
        let dropped = paired(pair.queue, pair.hystart, |flow| flow.dropped_packets as f64);
        Interval::difference(&dropped)
    };
    verdicts.push(Verdict::at_most(
        "swinging: a queue as the exit loses no more than HyStart++",
        0.0,
        (1, " packets"),
        pairs.iter().map(|pair| Figure::new(pair.queue.label(), more(pair))).collect(),
    ));
    Ok(Findings { html, verdicts, ..Findings::default() })
}

fn exit_pairs<'a>(chapter: &'a Chapter) -> Vec<ExitPair<'a>> {
    let place = |cell: &Cell| {
        let mut parameters = cell.named.parameters.clone();
        parameters.remove(EXIT);
        parameters
    };
    let of = |wanted: &_, exit: &str| {
        chapter.cells.iter().find(|cell| place(cell) == *wanted && cell.parameter(EXIT) == exit)
    };
    distinct(chapter.cells.iter().map(place))
        .iter()
        .filter_map(|place| {
            Some(ExitPair { queue: of(place, "queue")?, hystart: of(place, "hystart")? })
        })
        .collect()
}

fn dropped(cell: &Cell) -> String {
    page::interval(cell.mean(|flow| flow.dropped_packets as f64), 1)
}

fn row(pair: &ExitPair) -> Vec<String> {
    vec![
        pair.queue.label(),
        pair.queue.runs.len().to_string(),
        page::time(pair.hystart.ttlb_ms()),
        page::time(pair.queue.ttlb_ms()),
        page::interval(pair.time_ratio(), 2),
        dropped(pair.hystart),
        dropped(pair.queue),
    ]
}
