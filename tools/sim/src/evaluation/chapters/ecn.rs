//! Marks instead of losses: CoDel, a step, and paths that fault (RFC 9000, 13.4).

use report::page::note;

use crate::evaluation::data::paired;
use crate::evaluation::data::Cell;
use crate::evaluation::data::Chapter;
use crate::evaluation::findings::Findings;
use crate::evaluation::names::controller_name;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;
use crate::interval::Interval;
use crate::outcome::FlowOutcome;
use crate::scenario::FlowEcn;
use crate::scenario::PathEcn;

/// Time of a download with marks over that without, on a path that bleaches or changes marks.
const FAULT_RATIO_MAX: f64 = 1.005;

/// Time of a download whose jump was too large and marked over that of slow start with marks.
const REFUSED_RATIO_MAX: f64 = 1.1;

/// One scenario with marks and without.
struct Contrast<'a> {
    marked: &'a Cell<'a>,
    unmarked: &'a Cell<'a>,
}

impl Contrast<'_> {
    fn who(&self) -> String {
        let flow = &self.marked.named.scenario.flows[0];
        let mode = self.marked.parameter("flow.mode");
        format!("{}, {}, {mode}", self.case(), controller_name(flow.cc))
    }

    fn case(&self) -> String {
        self.marked.parameter("case")
    }

    fn path_ecn(&self) -> PathEcn {
        self.marked.named.scenario.path.ecn
    }

    fn ratio(&self) -> Interval {
        Interval::ratio_of_means(&paired(self.marked, self.unmarked, |flow| flow.ttlb_ms))
    }
}

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let contrasts = contrasts(chapter);
    let heads =
        ["path", "time", "without marks", "ratio", "lost", "without marks", "arrived as CE", "end"];
    let mut html = page::table(&heads, &contrasts.iter().map(row).collect::<Vec<_>>());
    html += &note(
        "Times in ms, losses and marks in packets. End: the last change of phase of Careful Resume \
         with marks, and its trigger, of the first run.",
    );
    let verdicts = vec![
        lossless(&contrasts),
        retreats(&contrasts),
        recovered(&contrasts),
        harmless(&contrasts),
    ];
    Ok(Findings { html, verdicts, ..Findings::default() })
}

fn contrasts<'a>(chapter: &'a Chapter) -> Vec<Contrast<'a>> {
    let ecn = |cell: &Cell| cell.named.scenario.flows[0].ecn;
    let others = |cell: &Cell| {
        let mut parameters = cell.named.parameters.clone();
        parameters.remove("flow.ecn");
        parameters
    };
    let unmarked = |marked: &Cell| {
        let mut cells = chapter.cells.iter();
        cells.find(|cell| ecn(cell) == FlowEcn::Off && others(cell) == others(marked))
    };
    let marked = chapter.cells.iter().filter(|cell| ecn(cell) == FlowEcn::On);
    marked.filter_map(|marked| Some(Contrast { marked, unmarked: unmarked(marked)? })).collect()
}

fn row(contrast: &Contrast) -> Vec<String> {
    let Contrast { marked, unmarked } = contrast;
    let lost = |cell: &Cell| page::interval(cell.mean(|f| f.lost_packets as f64), 0);
    let ce = marked.mean(|f| f.marked_packets.unwrap_or(0) as f64);
    let end = marked.judged(|flow| {
        let last = flow.phases.iter().rev().find(|(_, _, trigger)| trigger.is_some());
        last.map(|(_, phase, trigger)| format!("{phase}: {}", trigger.as_deref().unwrap_or("")))
    });
    vec![
        contrast.who(),
        page::number(marked.ttlb_ms(), 0),
        page::number(unmarked.ttlb_ms(), 0),
        page::interval(contrast.ratio(), 3),
        lost(marked),
        lost(unmarked),
        page::interval(ce, 0),
        end.into_iter().flatten().next().unwrap_or_default(),
    ]
}

/// Returns whether a queue that marks loses nothing of flows that mark.
fn lossless(contrasts: &[Contrast]) -> Verdict {
    let judged = contrasts.iter().filter(|c| c.path_ecn() == PathEcn::Pass);
    let most = |c: &Contrast| c.marked.judged(|f| f.lost_packets).into_iter().max();
    let figures = judged
        .map(|c| Figure::exact(c.who(), most(c).map_or(f64::NAN, |lost| lost as f64)))
        .collect();
    Verdict::at_most("ecn: nothing is lost where packets are marked", 0.0, (0, " packets"), figures)
}

/// Returns whether jumps that the step marks retreat for a mark.
fn retreats(contrasts: &[Contrast]) -> Verdict {
    let is_for_mark = |flow: &FlowOutcome| {
        flow.phases.iter().any(|(_, phase, trigger)| {
            phase == "safe_retreat" && trigger.as_deref() == Some("ECN_CE")
        })
    };
    let resumed = contrasts.iter().filter(|c| c.case() == "step-refused");
    let resumed = resumed.filter(|c| c.marked.parameter("flow.mode") == "careful-resume");
    let share = |c: &Contrast| {
        let retreats = c.marked.judged(is_for_mark);
        retreats.iter().filter(|is| **is).count() as f64 / retreats.len() as f64
    };
    let figures = resumed.map(|c| Figure::exact(c.who(), share(c))).collect();
    let rule = "ecn: every jump that the step marks retreats with ECN_CE";
    Verdict::at_least(rule, 1.0, (2, " of the jumps"), figures)
}

/// Returns whether a retreat for marks leaves slow start what it would have had.
fn recovered(contrasts: &[Contrast]) -> Verdict {
    let is = |c: &&Contrast, mode: &str| c.marked.parameter("flow.mode") == mode;
    let cc = |c: &Contrast| c.marked.named.scenario.flows[0].cc;
    let slow_start = |jump: &Contrast| {
        let mut others = contrasts.iter().filter(|c| is(c, "slow-start"));
        others.find(|c| c.case() == jump.case() && cc(c) == cc(jump))
    };
    let refused = contrasts.iter().filter(|c| c.case().ends_with("-refused"));
    let jumps = refused.filter(|c| is(c, "careful-resume"));
    let figures = jumps.filter_map(|c| {
        let pairs = paired(c.marked, slow_start(c)?.marked, |flow| flow.ttlb_ms);
        Some(Figure::new(c.who(), Interval::ratio_of_means(&pairs)))
    });
    let rule =
        "ecn: a marked jump that is too large takes at most 1.1 times the time of slow start";
    Verdict::at_most(rule, REFUSED_RATIO_MAX, (2, " times"), figures.collect())
}

/// Returns whether paths that bleach or change marks cost nothing.
fn harmless(contrasts: &[Contrast]) -> Verdict {
    let is_fault = |c: &&Contrast| !matches!(c.path_ecn(), PathEcn::Pass | PathEcn::Drop);
    let figures =
        contrasts.iter().filter(is_fault).map(|c| Figure::new(c.who(), c.ratio())).collect();
    let rule = "ecn: marks cost at most 0.5 % of the time on a path that bleaches or changes them";
    Verdict::at_most(rule, FAULT_RATIO_MAX, (3, " times"), figures)
}
