//! Fairness to the flows that share a bottleneck: P4 and P11.

use report::chart::lines;
use report::chart::Lines;
use report::chart::Series;
use report::page::figure;
use report::page::note;
use report::stats::mean;

use super::groups::distinct;
use crate::evaluation::data::Cell;
use crate::evaluation::data::Chapter;
use crate::evaluation::findings::Findings;
use crate::evaluation::findings::Published;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;
use crate::interval::Interval;
use crate::outcome::FlowOutcome;
use crate::outcome::Outcome;

const RATE: &str = "path.rate_mbps";
const COUNT: &str = "background.count";
const BACKGROUND: &str = "background";

const MODES: [(&str, &str); 3] = [
    ("slow-start", "with a slow-start flow"),
    ("careful-resume", "with a Careful Resume flow"),
    ("baseline", "alone"),
];

/// Counts of background flows that P11 has.
const COUNTS: [&str; 5] = ["1", "2", "4", "8", "16"];

/// Fewer runs say little of a mean.
const RUNS_MIN: usize = 30;

/// Packets lost more with Careful Resume than with slow start, in % of the
/// background's.
const MORE_LOST_PERCENT: f64 = 0.1;

/// Those lost with Careful Resume over those lost with slow start: the aim.
const RATIO_AIM: f64 = 1.05;

/// From which ratio of the background's times on harm counts as undue.
const UNDULY: f64 = 1.05;

/// One rate and count of background flows in all three modes.
struct BackgroundLoad<'a> {
    rate: String,
    count: String,
    /// In the order of [`MODES`].
    cells: [&'a Cell<'a>; 3],
}

impl BackgroundLoad<'_> {
    fn label(&self) -> String {
        format!("{} flows, {} Mbit/s", self.count, self.rate)
    }

    fn harm(&self) -> Harm<'_> {
        Harm { who: self.label(), slow: self.cells[0], careful: self.cells[1] }
    }

    fn ratio(&self) -> Interval {
        self.harm().ratio()
    }

    /// Returns the slow-down of the background with Careful Resume over that with slow start.
    fn ratio_of_times(&self) -> Interval {
        self.harm().ratio_of(time_ms)
    }
}

/// Loss of background flows beside a flow with slow start, and beside one with
/// Careful Resume.
pub struct Harm<'a> {
    pub who: String,
    pub slow: &'a Cell<'a>,
    pub careful: &'a Cell<'a>,
}

impl Harm<'_> {
    /// Returns the ratio of the mean losses.
    pub fn ratio(&self) -> Interval {
        let lost = |run: &Outcome| background(run).map(FlowOutcome::lost_or_marked).sum::<u64>();
        self.ratio_of(|run| lost(run) as f64)
    }

    /// Returns the ratio of the means of a figure of each run, Careful Resume's over slow start's.
    fn ratio_of(&self, figure: impl Fn(&Outcome) -> f64) -> Interval {
        let pairs = self.pairs().map(|(careful, slow)| (figure(careful), figure(slow)));
        Interval::ratio_of_means(&pairs.collect::<Vec<_>>())
    }

    /// Returns the runs with Careful Resume, each with that of the same seed with slow start.
    fn pairs(&self) -> impl Iterator<Item = (&Outcome, &Outcome)> {
        self.careful.runs.iter().filter_map(|run| {
            let same = self.slow.runs.iter().find(|slow| slow.seed == run.seed)?;
            Some((*run, *same))
        })
    }

    /// Returns how much more is lost with Careful Resume than in the run of the same seed with
    /// slow start, in % of the background's packets.
    pub fn more_lost_percent(&self) -> Interval {
        self.more_percent(FlowOutcome::lost_or_marked)
    }

    /// The same of another figure.
    pub fn more_percent(&self, figure: fn(&FlowOutcome) -> u64) -> Interval {
        let sum = |run: &Outcome, figure: fn(&FlowOutcome) -> u64| {
            background(run).map(figure).sum::<u64>() as f64
        };
        let more = self.pairs().map(|(careful, slow)| {
            (sum(careful, figure) - sum(slow, figure), sum(slow, |flow| flow.sent_packets))
        });
        let more: Vec<(f64, f64)> = more.collect();
        Interval::ratio_of_means(&more).map(|share| 100.0 * share)
    }
}

/// Returns the rule of both chapters, with `name` before it.
pub fn harm_rule(name: &str, all: &[Harm]) -> Verdict {
    let harms: Vec<&Harm> = all.iter().collect();
    let mut verdict = harm_rule_of(name, &harms, FlowOutcome::lost_or_marked, RUNS_MIN);
    for harm in all {
        let (who, ratio) = (&harm.who, harm.ratio());
        if ratio.high > RATIO_AIM {
            let ratio = page::interval(ratio, 2);
            let line = format!("{who}: {ratio} times the losses; the aim is {RATIO_AIM}");
            verdict.missed.push(line);
        }
    }
    verdict
}

