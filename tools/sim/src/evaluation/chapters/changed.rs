//! Paths that have changed since they were saved.

use report::chart::heat;
use report::chart::Heat;
use report::page::figure;
use report::page::note;

use super::gains::gain_row;
use super::gains::gain_table;
use super::gains::loss_row;
use super::gains::loss_table;
use super::groups::distinct;
use crate::evaluation::data::Chapter;
use crate::evaluation::data::Pair;
use crate::evaluation::findings::Findings;
use crate::evaluation::page;
use crate::evaluation::rules::loses_no_more;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;

const CAPACITY: &str = "flow.saved.cwnd_bdp";
const RTT: &str = "flow.saved.rtt_ratio";

/// Round trips that Careful Resume may cost where saved_cwnd is slightly too large.
const COST_RTTS_MAX: f64 = 2.0;

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let pairs = chapter.pairs();
    let mut html = page::paragraph(&format!(
        "Careful Resume takes {} of slow start's time. Where the RTT tells that the path is another, \
         it does not jump, and costs {} RTTs.",
        page::range(pairs.iter().map(|p| p.ratio().value), 2),
        page::range(pairs.iter().filter(|p| is_another(p)).map(|p| -p.saved_rtts().value), 2),
    ));
    for case in distinct(pairs.iter().map(|p| p.careful.parameter("case"))) {
        let of_case: Vec<&Pair> =
            pairs.iter().filter(|p| p.careful.parameter("case") == case).collect();
        let caption = format!(
            "{case}: time with Careful Resume over that with slow start, with 95 % intervals, by what the \
             path's capacity and RTT are now, as multiples of when it was saved. Lower is better."
        );
        html += &figure(&caption, &heat(&map(&of_case))?);
        let shown: Vec<&&Pair> = of_case
            .iter()
            .filter(|p| p.careful.parameter(CAPACITY) == "1" || p.careful.parameter(RTT) == "1")
            .collect();
        let rows = shown.iter().map(|p| gain_row(name(p), "–", p));
        html += &gain_table("capacity, RTT", &rows.collect::<Vec<_>>());
        let rows = shown.iter().map(|p| loss_row(name(p), p));
        html += &loss_table("capacity, RTT", &rows.collect::<Vec<_>>());
    }
    html += &note(
        "Capacity and RTT are now, as multiples of when the path was saved. Nothing was published on \
         this. Bounds are those of a jump to half of what was saved, whatever the RTT.",
    );
    Ok(Findings { html, verdicts: verdicts(&pairs), ..Findings::default() })
}

fn verdicts(pairs: &[Pair]) -> Vec<Verdict> {
    // A jump that the path does not hold has to lose something.
    let fits = |p: &&Pair| saved(p).0 <= 1.0 && saved(p).1 == 1.0;
    let fitting: Vec<&Pair> = pairs.iter().filter(fits).collect();
    vec![jumps(pairs), costs(pairs), loses_no_more("changed, what fits", &fitting)]
}

fn saved(pair: &Pair) -> (f64, f64) {
    let saved = &pair.careful.named.scenario.flows[0].saved;
    (saved.cwnd_bdp, saved.rtt_ratio)
}

/// Returns whether the RTT is less than half of the saved one, or more than ten times it.
fn is_another(pair: &Pair) -> bool {
    let (_, rtt_ratio) = saved(pair);
    !(0.1..=2.0).contains(&rtt_ratio)
}

fn jumps(pairs: &[Pair]) -> Verdict {
    let count = |p: &Pair| {
        let jumped = p.careful.judged(|f| f.jump_cwnd_bytes.is_some());
        Figure::exact(p.careful.label(), jumped.iter().filter(|j| **j).count() as f64)
    };
    let rule = "changed: an RTT of less than half the saved one, or above ten times it, is no jump";
    let figures = pairs.iter().filter(|p| is_another(p)).map(count).collect();
    Verdict::at_most(rule, 0.0, (0, " jumps"), figures)
}

fn costs(pairs: &[Pair]) -> Verdict {
    let cost = |p: &Pair| Figure::new(p.careful.label(), p.saved_rtts().map(|rtts| -rtts));
    let rule = "changed: at most 2 RTTs slower if at most 2 BDP are saved";
    let figures = pairs.iter().filter(|p| saved(p).0 <= 2.0).map(cost).collect();
    Verdict::at_most(rule, COST_RTTS_MAX, (2, " RTTs"), figures)
}

/// Returns `x 4`, `x 1/4`: what a multiple then is now.
fn now(then: f64) -> String {
    match then {
        _ if then <= 1.0 => format!("x {}", round(1.0 / then)),
        _ => format!("x 1/{}", round(then)),
    }
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn name(pair: &Pair) -> String {
    let (cwnd_bdp, rtt_ratio) = saved(pair);
    format!("{}, {}", now(cwnd_bdp), now(rtt_ratio))
}

fn map(pairs: &[&Pair]) -> Heat {
    let capacities = distinct(pairs.iter().map(|p| saved(p).0));
    let rtts = distinct(pairs.iter().map(|p| saved(p).1));
    let cell = |capacity: f64, rtt: f64| {
        pairs.iter().find(|p| saved(p) == (capacity, rtt)).map(|p| p.ratio())
    };
    let all: Vec<Vec<_>> = rtts
        .iter()
        .map(|&rtt| capacities.iter().map(|&capacity| cell(capacity, rtt)).collect())
        .collect();
    Heat {
        x_title: "capacity now (multiple of saved)".into(),
        columns: capacities.iter().map(|c| now(*c)).collect(),
        y_title: "RTT now".into(),
        rows: rtts.iter().map(|r| now(*r)).collect(),
        cells: page::values(&all),
        intervals: page::all_ends(&all),
        digits: 2,
    }
}
