//! Overshoot of slow start: losses at its end, with and without HyStart++: P3.

use quiche::slow_start::SlowStartExit;
use report::chart::axis::Unit;
use report::chart::bars;
use report::chart::palette::BLUE;
use report::chart::palette::ORANGE;
use report::chart::Bar;
use report::chart::Bars;
use report::page::note;

use super::groups::distinct;
use crate::evaluation::data::Cell;
use crate::evaluation::data::Chapter;
use crate::evaluation::data::Pair;
use crate::evaluation::findings::Findings;
use crate::evaluation::findings::Published;
use crate::evaluation::names::controller_name;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;
use crate::scenario::Controller;

/// Packets lost with Careful Resume over those lost with slow start: what is
/// allowed, and what is aimed at with HyStart++.
const RATIO_MAX: f64 = 1.25;
const RATIO_AIM: f64 = 1.0;

/// Time with HyStart++ over that without it.
const TIME_RATIO_MAX: f64 = 1.05;

/// Runs that differ by rate and saved parameters alone: where the last doubling begins.
struct Group<'a> {
    case: String,
    cc: Controller,
    hystart: bool,
    pairs: Vec<&'a Pair<'a>>,
}

impl Group<'_> {
    fn label(&self) -> String {
        format!("{}, {}", self.case, controller_name(self.cc))
    }

    fn switch(&self) -> &'static str {
        if self.hystart {
            "on"
        } else {
            "off"
        }
    }

    /// Returns the mean of packets lost with slow start and with Careful Resume.
    fn lost(&self) -> (f64, f64) {
        let lost = |cell: &Cell| cell.median(|f| f.lost_packets as f64);
        let mean = |side: &dyn Fn(&Pair) -> f64| {
            self.pairs.iter().map(|p| side(p)).sum::<f64>() / self.pairs.len() as f64
        };
        (mean(&|p| lost(p.slow)), mean(&|p| lost(p.careful)))
    }

    /// Returns the ratio of losses; none at all counts as equal.
    fn ratio(&self) -> f64 {
        match self.lost() {
            (slow, careful) if careful == slow => 1.0,
            (slow, careful) => careful / slow,
        }
    }
}

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let pairs = chapter.pairs();
    let groups = groups(&pairs);
    let mut html = page::heading("Packets lost, mean over rates and saved capacities");
    html += &bars(&chart(&groups))?;
    let heads = [
        "path, controller",
        "HyStart++",
        "scenarios",
        "published",
        "lost, slow start",
        "lost, Careful Resume",
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
        (p.careful.parameter("case"), p.controller(), hystart)
    };
    let group = |(case, cc, hystart): (String, Controller, bool)| {
        let of = pairs.iter().filter(|p| place(p) == (case.clone(), cc, hystart)).collect();
        Group { case, cc, hystart, pairs: of }
    };
    distinct(pairs.iter().map(place)).into_iter().map(group).collect()
}

fn losses(rule: &str, groups: &[Group], hystart: bool) -> Verdict {
    let of = || groups.iter().filter(|g| g.hystart == hystart);
    let figures = of().map(|g| Figure::new(g.label(), g.ratio())).collect();
    let mut verdict = Verdict::at_most(rule, RATIO_MAX, (2, " times"), figures);
    for group in of().filter(|g| hystart && g.ratio() > RATIO_AIM && g.ratio() <= RATIO_MAX) {
        let (who, ratio) = (group.label(), group.ratio());
        let line = format!("overshoot, {who}, HyStart++: {ratio:.4} times; P3 is {RATIO_AIM:.2}");
        verdict.missed.push(line);
    }
    verdict
}

fn jumps(pairs: &[Pair]) -> Verdict {
    let fits = |p: &&Pair| p.careful.named.scenario.flows[0].saved.cwnd_bdp <= 1.0;
    let retreats = |p: &Pair| Figure::new(p.careful.label(), p.careful.retreats_of_jumps());
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
            let ratio = with.careful.ttlb_ms() / without.careful.ttlb_ms();
            figures.push(Figure::new(with.careful.label(), ratio));
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
        format!("{slow:.0}"),
        format!("{careful:.0}"),
        page::number(group.ratio(), 2),
        "0".into(),
        retreats.to_string(),
        page::range(group.pairs.iter().map(|p| p.ratio()), 2),
        page::range(group.pairs.iter().map(|p| p.bound_ratio()), 2),
    ]
}

fn chart(groups: &[Group]) -> Bars {
    let both = groups.iter().flat_map(|group| {
        let (slow, careful) = group.lost();
        let bar = |lost: f64, mode: &str, colour| Bar {
            label: format!("{}, HyStart++ {}, {mode}", group.label(), group.switch()),
            value: lost,
            runs: Vec::new(),
            colour,
            bound: None,
            words: format!("{lost:.0}"),
        };
        [bar(slow, "slow start", ORANGE), bar(careful, "Careful Resume", BLUE)]
    });
    Bars {
        title: "packets lost",
        unit: Unit { name: "mean of all scenarios", size: 1.0 },
        bars: both.collect(),
        marks: Vec::new(),
    }
}

fn published(groups: &[Group]) -> Published {
    let of = |hystart: bool| groups.iter().filter(move |g| g.hystart == hystart);
    let (on, off) = (of(true).map(Group::ratio), of(false).map(Group::ratio));
    Published::new(
        "P3, mean packets lost with Careful Resume / with slow start",
        "with HyStart++, further overshoot is avoided",
        format!("with HyStart++ {}, without {}", page::range(on, 2), page::range(off, 2)),
        "0 packets".into(),
    )
}