/// Returns the rule about `lost` packets, with as many runs at least.
pub fn harm_rule_of(
    name: &str,
    all: &[&Harm],
    lost: fn(&FlowOutcome) -> u64,
    runs_min: usize,
) -> Verdict {
    let figure = |harm: &&Harm| Figure::new(harm.who.clone(), harm.more_percent(lost));
    let rule = format!("{name}: background flows lose at most 0.1 % of their packets more");
    let figures = all.iter().map(figure).collect();
    let mut verdict = Verdict::at_most(&rule, MORE_LOST_PERCENT, (3, " %"), figures);
    for Harm { who, slow, careful } in all {
        let runs = slow.runs.len().min(careful.runs.len());
        if runs < runs_min {
            verdict.breaches.push(format!("{who}: {runs} runs are less than {runs_min}"));
        }
    }
    verdict
}

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let groups = groups(chapter);
    let rates = distinct(groups.iter().map(|g| g.rate.clone()));
    let all: Vec<Interval> = groups.iter().map(BackgroundLoad::ratio).collect();
    let ratios = page::range_of(&all, 2);
    let mut html = page::paragraph(&format!(
        "In the mean, background flows lose {ratios} times the packets with a Careful Resume flow that \
         they lose with a slow-start flow of the same size."
    ));
    for rate in &rates {
        let of_rate: Vec<&BackgroundLoad> = groups.iter().filter(|g| g.rate == *rate).collect();
        let caption = format!(
            "{rate} Mbit/s: packets that the background flows lose together, alone and beside one more \
             flow; means, with 95 % intervals. Published (P11): not significantly more with Careful \
             Resume."
        );
        html += &figure(&caption, &lines(&losses(&of_rate))?);
        let caption = format!(
            "{rate} Mbit/s: mean time of the background flows over that of the same runs without the \
             extra flow, with 95 % intervals."
        );
        html += &figure(&caption, &lines(&slow_downs(&of_rate))?);
        html += &loss_table(&of_rate);
        html += &time_table(&of_rate);
    }
    html += &note(
        "Means over all runs, with 95 % intervals. Lost: packets that the \
         background servers declared lost, together; dropped: those that the bottleneck dropped. \
         Slow-down: mean TTLB of the background flows over that of the same run without the extra flow.",
    );
    let times: Vec<Interval> = groups.iter().map(BackgroundLoad::ratio_of_times).collect();
    let slow_downs =
        [0, 1].map(|i| page::range(groups.iter().map(|group| slow_down(group, i).value), 2));
    let published = vec![
        Published::new(
            "P11, packets lost by 1 to 16 background flows, with Careful Resume / with slow start",
            "not significantly more than 1",
            ratios,
            "–".into(),
        )
        .judged(
            all.iter().all(|ratio| ratio.low <= 1.0),
            [
                "At no load is the whole interval above 1: what is lost more is not significant.",
                "At some loads the whole interval is above 1, where slow start causes next to no loss: \
                 significantly more, if little of all packets (see the rule of 0.1 %).",
            ],
        ),
        Published::new(
            "P4, slow-down of background flows, with slow start; with Careful Resume",
            "not unduly harmed",
            format!("{}; ratio of times {}", slow_downs.join("; "), page::range_of(&times, 3)),
            "1".into(),
        )
        .judged(
            times.iter().all(|ratio| ratio.high <= UNDULY),
            [
                "At no load do background flows take more than 5 % longer than beside slow start, at the \
                 upper end of the interval. The paper says it in words.",
                "At some loads the interval reaches more than 5 % longer than beside slow start. The \
                 paper says it in words.",
            ],
        ),
    ];
    Ok(Findings { html, published, verdicts: vec![harm(&groups)] })
}

/// Returns everything that was run in all three modes.
fn groups<'a>(chapter: &'a Chapter) -> Vec<BackgroundLoad<'a>> {
    let place = |c: &Cell| (c.parameter(RATE), c.parameter(COUNT));
    let all = distinct(chapter.cells.iter().map(place)).into_iter().filter_map(|(rate, count)| {
        let of = |mode: &str| {
            let is = |c: &&Cell| {
                c.parameter("case") == mode
                    && c.parameter(RATE) == rate
                    && c.parameter(COUNT) == count
            };
            chapter.cells.iter().find(is)
        };
        let cells = [of(MODES[0].0)?, of(MODES[1].0)?, of(MODES[2].0)?];
        Some(BackgroundLoad { rate, count, cells })
    });
    all.collect()
}

fn harm(groups: &[BackgroundLoad]) -> Verdict {
    let harms: Vec<Harm> = groups.iter().map(BackgroundLoad::harm).collect();
    let mut verdict = harm_rule("fairness", &harms);
    for rate in distinct(groups.iter().map(|g| &g.rate)) {
        for count in COUNTS {
            if !groups.iter().any(|g| g.rate == *rate && g.count == count) {
                verdict.breaches.push(format!("{count} flows, {rate} Mbit/s: nothing to judge"));
            }
        }
    }
    verdict
}

/// Returns a share with its interval.
pub fn percent(share: Interval) -> String {
    format!("{} %", page::interval(share, 3))
}

