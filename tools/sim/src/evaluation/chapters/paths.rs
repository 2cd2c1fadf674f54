//! Times to the last byte over paths: P1 and P5 to P8.

use report::chart::axis::Unit;
use report::chart::bars;
use report::chart::palette::BLUE;
use report::chart::palette::ORANGE;
use report::chart::Bar;
use report::chart::Bars;

use super::gains::gain_row;
use super::gains::gain_table;
use super::gains::gains;
use super::gains::slower_nowhere;
use super::gains::RENO;
use super::groups::by_controller;
use crate::evaluation::data::Cell;
use crate::evaluation::data::Chapter;
use crate::evaluation::data::Pair;
use crate::evaluation::findings::Findings;
use crate::evaluation::findings::Published;
use crate::evaluation::page;

/// Published result of a case: the row of the summary, the figure, and
/// whether it is a pair of times or a ratio of medians.
const PUBLISHED: [(&str, &str, &str); 5] = [
    ("500M-6.25MB", "P8, 6.25 MB over 500 Mbit/s, 50 ms", "657 → 310 ms (ratio 0.47)"),
    ("GEO-3.75MB", "P5, GEO: ratio of median times (3.75 MB, 50 Mbit/s, 600 ms)", "0.64"),
    ("GEO-10MB", "P5, GEO: ratio of median times (10 MB, 50 Mbit/s, 600 ms)", "0.64"),
    ("LEO-0.75MB", "P6, LEO: ratio of median times (0.75 MB, 100 Mbit/s, 60 ms)", "0.63"),
    (
        "terrestrial-0.25MB",
        "P7, terrestrial: ratio of median times (0.25 MB, 100 Mbit/s, 20 ms)",
        "0.79",
    ),
];

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let pairs = chapter.pairs();
    let mut html = gains(&pairs);
    for (cc, of_cc) in by_controller(&pairs) {
        html += &page::heading(&format!("With {cc}"));
        html += &bars(&chart(&of_cc))?;
        html += &gain_table("path, object", &of_cc.iter().map(|p| row(p)).collect::<Vec<_>>());
    }
    html += &report::page::note(&format!(
        "Black lines: the bound of that bar. The published ratios are those of the published \
         median times; their object sizes are not published. P8's times are another implementation's. \
         {RENO}"
    ));
    let rule = "paths: Careful Resume is slower nowhere";
    let verdicts = vec![slower_nowhere(rule, 1.0, &pairs)];
    Ok(Findings { html, published: published(&pairs), verdicts })
}

fn row(pair: &Pair) -> Vec<String> {
    let case = pair.careful.parameter("case");
    let published = PUBLISHED.iter().find(|p| p.0 == case).map_or("", |p| p.2);
    gain_row(case, published, pair)
}

/// Charts times in round trips, so that all paths have room on one axis.
fn chart(pairs: &[&Pair]) -> Bars {
    let both = pairs.iter().flat_map(|p| {
        let rtt_ms = p.rtt_ms();
        let bar = |cell: &Cell, mode: &str, colour| {
            let rtts = cell.ttlb_ms() / rtt_ms;
            Bar {
                label: format!("{}, {mode}", cell.parameter("case")),
                value: rtts,
                runs: Vec::new(),
                colour,
                bound: Some(cell.bound_ms() / rtt_ms).filter(|rtts| rtts.is_finite()),
                words: format!("{rtts:.1} RTTs, {}", page::time(cell.ttlb_ms())),
            }
        };
        [bar(p.slow, "slow start", ORANGE), bar(p.careful, "Careful Resume", BLUE)]
    });
    let title = "time to the last byte, from the client's first packet";
    let unit = Unit { name: "RTTs", size: 1.0 };
    Bars { title, unit, bars: both.collect(), marks: Vec::new() }
}

fn published(pairs: &[Pair]) -> Vec<Published> {
    let of = |case: &str| pairs.iter().find(|p| p.careful.parameter("case") == case);
    let saved: Vec<&Pair> = pairs.iter().filter(|p| p.has_much_to_save()).collect();
    let mut rows = vec![Published::new(
        "P1, testbed: round trips saved (here: where the path holds 64 initial windows and the object \
         fills it)",
        "more than 3",
        page::range(saved.iter().map(|p| p.saved_rtts()), 1),
        page::range(saved.iter().map(|p| p.bound_saved_rtts()), 1),
    )];
    for (case, what, figure) in PUBLISHED {
        let Some(pair) = of(case) else { continue };
        let time = |cell: &Cell| page::time(cell.ttlb_ms());
        let bound = |cell: &Cell| page::time(cell.bound_ms());
        let (slow, careful) = (pair.slow, pair.careful);
        rows.push(Published::new(
            what,
            figure,
            format!("{} → {} (ratio {:.2})", time(slow), time(careful), pair.ratio()),
            format!("{} → {} ({:.2})", bound(slow), bound(careful), pair.bound_ratio()),
        ));
    }
    rows
}
