//! Overshoot of slow start: losses at its end, with and without HyStart++: P3.

use quiche::slow_start::SlowStartExit;
use report::chart::lines;
use report::chart::Lines;
use report::chart::Series;
use report::page::figure;
use report::page::note;

use super::groups::distinct;
use crate::evaluation::data::paired;
use crate::evaluation::data::Chapter;
use crate::evaluation::data::Pair;
use crate::evaluation::findings::Findings;
use crate::evaluation::findings::Published;
use crate::evaluation::names::controller_name;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;
use crate::interval::Interval;
use crate::outcome::FlowOutcome;
use crate::scenario::Controller;

const SAVED: &str = "flow.saved.cwnd_bdp";

/// Packets lost with Careful Resume over those lost with slow start: what is
/// allowed, and what is aimed at with HyStart++.
const RATIO_MAX: f64 = 1.25;
const RATIO_AIM: f64 = 1.0;

/// Time with HyStart++ over that without it.
const TIME_RATIO_MAX: f64 = 1.05;

/// Runs that differ by rate alone: where the last doubling of slow start begins. The saved capacity
/// decides where that after a jump begins, and is not averaged over.
struct Group<'a> {
    case: String,
    cc: Controller,
    hystart: bool,
    saved_bdp: String,
    pairs: Vec<&'a Pair<'a>>,
}

impl Group<'_> {
    fn label(&self) -> String {
        format!("{}, {}, {} BDP saved", self.case, controller_name(self.cc), self.saved_bdp)
    }

    fn switch(&self) -> &'static str {
        if self.hystart {
            "on"
        } else {
            "off"
        }
    }

    /// Returns a figure with Careful Resume and with slow start, of each rate and seed.
    fn by_run(&self, figure: fn(&FlowOutcome) -> f64) -> Vec<(f64, f64)> {
        self.pairs.iter().flat_map(|p| p.by_seed(figure)).collect()
    }

    /// Returns the means of packets lost in all with slow start and with Careful Resume.
    fn lost(&self) -> (Interval, Interval) {
        let lost = self.by_run(dropped);
        let of = |side: fn(&(f64, f64)) -> f64| {
            Interval::mean(&lost.iter().map(side).collect::<Vec<_>>())
        };
        (of(|pair| pair.1), of(|pair| pair.0))
    }

    /// Returns the ratio of losses; none at all counts as equal.
    fn ratio(&self) -> Interval {
        Interval::ratio_of_means(&self.by_run(dropped))
    }

    /// Returns the mean of the bytes lost in all with Careful Resume, in kB.
    fn lost_kb(&self) -> f64 {
        let lost = self.by_run(|f| f.dropped_bytes as f64 / 1e3);
        lost.iter().map(|pair| pair.0).sum::<f64>() / lost.len() as f64
    }
}

fn dropped(flow: &FlowOutcome) -> f64 {
    flow.dropped_packets as f64
}

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let pairs = chapter.pairs();
    let groups = groups(&pairs);
    let mut html = String::new();
    for (case, cc) in distinct(groups.iter().map(|g| (g.case.clone(), g.cc))) {
        for hystart in [true, false] {
            let is = |g: &&Group| (&g.case, g.cc, g.hystart) == (&case, cc, hystart);
            let of: Vec<&Group> = groups.iter().filter(is).collect();
            let caption = format!(
                "{case}, {}, HyStart++ {}: packets lost in all over the saved capacity; means over rates \
                 and seeds, with 95 % intervals. Published (P3), in words: with HyStart++, further \
                 overshoot is avoided.",
                controller_name(cc),
                if hystart { "on" } else { "off" },
            );
            html += &figure(&caption, &lines(&chart(&of))?);
        }
    }
    let heads = [
        "path, controller, saved",
        "HyStart++",
        "scenarios",
        "published",
        "lost in all, slow start",
        "lost in all, Careful Resume",
        "kB",
        "ratio",
        "bound",
        "retreats",
        "ratio of times",
        "bound",
    ];
    html += &page::table(&heads, &groups.iter().map(row).collect::<Vec<_>>());
    html += &note(
        "P3 is published in words: with HyStart++, Careful Resume avoids further overshoot. Nothing \
         need be lost: the bound of losses is none. A retreat would tell that the jump lost something.",
    );
    let verdicts = vec![
        losses(
            "overshoot: with HyStart++, at most 1.25 times the losses of slow start",
            &groups,
            true,
        ),
        losses("overshoot: without HyStart++, at most 1.25 times as well", &groups, false),
        jumps(&pairs),
        times(&groups),
    ];
    Ok(Findings { html, published: vec![published(&groups)], verdicts })
}