fn background(run: &Outcome) -> impl Iterator<Item = &FlowOutcome> {
    run.flows.iter().filter(|f| f.name.starts_with(BACKGROUND))
}

/// Returns the mean over runs of a figure summed over the background flows.
pub fn summed(cell: &Cell, figure: impl Fn(&FlowOutcome) -> u64) -> Interval {
    let sums = cell.runs.iter().map(|run| background(run).map(&figure).sum::<u64>() as f64);
    Interval::mean(&sums.collect::<Vec<_>>())
}

fn mean_of(values: impl Iterator<Item = f64>) -> f64 {
    mean(&values.collect::<Vec<_>>()).map_or(f64::NAN, |mean| mean.value)
}

/// Returns the mean time of the background flows of one run, in ms.
fn time_ms(run: &Outcome) -> f64 {
    mean_of(background(run).map(|f| f.ttlb_ms))
}

/// Returns the slow-down of one mode, against the baseline's run of the same seed.
fn slow_down(group: &BackgroundLoad, mode: usize) -> Interval {
    let ratios = group.cells[mode].runs.iter().filter_map(|run| {
        let same = group.cells[2].runs.iter().find(|alone| alone.seed == run.seed)?;
        Some((time_ms(run), time_ms(same)))
    });
    Interval::ratio_of_means(&ratios.collect::<Vec<_>>())
}

/// Returns the extra flow's mean time, in ms.
fn extra_ms(cell: &Cell) -> f64 {
    let extra = |run: &Outcome| {
        run.flows.iter().find(|f| !f.name.starts_with(BACKGROUND)).map(|f| f.ttlb_ms)
    };
    mean_of(cell.runs.iter().filter_map(|run| extra(run)))
}

fn chart(groups: &[&BackgroundLoad], y_title: &str, series: Vec<Series>) -> Lines {
    Lines {
        x_title: "background flows".into(),
        columns: groups.iter().map(|g| g.count.clone()).collect(),
        y_title: y_title.into(),
        series,
        level: None,
    }
}

fn losses(groups: &[&BackgroundLoad]) -> Lines {
    let series = MODES.iter().enumerate().map(|(i, (_, name))| {
        let point = |g: &&BackgroundLoad| page::point(summed(g.cells[i], |f| f.lost_packets));
        Series { name: name.to_string(), points: groups.iter().map(point).collect() }
    });
    chart(groups, "packets lost", series.collect())
}

fn slow_downs(groups: &[&BackgroundLoad]) -> Lines {
    let series = MODES.iter().enumerate().take(2).map(|(i, (_, name))| {
        let point = |g: &&BackgroundLoad| page::point(slow_down(g, i));
        Series { name: name.to_string(), points: groups.iter().map(point).collect() }
    });
    let chart = chart(groups, "time / time alone", series.collect());
    Lines { level: Some((1.0, "alone".into())), ..chart }
}

fn loss_table(groups: &[&BackgroundLoad]) -> String {
    let heads = [
        "background flows",
        "runs",
        "published",
        "lost, alone",
        "with slow start",
        "kB",
        "with Careful Resume",
        "kB",
        "ratio",
        "lost more",
        "dropped, alone",
        "with slow start",
        "with Careful Resume",
    ];
    let row = |g: &&BackgroundLoad| {
        let count = |i: usize, figure: fn(&FlowOutcome) -> u64| {
            page::interval(summed(g.cells[i], figure), 0)
        };
        let lost = |f: &FlowOutcome| f.lost_packets;
        let kilobytes = |f: &FlowOutcome| f.lost_bytes / 1000;
        let dropped = |f: &FlowOutcome| f.dropped_packets;
        vec![
            g.count.clone(),
            g.cells[0].runs.len().to_string(),
            "about 1".into(),
            count(2, lost),
            count(0, lost),
            count(0, kilobytes),
            count(1, lost),
            count(1, kilobytes),
            page::interval(g.ratio(), 2),
            percent(g.harm().more_lost_percent()),
            count(2, dropped),
            count(0, dropped),
            count(1, dropped),
        ]
    };
    page::table(&heads, &groups.iter().map(row).collect::<Vec<_>>())
}

fn time_table(groups: &[&BackgroundLoad]) -> String {
    let heads = [
        "background flows",
        "TTLB alone, mean",
        "bound, one flow",
        "slow-down with slow start",
        "with Careful Resume",
        "extra flow, slow start",
        "extra flow, Careful Resume",
    ];
    let row = |g: &&BackgroundLoad| {
        let slow = |i: usize| page::interval(slow_down(g, i), 2);
        vec![
            g.count.clone(),
            page::time(mean_of(g.cells[2].runs.iter().map(|run| time_ms(run)))),
            page::time(g.cells[2].bound_ms()),
            slow(0),
            slow(1),
            page::time(extra_ms(g.cells[0])),
            page::time(extra_ms(g.cells[1])),
        ]
    };
    page::table(&heads, &groups.iter().map(row).collect::<Vec<_>>())
}
