//! Overshoot of slow start after a jump, and a ceiling on it.

use report::chart::axis::Unit;
use report::chart::bars;
use report::chart::palette::BLUE;
use report::chart::palette::ORANGE;
use report::chart::Bar;
use report::chart::Bars;
use report::page::figure;
use report::page::note;

use super::groups::distinct;
use crate::evaluation::data::paired;
use crate::evaluation::data::Cell;
use crate::evaluation::data::Chapter;
use crate::evaluation::findings::Findings;
use crate::evaluation::names::exit_name;
use crate::evaluation::names::EXIT;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;
use crate::interval::Interval;
use crate::outcome::FlowOutcome;

const CEILING: &str = "flow.after_jump";

/// The same without and with the ceiling.
struct CeilingPair<'a> {
    free: &'a Cell<'a>,
    capped: &'a Cell<'a>,
}

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let rows = rows(chapter);
    let mut html = String::new();
    for place in distinct(rows.iter().map(CeilingPair::place)) {
        let of_place: Vec<_> = rows.iter().filter(|r| r.place() == place).collect();
        let caption = format!(
            "{place}: packets lost in all, by what ends slow start, with the ceiling and without; means, \
             and their 95 % intervals."
        );
        html += &figure(&caption, &bars(&chart(&of_place))?);
    }
    let heads = [
        "path, slow start ends by",
        "runs",
        "lost in all",
        "with the ceiling",
        "of it before the jump was validated",
        "with the ceiling",
        "TTLB",
        "with the ceiling",
        "ratio",
        "bound",
        "retreats",
        "with the ceiling",
    ];
    html += &page::table(&heads, &rows.iter().map(CeilingPair::cells).collect::<Vec<_>>());
    html += &note(
        "Packets that the path drops. Nothing need be lost. The bound of times is that of the path at \
         its best.",
    );
    let rule = "ceiling: no more is lost in all than without it";
    let more = |row: &CeilingPair| Interval::difference(&paired(row.capped, row.free, dropped));
    let figures = rows.iter().map(|r| Figure::new(r.label(), more(r))).collect();
    let verdict = Verdict::at_most(rule, 0.0, (1, " packets more"), figures);
    Ok(Findings { html, verdicts: vec![verdict], ..Findings::default() })
}

fn rows<'a>(chapter: &'a Chapter) -> Vec<CeilingPair<'a>> {
    let of = |ceiling: &'static str| {
        chapter.cells.iter().filter(move |c| c.parameter(CEILING) == ceiling)
    };
    let place = |c: &Cell| (c.parameter("case"), c.parameter(EXIT));
    let row = |free: &'a Cell<'a>| {
        let capped = of("ceiling").find(|capped| place(capped) == place(free))?;
        Some(CeilingPair { free, capped })
    };
    of("none").filter_map(row).collect()
}

/// Returns the packets lost in all; no number unless the flow jumped.
fn dropped(flow: &FlowOutcome) -> f64 {
    flow.jump_cwnd_bytes.map_or(f64::NAN, |_| flow.dropped_packets as f64)
}

/// Returns those lost before the jump was validated.
fn dropped_before(flow: &FlowOutcome) -> f64 {
    flow.dropped_before_validated_packets.map_or(f64::NAN, |packets| packets as f64)
}

impl CeilingPair<'_> {
    fn place(&self) -> String {
        self.free.parameter("case")
    }

    fn label(&self) -> String {
        format!("{}, {}", self.place(), exit_name(self.free))
    }

    fn cells(&self) -> Vec<String> {
        let (free, capped) = (self.free, self.capped);
        vec![
            self.label(),
            free.runs.len().to_string(),
            page::interval(free.mean(dropped), 1),
            page::interval(capped.mean(dropped), 1),
            page::interval(free.mean(dropped_before), 1),
            page::interval(capped.mean(dropped_before), 1),
            page::time(free.ttlb_ms()),
            page::time(capped.ttlb_ms()),
            page::interval(Interval::ratio_of_means(&paired(capped, free, |f| f.ttlb_ms)), 3),
            page::time(free.bound_ms()),
            free.retreats().to_string(),
            capped.retreats().to_string(),
        ]
    }
}

fn chart(rows: &[&CeilingPair]) -> Bars {
    let both = rows.iter().flat_map(|row| {
        let bar = |cell: &Cell, ceiling: &str, colour| Bar {
            label: format!("{}{ceiling}", exit_name(cell)),
            value: cell.mean(dropped).value,
            runs: Vec::new(),
            interval: page::ends(cell.mean(dropped)),
            colour,
            bound: None,
            words: page::number(cell.mean(dropped).value, 1),
        };
        [bar(row.free, "", ORANGE), bar(row.capped, ", ceiling", BLUE)]
    });
    Bars {
        title: "packets lost in all",
        unit: Unit { name: "mean of all runs", size: 1.0 },
        bars: both.collect(),
        marks: Vec::new(),
    }
}
