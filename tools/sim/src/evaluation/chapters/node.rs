//! A content delivery node, for a day: P15.

use std::collections::BTreeMap;

use report::chart::axis::Unit;
use report::chart::curves;
use report::chart::Curves;
use report::chart::NumberCurve;
use report::page::figure;
use report::page::note;
use report::stats::quantile;

use super::groups::distinct;
use crate::evaluation::data::Chapter;
use crate::evaluation::findings::Findings;
use crate::evaluation::findings::Published;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;
use crate::interval::Interval;
use crate::outcome::FlowOutcome;
use crate::outcome::Outcome;

/// Cases, and what tables call them. The last one is compared with the others.
const STARTS: [(&str, &str); 4] = [
    ("slow-start", "slow start"),
    ("window-32", "initial window of 32"),
    ("rapid", "Rapid Start"),
    ("careful-resume", "Careful Resume"),
];
const SLOW_START: usize = 0;
const CAREFUL: usize = STARTS.len() - 1;

/// Limits for each kind of path.
const RATIO_MAX: f64 = 1.0;
const SLOWER_SHARE_MAX: f64 = 0.01;
const RETREATS_SHARE_MAX: f64 = 0.02;
const MORE_DROPPED_SHARE_MAX: f64 = 0.001;

/// A visit counts as slower if it takes longer by more than this.
const SLOWER_RTTS: f64 = 1.0;

/// Shares of visits at which saved round trips are shown.
const SHARES: [f64; 7] = [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99];

/// One subnet of clients: its day, for each start.
struct Subnet<'a> {
    kind: String,
    rtt_ms: f64,
    days: [&'a Outcome; STARTS.len()],
}

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let subnets = subnets(chapter);
    let kinds = distinct(subnets.iter().map(|subnet| subnet.kind.clone()));
    let of = |kind: &String| subnets.iter().filter(|s| s.kind == *kind).collect::<Vec<_>>();
    let kinds: Vec<(String, Vec<&Subnet>)> =
        kinds.iter().map(|kind| (kind.clone(), of(kind))).collect();
    let all: Vec<&Subnet> = subnets.iter().collect();
    let mut html = figure(
        "Round trips that Careful Resume saves in a visit, beside other ways to start: the share of all \
         visits that save at most so many. Visits that save none, or less, are at 0.",
        &curves(&distributions(&all))?,
    );
    html += &page::table(&GAIN_HEADS, &gain_rows(&kinds));
    html += &page::table(&SHARE_HEADS, &share_rows(&all));
    html += &page::table(&COST_HEADS, &cost_rows(&kinds));
    html += &note(
        "Means over subnets, with 95 % intervals. A visit that jumps has found what an earlier visit of its \
         client or subnet observed. A larger initial window helps the shortest objects, of which most are \
         gone before a jump may begin, and is sent to paths that nobody has measured. Each kind is judged by \
         itself; the mix weighs them by their share of subnets.",
    );
    Ok(Findings { html, published: vec![published(&all)], verdicts: verdicts(&kinds) })
}

/// Returns the subnets that have a day for each start.
fn subnets<'a>(chapter: &'a Chapter) -> Vec<Subnet<'a>> {
    let mut by_draw: BTreeMap<u64, Vec<(usize, String, &Outcome)>> = BTreeMap::new();
    for cell in &chapter.cells {
        let start = STARTS.iter().position(|(case, _)| *case == cell.parameter("case"));
        let draw = cell.parameter("draw").parse();
        let (Some(start), Ok(draw), Some(day)) = (start, draw, cell.runs.first()) else { continue };
        by_draw.entry(draw).or_default().push((start, cell.parameter("kind"), day));
    }
    let subnet = |mut starts: Vec<(usize, String, &'a Outcome)>| {
        starts.sort_by_key(|start| start.0);
        let kind = starts.first()?.1.clone();
        let days: Vec<&Outcome> = starts.into_iter().map(|start| start.2).collect();
        let days: [&Outcome; STARTS.len()] = days.try_into().ok()?;
        Some(Subnet { kind, rtt_ms: days[CAREFUL].rtt_ms, days })
    };
    by_draw.into_values().filter_map(subnet).collect()
}

impl Subnet<'_> {
    /// Returns a figure of each visit with Careful Resume beside that with another start.
    fn pairs<'b>(
        &'b self,
        start: usize,
        figure: impl Fn(&FlowOutcome) -> f64 + 'b,
    ) -> impl Iterator<Item = (f64, f64)> + 'b {
        let (careful, other) = (&self.days[CAREFUL].flows, &self.days[start].flows);
        careful.iter().zip(other).map(move |(careful, other)| (figure(careful), figure(other)))
    }

    /// Returns the round trips that each visit saves beside another start.
    fn saved_rtts(&self, start: usize) -> impl Iterator<Item = f64> + '_ {
        self.pairs(start, |f| f.ttlb_ms).map(|(careful, other)| (other - careful) / self.rtt_ms)
    }

    /// Returns the sum of a figure of all visits.
    fn sum(&self, start: usize, figure: impl Fn(&FlowOutcome) -> f64) -> f64 {
        self.days[start].flows.iter().map(figure).sum()
    }

    fn visits(&self) -> f64 {
        self.days[CAREFUL].flows.len() as f64
    }
}

