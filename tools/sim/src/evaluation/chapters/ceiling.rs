//! Overshoot of slow start after a jump, and a ceiling on it.

use report::chart::axis::Unit;
use report::chart::bars;
use report::chart::palette::BLUE;
use report::chart::palette::ORANGE;
use report::chart::Bar;
use report::chart::Bars;
use report::page::note;
use report::stats::mean;

use super::groups::distinct;
use crate::evaluation::data::Cell;
use crate::evaluation::data::Chapter;
use crate::evaluation::findings::Findings;
use crate::evaluation::names::exit_name;
use crate::evaluation::names::EXIT;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;

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
        html += &page::heading(&place);
        html += &bars(&chart(&of_place))?;
    }
    let heads = [
        "path, slow start ends by",
        "runs",
        "lost after the jump",
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
        "Packets lost within 5 RTTs of the jump, mean of all runs; times are medians. Nothing need be \
         lost. The bound of times is that of the path at its best.",
    );
    let rule = "ceiling: no more is lost after the jump than without it";
    let figures =
        rows.iter().map(|r| Figure::new(r.label(), lost(r.capped) - lost(r.free))).collect();
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

/// Returns the mean of packets lost within 5 RTTs of the jump; no number unless every run
/// jumped.
fn lost(cell: &Cell) -> f64 {
    let lost: Option<Vec<f64>> =
        cell.judged(|f| f.jump_lost_packets.map(|n| n as f64)).into_iter().collect();
    lost.and_then(|lost| mean(&lost)).map_or(f64::NAN, |m| m.value)
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
            page::number(lost(free), 1),
            page::number(lost(capped), 1),
            page::time(free.ttlb_ms()),
            page::time(capped.ttlb_ms()),
            page::number(capped.ttlb_ms() / free.ttlb_ms(), 3),
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
            value: lost(cell),
            runs: Vec::new(),
            colour,
            bound: None,
            words: page::number(lost(cell), 1),
        };
        [bar(row.free, "", ORANGE), bar(row.capped, ", ceiling", BLUE)]
    });
    Bars {
        title: "packets lost after the jump",
        unit: Unit { name: "mean of all runs", size: 1.0 },
        bars: both.collect(),
        marks: Vec::new(),
    }
}
