//! Slow-start exits on paths that swing: P12 and P13.

use report::chart::axis::Unit;
use report::chart::bars;
use report::chart::palette::BLUE;
use report::chart::palette::ORANGE;
use report::chart::Bar;
use report::chart::Bars;
use report::page::figure;
use report::page::note;
use report::stats::median;

use super::groups::distinct;
use crate::evaluation::data::Cell;
use crate::evaluation::data::Chapter;
use crate::evaluation::findings::Findings;
use crate::evaluation::findings::Published;
use crate::evaluation::names::exit_name;
use crate::evaluation::names::EXIT;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;
use crate::interval::Interval;
use crate::outcome::FlowOutcome;

/// The poster's: path, id, share of right exits in %, seconds of capacity, exit
/// and loss.
const POSTER: [(&str, &str, f64, [f64; 3]); 2] =
    [("GEO", "P12", 64.6, [11.0, 12.4, 18.1]), ("LEO", "P13", 52.0, [0.5, 0.6, 0.7])];

/// One way to end slow start on one path.
struct PathExit<'a> {
    cell: &'a Cell<'a>,
    /// In the order of the runs: when the same seed loses its first packet
    /// where nothing else ends slow start, in ms.
    losses_ms: Vec<Option<f64>>,
}

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let rows = rows(chapter);
    let mut html = String::new();
    for (case, ..) in POSTER {
        let of_case: Vec<_> = rows.iter().filter(|r| r.cell.parameter("case") == case).collect();
        let caption = format!(
            "{case}: runs in which slow start ends after the path is full and before the first loss, with \
             95 % intervals, and the poster's share."
        );
        html += &figure(&caption, &bars(&chart(case, &of_case))?);
    }
    let heads = [
        "path, slow start ends by",
        "runs",
        "right",
        "too early",
        "too late",
        "capacity",
        "conservative from",
        "exit",
        "first loss without",
        "head room",
        "TTLB",
        "bound",
        "packets lost, mean",
        "kB",
    ];
    html += &page::table(&heads, &rows.iter().map(PathExit::cells).collect::<Vec<_>>());
    html += &note(
        "Times are medians since the client's first packet. HyStart++ ends slow start when the \
         rounds of its conservative slow start are over. Too late: after that loss, or by it, or never. \
         The bound is that of the path at its best.",
    );
    let verdicts = POSTER.map(|(case, id, share, _)| aim(&rows, case, id, share)).into();
    let published = POSTER.map(|poster| published(&rows, poster)).into();
    Ok(Findings { html, published, verdicts })
}

fn rows<'a>(chapter: &'a Chapter) -> Vec<PathExit<'a>> {
    let of = |case: &str, exit: &str| {
        chapter.cells.iter().find(|c| c.parameter("case") == case && c.parameter(EXIT) == exit)
    };
    let row = |cell: &'a Cell<'a>| {
        let free = of(&cell.parameter("case"), "none");
        let loss_ms = |seed: u64| {
            let run = free?.runs.iter().find(|run| run.seed == seed)?;
            run.flows[0].first_drop_ms
        };
        let losses_ms = cell.runs.iter().map(|run| loss_ms(run.seed)).collect();
        PathExit { cell, losses_ms }
    };
    distinct(chapter.cells.iter().map(|c| c.parameter("case")))
        .into_iter()
        .flat_map(|case| chapter.cells.iter().filter(move |c| c.parameter("case") == case))
        .map(row)
        .collect()
}

/// Returns when something other than loss ended slow start, in ms.
fn exit_ms(flow: &FlowOutcome) -> Option<f64> {
    flow.slow_start_end.as_ref().filter(|(_, why)| why != "loss").map(|(ms, _)| *ms)
}

