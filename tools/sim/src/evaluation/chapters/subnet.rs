//! Unlike clients of one subnet: losses of the slow ones, by where path state is kept.

use report::chart::axis::Unit;
use report::chart::bars;
use report::chart::palette::BLUE;
use report::chart::palette::ORANGE;
use report::chart::Bar;
use report::chart::Bars;
use report::page::figure;
use report::page::note;
use report::stats::median;

use crate::evaluation::data::Cell;
use crate::evaluation::data::Chapter;
use crate::evaluation::findings::Findings;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;
use crate::interval::Interval;
use crate::outcome::FlowOutcome;
use crate::outcome::Outcome;

/// The case that the others are compared with.
const STORE: &str = "store";

/// Flows of the two kinds of clients.
const SLOW: &str = "slow";
const FAST: &str = "fast";

/// Largest share of the store's losses, at the upper end of the interval.
const SHARE_MAX: f64 = 0.2;

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let store = chapter.cells.iter().find(|cell| cell.parameter("case") == STORE);
    let rows: Vec<_> = chapter.cells.iter().map(|cell| row(cell, store)).collect();
    let heads = [
        "path state kept in",
        "lost by slow clients",
        "of it, on later visits",
        "share of the store's",
        "jumps",
        "retreats",
        "median time, slow",
        "fast",
    ];
    let mut html = figure(
        "Packets that slow clients lost in 75 visits, by where path state is kept: a dot for each run, \
         means with 95 % intervals.",
        &bars(&chart(chapter))?,
    );
    html += &page::table(&heads, &rows);
    html += &note(
        "Losses are means over runs, with 95 % intervals. Jumps and retreats are the means of all clients. A client's first visit has no \
         state but its neighbours'.",
    );
    let figure = |cell: &Cell| Figure::new(cell.parameter("case"), share(cell, store));
    let others = chapter.cells.iter().filter(|cell| cell.parameter("case") != STORE);
    let rule =
        "subnet: with states of their own, slow clients lose at most a fifth of what they lose \
        with the store alone";
    let verdict = Verdict::at_most(rule, SHARE_MAX, (3, ""), others.map(figure).collect());
    Ok(Findings { html, verdicts: vec![verdict], ..Findings::default() })
}

fn of<'a>(run: &'a Outcome, name: &'a str) -> impl Iterator<Item = &'a FlowOutcome> {
    run.flows.iter().filter(move |flow| flow.name == name)
}

/// Returns what slow clients lost in a run, in packets.
fn lost(run: &Outcome) -> f64 {
    of(run, SLOW).map(|flow| flow.lost_packets as f64).sum()
}

/// Returns what they lost on visits after their first one.
fn lost_again(run: &Outcome) -> f64 {
    let is_first = |flow: &FlowOutcome| {
        let mut earlier = of(run, SLOW).filter(|other| other.start_ms < flow.start_ms);
        earlier.all(|other| other.client != flow.client)
    };
    let again = of(run, SLOW).filter(|flow| !is_first(flow));
    again.map(|flow| flow.lost_packets as f64).sum()
}

/// Returns a case's share of the store's losses, with the interval of runs drawn again.
fn share(cell: &Cell, store: Option<&Cell>) -> Interval {
    let losses = |cell: &Cell| cell.runs.iter().map(|run| lost(run)).collect::<Vec<_>>();
    let store = store.map(losses).unwrap_or_default();
    Interval::ratio_of_means(&losses(cell).into_iter().zip(store).collect::<Vec<_>>())
}

fn row(cell: &Cell, store: Option<&Cell>) -> Vec<String> {
    let mean_of = |figure: &dyn Fn(&Outcome) -> f64| {
        Interval::mean(&cell.runs.iter().map(|run| figure(run)).collect::<Vec<_>>())
    };
    let count = |is_counted: fn(&FlowOutcome) -> bool| {
        let mean = mean_of(&|run| run.flows.iter().filter(|flow| is_counted(flow)).count() as f64);
        page::number(mean.value, 1)
    };
    let time = |name: &'static str| {
        let flows = cell.runs.iter().flat_map(|run| of(run, name));
        page::time(median(flows.map(|flow| flow.ttlb_ms)).unwrap_or(f64::NAN))
    };
    vec![
        cell.parameter("case"),
        page::interval(mean_of(&lost), 0),
        page::interval(mean_of(&lost_again), 0),
        page::interval(share(cell, store), 3),
        count(|flow| flow.jump_cwnd_bytes.is_some()),
        count(|flow| flow.phases.iter().any(|phase| phase.1 == "safe_retreat")),
        time(SLOW),
        time(FAST),
    ]
}

fn chart(chapter: &Chapter) -> Bars {
    let bar = |cell: &Cell| {
        let mut runs: Vec<f64> = cell.runs.iter().map(|run| lost(run)).collect();
        runs.sort_by(f64::total_cmp);
        let mean = Interval::mean(&runs);
        let value = mean.value;
        let is_store = cell.parameter("case") == STORE;
        Bar {
            label: cell.parameter("case"),
            value,
            runs,
            interval: page::ends(mean),
            colour: if is_store { ORANGE } else { BLUE },
            bound: None,
            words: page::number(value, 0),
        }
    };
    let fifth = chapter.cells.iter().find(|cell| cell.parameter("case") == STORE);
    let fifth = fifth.map(|cell| SHARE_MAX * bar(cell).value);
    Bars {
        title: "packets that slow clients lost in 75 visits",
        unit: Unit { name: "packets", size: 1.0 },
        bars: chapter.cells.iter().map(bar).collect(),
        marks: fifth.map(|fifth| (fifth, "a fifth of the store's".into())).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::fake;
    use crate::scenario::shipped;

    /// Returns the findings if clients lose `own` packets a visit with a state of their own.
    fn findings_of(own: impl Fn(u32) -> u64) -> Findings {
        let file = shipped::find("subnet").unwrap();
        let mut outcomes = fake::outcomes(&file);
        for outcome in outcomes.iter_mut().filter(|o| o.parameters["case"] != STORE) {
            let own = own(outcome.run);
            outcome.flows.iter_mut().for_each(|flow| flow.lost_packets = own);
        }
        findings(&Chapter::new(&file, &outcomes)).unwrap()
    }

    #[test]
    fn share_is_judged_at_the_upper_end_of_its_interval() {
        assert!(findings_of(|_| 10).verdicts[0].is_met());
        assert!(!findings_of(|_| 30).verdicts[0].is_met());
        // A tenth on average, and nearly all of it in two runs of twenty.
        let uneven = findings_of(|run| if run % 10 == 0 { 110 } else { 1 });
        assert!(!uneven.verdicts[0].is_met(), "{uneven:?}");
    }

    #[test]
    fn table_and_chart_have_each_case() {
        let html = findings_of(|_| 10).html;
        for words in ["store", "both", "token", "a fifth of the store", "95 % intervals", "<svg"] {
            assert!(html.contains(words), "{words}");
        }
    }
}
