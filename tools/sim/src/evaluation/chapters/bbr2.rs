//! BBR2 beside CUBIC (RFC 9959, appendix C).

use super::gains::gain_row;
use super::gains::gain_table;
use super::gains::gains;
use super::gains::loss_row;
use super::gains::loss_table;
use super::gains::slower_nowhere;
use super::groups::by_controller;
use crate::evaluation::data::paired;
use crate::evaluation::data::Chapter;
use crate::evaluation::data::Pair;
use crate::evaluation::findings::Findings;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;
use crate::interval::Interval;
use crate::scenario::Controller;

/// Longest time of a resumed download of a case, in ms.
const TTLB_MS_MAX: [(&str, f64); 2] = [("GEO-3.75MB", 2850.0), ("500M-6.25MB", 300.0)];

/// BBR2's longest time with slow start over GEO, as a multiple of CUBIC's.
const SLOW_START_MAX: f64 = 1.05;

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let pairs = chapter.pairs();
    let mut html = gains(&pairs);
    for (cc, of_cc) in by_controller(&pairs) {
        let row = |p: &&Pair| gain_row(p.careful.parameter("case"), "", p);
        html += &page::heading(&format!("With {cc}"));
        html += &gain_table("path, object", &of_cc.iter().map(row).collect::<Vec<_>>());
        let row = |p: &&Pair| loss_row(p.careful.parameter("case"), p);
        html += &loss_table("path, object", &of_cc.iter().map(row).collect::<Vec<_>>());
    }
    let of_bbr2: Vec<&Pair> = pairs.iter().filter(|p| p.controller() == Controller::Bbr2).collect();
    let mut verdicts: Vec<_> = TTLB_MS_MAX.iter().map(|limit| in_time(&of_bbr2, limit)).collect();
    verdicts.push(as_soon_as_cubic(&pairs));
    verdicts.push(lossless(&of_bbr2));
    verdicts.push(slower_nowhere("bbr2: Careful Resume is slower nowhere", 1.0, &pairs));
    Ok(Findings { html, verdicts, ..Findings::default() })
}

fn in_time(pairs: &[&Pair], (case, ms_max): &(&str, f64)) -> Verdict {
    let judged = pairs.iter().filter(|p| p.careful.parameter("case") == *case);
    let figure = |p: &&Pair| Figure::new(p.careful.label(), p.careful.mean(|f| f.ttlb_ms));
    let rule = format!("bbr2, {case}: at most {ms_max} ms with Careful Resume");
    Verdict::at_most(&rule, *ms_max, (0, " ms"), judged.map(figure).collect())
}

/// Returns whether Startup is as fast as CUBIC's slow start.
fn as_soon_as_cubic(pairs: &[Pair]) -> Verdict {
    let of = |case: &str, cc| {
        let mut of_case = pairs.iter().filter(move |p| p.slow.parameter("case") == case);
        of_case.find(|p| p.controller() == cc).map(|p| p.slow)
    };
    let figure = |case: &&str| {
        let (bbr2, cubic) = (of(case, Controller::Bbr2)?, of(case, Controller::Cubic)?);
        let times = paired(bbr2, cubic, |flow| flow.ttlb_ms);
        Some(Figure::new(case.to_string(), Interval::ratio_of_means(&times)))
    };
    let cases = ["500M-6.25MB", "GEO-3.75MB", "GEO-10MB"];
    let rule = "bbr2: slow start takes at most 1.05 times as long as CUBIC's";
    Verdict::at_most(rule, SLOW_START_MAX, (3, ""), cases.iter().filter_map(figure).collect())
}

/// Returns whether a buffer of one BDP takes the jump.
fn lossless(pairs: &[&Pair]) -> Verdict {
    let judged = pairs.iter().filter(|p| p.careful.parameter("case") != "LEO-5MB");
    let most = |p: &&Pair| {
        let lost = p.careful.judged(|flow| flow.dropped_packets);
        lost.into_iter().max().unwrap_or(0) as f64
    };
    let figures = judged.map(|p| Figure::exact(p.careful.label(), most(p))).collect();
    let rule = "bbr2: nothing is lost in all, in any run, where Startup does not overshoot";
    Verdict::at_most(rule, 0.0, (0, " packets"), figures)
}