impl PathExit<'_> {
    fn flows(&self) -> impl Iterator<Item = (&FlowOutcome, Option<f64>)> {
        let flows = self.cell.runs.iter().map(|run| &run.flows[0]);
        flows.zip(self.losses_ms.iter().copied())
    }

    /// Runs, in %, in which slow start ended before the path was full.
    fn early(&self) -> Interval {
        self.share(|flow, _| {
            let full_ms = flow.full_ms.unwrap_or(f64::INFINITY);
            exit_ms(flow).is_some_and(|ms| ms < full_ms)
        })
    }

    /// Runs, in %, in which it ended after that and before the first loss.
    fn right(&self) -> Interval {
        self.share(|flow, loss_ms| {
            let full_ms = flow.full_ms.unwrap_or(f64::INFINITY);
            exit_ms(flow).is_some_and(|ms| (full_ms..loss_ms).contains(&ms))
        })
    }

    fn share(&self, is: impl Fn(&FlowOutcome, f64) -> bool) -> Interval {
        let percent = |(flow, loss): (&FlowOutcome, Option<f64>)| {
            if is(flow, loss.unwrap_or(f64::INFINITY)) {
                100.0
            } else {
                0.0
            }
        };
        Interval::mean(&self.flows().map(percent).collect::<Vec<_>>())
    }

    fn median_ms(&self, of: impl Fn(&FlowOutcome, Option<f64>) -> Option<f64>) -> f64 {
        median(self.flows().filter_map(|(flow, loss)| of(flow, loss))).unwrap_or(f64::NAN)
    }

    fn capacity_ms(&self) -> f64 {
        self.median_ms(|flow, _| flow.full_ms)
    }

    fn exit_ms(&self) -> f64 {
        self.median_ms(|flow, _| exit_ms(flow))
    }

    fn loss_ms(&self) -> f64 {
        self.median_ms(|_, loss| loss)
    }

    fn label(&self) -> String {
        format!("{}, {}", self.cell.parameter("case"), exit_name(self.cell))
    }

    fn cells(&self) -> Vec<String> {
        let percent = |share: Interval| format!("{} %", page::interval(share, 1));
        let (early, right) = (self.early(), self.right());
        let lost = self.cell.mean(|f| f.lost_packets as f64);
        let lost_kb = self.cell.mean(|f| f.lost_bytes as f64 / 1e3);
        vec![
            self.label(),
            self.cell.runs.len().to_string(),
            percent(right),
            percent(early),
            format!("{:.1} %", 100.0 - early.value - right.value),
            page::time(self.capacity_ms()),
            page::time(self.median_ms(|flow, _| flow.conservative_ms)),
            page::time(self.exit_ms()),
            page::time(self.loss_ms()),
            page::time(self.median_ms(|flow, loss| Some(loss? - exit_ms(flow)?))),
            page::time(self.cell.ttlb_ms()),
            page::time(self.cell.bound_ms()),
            page::interval(lost, 0),
            page::number(lost_kb.value, 0),
        ]
    }
}

fn aim(rows: &[PathExit], case: &str, id: &str, share: f64) -> Verdict {
    let rule = format!("exits, {case}: SEARCH is right in {share} % of the runs ({id})");
    let is = |r: &&PathExit| {
        r.cell.parameter("case") == case && r.cell.parameter(EXIT).starts_with("search")
    };
    let figures = rows.iter().filter(is).map(|r| Figure::new(r.label(), r.right())).collect();
    Verdict::at_least(&rule, share, (1, " %"), figures).as_aim()
}

fn chart(case: &str, rows: &[&PathExit]) -> Bars {
    let bar = |row: &&PathExit| Bar {
        label: exit_name(row.cell).into(),
        value: row.right().value,
        runs: Vec::new(),
        interval: page::ends(row.right()),
        colour: if row.cell.parameter(EXIT).starts_with("search") { BLUE } else { ORANGE },
        bound: None,
        words: format!("{:.0} %", row.right().value),
    };
    let poster = POSTER.iter().find(|(name, ..)| *name == case);
    Bars {
        title: "right exits",
        unit: Unit { name: "% of runs", size: 1.0 },
        bars: rows.iter().map(bar).collect(),
        marks: poster
            .map(|(_, id, share, _)| (*share, format!("{id}, SEARCH")))
            .into_iter()
            .collect(),
    }
}

fn published(
    rows: &[PathExit],
    (case, id, share, seconds): (&str, &str, f64, [f64; 3]),
) -> Published {
    let is = |r: &&PathExit| {
        r.cell.parameter("case") == case && r.cell.parameter(EXIT).starts_with("search")
    };
    let shares: Vec<Interval> = rows.iter().filter(is).map(PathExit::right).collect();
    let ours = rows.iter().filter(is).map(|r| {
        let seconds =
            [r.capacity_ms(), r.exit_ms(), r.loss_ms()].map(|ms| page::number(ms / 1e3, 1));
        let right = page::interval(r.right(), 1);
        format!("{} {right} %, {} s", exit_name(r.cell), seconds.join(", "))
    });
    Published::new(
        &format!("{id}, {case}: right exits of SEARCH; capacity, exit, first loss"),
        &format!("{share} %, {} s", seconds.map(|s| format!("{s:.1}")).join(", ")),
        ours.collect::<Vec<_>>().join("; "),
        "100 %".into(),
    )
    .judged(
        shares.iter().any(|ours| ours.holds(share)),
        [
            "The poster's share lies in the interval of one of the two versions. The poster's paths are \
             live ones of which neither rates nor buffers are published; ours swing as sines.",
            why_not(case),
        ],
    )
}

/// Says why the poster's share does not lie in our intervals.
fn why_not(case: &str) -> &'static str {
    match case {
        "GEO" => {
            "The poster's live paths reach capacity after 11.0 s, 18 round trips, which no doubling over \
             600 ms takes; neither rates nor buffers are published. Our paths swing as sines, which SEARCH \
             tells from a full path more often than what those paths did."
        }
        _ => {
            "The poster's live paths are full 0.1 s before their exit and lose 0.1 s after it; neither \
             rates nor buffers are published. On ours the first loss comes before SEARCH can see that the \
             path is full, as it looks back by the latest RTT, which grows with the queue."
        }
    }
}