fn jumped(flow: &FlowOutcome) -> f64 {
    f64::from(flow.jump_cwnd_bytes.is_some())
}

fn retreated(flow: &FlowOutcome) -> f64 {
    f64::from(flow.phases.iter().any(|phase| phase.1 == "safe_retreat"))
}

/// Returns one sum of each subnet over another.
fn ratio(subnets: &[&Subnet], sums: impl Fn(&Subnet) -> (f64, f64)) -> Interval {
    let pairs: Vec<(f64, f64)> = subnets.iter().map(|subnet| sums(subnet)).collect();
    // Without a jump none retreats.
    match pairs.iter().all(|pair| pair.1 == 0.0) {
        true => Interval::exact(0.0),
        false => Interval::ratio_of_means(&pairs),
    }
}

fn time_ratio(subnets: &[&Subnet]) -> Interval {
    let ms = |flow: &FlowOutcome| flow.ttlb_ms;
    ratio(subnets, |subnet| (subnet.sum(CAREFUL, ms), subnet.sum(SLOW_START, ms)))
}

fn jump_share(subnets: &[&Subnet]) -> Interval {
    ratio(subnets, |subnet| (subnet.sum(CAREFUL, jumped), subnet.visits()))
}

fn retreat_share(subnets: &[&Subnet]) -> Interval {
    ratio(subnets, |subnet| (subnet.sum(CAREFUL, retreated), subnet.sum(CAREFUL, jumped)))
}

fn slower_share(subnets: &[&Subnet]) -> Interval {
    ratio(subnets, |subnet| {
        let slower = subnet.saved_rtts(SLOW_START).filter(|rtts| *rtts < -SLOWER_RTTS).count();
        (slower as f64, subnet.visits())
    })
}

/// Returns what the path drops, as a share of all bytes of the objects.
fn dropped_share(subnets: &[&Subnet], start: usize) -> Interval {
    ratio(subnets, |subnet| {
        let bytes = subnet.sum(start, |flow| flow.object_bytes as f64);
        (subnet.sum(start, |flow| flow.dropped_bytes as f64), bytes)
    })
}

/// Returns what the path drops more with Careful Resume, as a share of all bytes of the objects.
fn more_dropped_share(subnets: &[&Subnet]) -> Interval {
    let dropped = |flow: &FlowOutcome| flow.dropped_bytes as f64;
    ratio(subnets, |subnet| {
        let more = subnet.sum(CAREFUL, dropped) - subnet.sum(SLOW_START, dropped);
        (more, subnet.sum(CAREFUL, |flow| flow.object_bytes as f64))
    })
}

/// Returns the round trips that a visit saves on average beside another start.
fn mean_saved(subnets: &[&Subnet], start: usize) -> Interval {
    let means: Vec<f64> =
        subnets.iter().map(|s| s.saved_rtts(start).sum::<f64>() / s.visits()).collect();
    Interval::mean(&means)
}

const GAIN_HEADS: [&str; 8] = [
    "paths",
    "subnets",
    "mean time, slow start",
    "Careful Resume",
    "ratio",
    "RTTs saved a visit, beside slow start",
    "beside an initial window of 32",
    "beside Rapid Start",
];

fn gain_rows(kinds: &[(String, Vec<&Subnet>)]) -> Vec<Vec<String>> {
    let row = |(kind, subnets): &(String, Vec<&Subnet>)| {
        let mean = |start: usize| {
            let (ms, visits) = subnets.iter().fold((0.0, 0.0), |(ms, visits), subnet| {
                (ms + subnet.sum(start, |flow| flow.ttlb_ms), visits + subnet.visits())
            });
            page::time(ms / visits)
        };
        let mut row =
            vec![kind.clone(), subnets.len().to_string(), mean(SLOW_START), mean(CAREFUL)];
        row.push(page::interval(time_ratio(subnets), 3));
        row.extend((0..CAREFUL).map(|start| page::interval(mean_saved(subnets, start), 2)));
        row
    };
    kinds.iter().map(row).collect()
}

const SHARE_HEADS: [&str; 1 + SHARES.len()] = [
    "RTTs saved, all visits, beside",
    "1 % save at most",
    "10 %",
    "25 %",
    "half",
    "75 %",
    "90 %",
    "99 %",
];