fn groups<'a>(pairs: &'a [Pair<'a>]) -> Vec<Group<'a>> {
    let place = |p: &Pair| {
        let exit = p.careful.named.scenario.flows[0].slow_start_exit;
        let hystart = exit == SlowStartExit::HyStart;
        (p.careful.parameter("case"), p.controller(), hystart, p.careful.parameter(SAVED))
    };
    let group = |(case, cc, hystart, saved_bdp): (String, Controller, bool, String)| {
        let key = (case.clone(), cc, hystart, saved_bdp.clone());
        let of = pairs.iter().filter(|p| place(p) == key).collect();
        Group { case, cc, hystart, saved_bdp, pairs: of }
    };
    distinct(pairs.iter().map(place)).into_iter().map(group).collect()
}

fn losses(rule: &str, groups: &[Group], hystart: bool) -> Verdict {
    let of = || groups.iter().filter(|g| g.hystart == hystart);
    let figures = of().map(|g| Figure::new(g.label(), g.ratio())).collect();
    let mut verdict = Verdict::at_most(rule, RATIO_MAX, (2, " times"), figures);
    let above_aim =
        |g: &&Group| hystart && g.ratio().high > RATIO_AIM && g.ratio().high <= RATIO_MAX;
    for group in of().filter(above_aim) {
        let (who, ratio) = (group.label(), page::interval(group.ratio(), 4));
        let line = format!("{who}, HyStart++: {ratio} times; P3 is {RATIO_AIM:.2}");
        verdict.missed.push(line);
    }
    verdict
}

fn jumps(pairs: &[Pair]) -> Verdict {
    let fits = |p: &&Pair| p.careful.named.scenario.flows[0].saved.cwnd_bdp <= 1.0;
    let retreats = |p: &Pair| Figure::exact(p.careful.label(), p.careful.retreats_of_jumps());
    let figures = pairs.iter().filter(fits).map(retreats).collect();
    let rule = "overshoot: a jump that fits the path loses nothing: no retreat";
    Verdict::at_most(rule, 0.0, (0, " retreats"), figures)
}

/// Checks what HyStart++ costs a resumed download, an aim.
fn times(groups: &[Group]) -> Verdict {
    let rule = "overshoot: with HyStart++, Careful Resume takes at most 5 % longer than without";
    let mut figures = Vec::new();
    for on in groups.iter().filter(|g| g.hystart) {
        let off = groups.iter().find(|g| !g.hystart && g.label() == on.label());
        for (with, without) in on.pairs.iter().zip(off.iter().flat_map(|g| &g.pairs)) {
            let times = paired(with.careful, without.careful, |flow| flow.ttlb_ms);
            figures.push(Figure::new(with.careful.label(), Interval::ratio_of_means(&times)));
        }
    }
    Verdict::at_most(rule, TIME_RATIO_MAX, (3, ""), figures).as_aim()
}

fn row(group: &Group) -> Vec<String> {
    let (slow, careful) = group.lost();
    let retreats: usize = group.pairs.iter().map(|p| p.careful.retreats()).sum();
    vec![
        group.label(),
        group.switch().into(),
        group.pairs.len().to_string(),
        if group.hystart { "at most 1" } else { "–" }.into(),
        page::interval(slow, 0),
        page::interval(careful, 0),
        page::number(group.lost_kb(), 0),
        page::interval(group.ratio(), 2),
        "0".into(),
        retreats.to_string(),
        page::range(group.pairs.iter().map(|p| p.ratio().value), 2),
        page::range(group.pairs.iter().map(|p| p.bound_ratio()), 2),
    ]
}

fn chart(groups: &[&Group]) -> Lines {
    let series = |name: &str, side: fn(&Group) -> Interval| Series {
        name: name.into(),
        points: groups.iter().map(|group| page::point(side(group))).collect(),
    };
    Lines {
        x_title: "saved_cwnd (BDP)".into(),
        columns: groups.iter().map(|group| group.saved_bdp.clone()).collect(),
        y_title: "packets lost".into(),
        series: vec![
            series("slow start", |group| group.lost().0),
            series("Careful Resume", |group| group.lost().1),
        ],
        level: None,
    }
}

fn published(groups: &[Group]) -> Published {
    let of = |hystart: bool| groups.iter().filter(move |g| g.hystart == hystart);
    let on: Vec<Interval> = of(true).map(Group::ratio).collect();
    let off: Vec<Interval> = of(false).map(Group::ratio).collect();
    Published::new(
        "P3, mean packets lost with Careful Resume / with slow start",
        "with HyStart++, further overshoot is avoided",
        format!("with HyStart++ {}; without {}", page::range_of(&on, 2), page::range_of(&off, 2)),
        "0 packets".into(),
    )
    .judged(
        on.iter().all(|ratio| ratio.high <= RATIO_AIM),
        [
            "With HyStart++, no interval reaches more than what slow start loses, whatever was saved. \
             The paper says it in words.",
            "With HyStart++, some saved capacities lead to more loss than slow start: where the doubling \
             after the jump begins decides, and HyStart++ acts late. The paper says it in words.",
        ],
    )
}