fn share_rows(subnets: &[&Subnet]) -> Vec<Vec<String>> {
    let row = |start: usize| {
        let saved = sorted_saved(subnets, start);
        let at = |share: f64| page::number(quantile(&saved, share).unwrap_or(f64::NAN), 1);
        let mut row = vec![STARTS[start].1.to_owned()];
        row.extend(SHARES.map(at));
        row
    };
    (0..CAREFUL).map(row).collect()
}

const COST_HEADS: [&str; 9] = [
    "paths",
    "visits that jump, %",
    "of jumps, retreats, %",
    "visits slower by more than an RTT, %",
    "dropped, slow start, % of bytes",
    "initial window of 32",
    "Rapid Start",
    "Careful Resume",
    "more than with slow start",
];

fn cost_rows(kinds: &[(String, Vec<&Subnet>)]) -> Vec<Vec<String>> {
    let percent =
        |share: Interval, digits| page::interval(share.map(|share| share * 100.0), digits);
    let row = |(kind, subnets): &(String, Vec<&Subnet>)| {
        let mut row = vec![
            kind.clone(),
            percent(jump_share(subnets), 1),
            percent(retreat_share(subnets), 2),
            percent(slower_share(subnets), 2),
        ];
        row.extend((0..STARTS.len()).map(|start| percent(dropped_share(subnets, start), 3)));
        row.push(percent(more_dropped_share(subnets), 3));
        row
    };
    kinds.iter().map(row).collect()
}

fn sorted_saved(subnets: &[&Subnet], start: usize) -> Vec<f64> {
    let mut saved: Vec<f64> = subnets.iter().flat_map(|subnet| subnet.saved_rtts(start)).collect();
    saved.sort_by(f64::total_cmp);
    saved
}

fn distributions(subnets: &[&Subnet]) -> Curves {
    let curve = |start: usize| {
        let saved = sorted_saved(subnets, start);
        let count = saved.len() as f64;
        let points = (1..).zip(&saved).map(|(n, rtts)| (rtts.max(0.0), f64::from(n) / count));
        NumberCurve { name: format!("beside {}", STARTS[start].1), points: points.collect() }
    };
    let drawn: Vec<NumberCurve> = (0..CAREFUL).map(curve).collect();
    // A single visit that saves more is out of sight.
    let nearly_all =
        |curve: &NumberCurve| Some(curve.points.get(curve.points.len() * 999 / 1000)?.0);
    let ends = drawn.iter().filter_map(nearly_all);
    Curves {
        x_title: "round trips saved in a visit".into(),
        x_unit: Unit { name: "RTTs", size: 1.0 },
        x_end: ends.fold(1.0, f64::max),
        y_title: "share of visits".into(),
        curves: drawn,
        stretches: vec![],
    }
}

fn published(subnets: &[&Subnet]) -> Published {
    let saved = sorted_saved(subnets, SLOW_START);
    let at = |share: f64| page::number(quantile(&saved, share).unwrap_or(f64::NAN), 1);
    let percent = |share: Interval| page::interval(share.map(|share| share * 100.0), 1);
    let ours = format!(
        "{} % of visits jump; a visit saves {} RTTs on average, one of four at least {}, one of ten at least {}; {} % of jumps retreat",
        percent(jump_share(subnets)),
        page::interval(mean_saved(subnets, SLOW_START), 2),
        at(0.75),
        at(0.9),
        percent(retreat_share(subnets)),
    );
    let what = "P15, a content delivery node (here: 10,000 clients of a mix of paths, for a day)";
    Published::new(what, "initial experiences, in words", ours, "–".into())
        .open("There are no published figures to compare with; the mix of paths and sizes is ours.")
}

fn verdicts(kinds: &[(String, Vec<&Subnet>)]) -> Vec<Verdict> {
    let judged = |figure: fn(&[&Subnet]) -> Interval, unit: f64| {
        let figure = |(kind, subnets): &(String, Vec<&Subnet>)| {
            Figure::new(kind.clone(), figure(subnets).map(|value| value * unit))
        };
        kinds.iter().map(figure).collect::<Vec<_>>()
    };
    let percent = |rule: &str, limit: f64, figure| {
        Verdict::at_most(rule, limit * 100.0, (2, " %"), judged(figure, 100.0))
    };
    vec![
        Verdict::at_most(
            "node: visits take no longer on average than with slow start",
            RATIO_MAX,
            (3, ""),
            judged(time_ratio, 1.0),
        ),
        percent(
            "node: at most one visit of a hundred takes longer by more than an RTT",
            SLOWER_SHARE_MAX,
            slower_share,
        ),
        percent("node: at most one jump of fifty retreats", RETREATS_SHARE_MAX, retreat_share),
        percent(
            "node: the path drops at most one byte of a thousand more than with slow start",
            MORE_DROPPED_SHARE_MAX,
            more_dropped_share,
        ),
    ]
}
