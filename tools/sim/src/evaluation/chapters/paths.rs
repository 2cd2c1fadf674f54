//! Times to the last byte over paths: P1 and P5 to P8.

use report::chart::axis::Unit;
use report::chart::bars;
use report::chart::palette::BLUE;
use report::chart::palette::ORANGE;
use report::chart::Bar;
use report::chart::Bars;
use report::page::figure;

use super::gains::gain_row;
use super::gains::gain_table;
use super::gains::gains;
use super::gains::loss_row;
use super::gains::loss_table;
use super::gains::slower_nowhere;
use super::gains::RENO;
use super::groups::by_controller;
use crate::evaluation::data::Cell;
use crate::evaluation::data::Chapter;
use crate::evaluation::data::Pair;
use crate::evaluation::findings::Findings;
use crate::evaluation::findings::Published;
use crate::evaluation::page;
use crate::evaluation::rules::loses_no_more;
use crate::interval::Interval;

/// Published result of a case: the row of the summary, the figure in words and as a ratio.
const PUBLISHED: [(&str, &str, &str, f64); 5] = [
    (
        "500M-6.25MB",
        "P8, 6.25 MB over 500 Mbit/s, 50 ms",
        "657 → 310 ms (ratio 0.47)",
        310.0 / 657.0,
    ),
    (
        "GEO-3.75MB",
        "P5, GEO: ratio of median times (3.75 MB, 50 Mbit/s, 600 ms)",
        "0.64",
        12.3 / 19.3,
    ),
    ("GEO-10MB", "P5, GEO: ratio of median times (10 MB, 50 Mbit/s, 600 ms)", "0.64", 12.3 / 19.3),
    (
        "LEO-0.75MB",
        "P6, LEO: ratio of median times (0.75 MB, 100 Mbit/s, 60 ms)",
        "0.63",
        1.7 / 2.7,
    ),
    (
        "terrestrial-0.25MB",
        "P7, terrestrial: ratio of median times (0.25 MB, 100 Mbit/s, 20 ms)",
        "0.79",
        1.1 / 1.4,
    ),
];

/// How published ratios compare with ours.
const SIZES_UNKNOWN: &str =
    "Sizes and links of the published tests are not known; these are ours, and \
    the ratio depends on both. Their servers ended slow start by HyStart++, their links jittered.";
const OTHER_SERVER: &str =
    "The published times are of neqo. Both of ours are shorter, that with slow \
    start by more, so that there is less left to gain.";

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let pairs = chapter.pairs();
    let mut html = gains(&pairs);
    for (cc, of_cc) in by_controller(&pairs) {
        html += &page::heading(&format!("With {cc}"));
        let caption = format!(
            "{cc}: mean time to the last byte, from the client's first packet, in RTTs, with 95 % intervals. \
             Long thin lines: the fluid bound of that bar; published times (P8) are named at their bars."
        );
        html += &figure(&caption, &bars(&chart(&of_cc))?);
        html += &gain_table("path, object", &of_cc.iter().map(|p| row(p)).collect::<Vec<_>>());
        let losses = of_cc.iter().map(|p| loss_row(p.careful.parameter("case"), p));
        html += &loss_table("path, object", &losses.collect::<Vec<_>>());
    }
    html += &report::page::note(&format!(
        "The published ratios are those of the published \
         median times; their object sizes are not published. P8's times are another implementation's. \
         {RENO}"
    ));
    let rule = "paths: Careful Resume is slower nowhere";
    let all: Vec<&Pair> = pairs.iter().collect();
    let verdicts = vec![slower_nowhere(rule, 1.0, &pairs), loses_no_more("paths", &all)];
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
            let interval = cell.mean(|f| f.ttlb_ms).map(|ms| ms / rtt_ms);
            let published = match (cell.parameter("case").as_str(), mode) {
                ("500M-6.25MB", "slow start") => "; published (P8): 13.1 RTTs",
                ("500M-6.25MB", _) => "; published (P8): 6.2 RTTs",
                _ => "",
            };
            Bar {
                label: format!("{}, {mode}", cell.parameter("case")),
                value: rtts,
                runs: Vec::new(),
                interval: page::ends(interval),
                colour,
                bound: Some(cell.bound_ms() / rtt_ms).filter(|rtts| rtts.is_finite()),
                words: format!("{rtts:.1} RTTs, {}{published}", page::time(cell.ttlb_ms())),
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
    let rtts: Vec<Interval> = saved.iter().map(|p| p.saved_rtts()).collect();
    let mut rows = vec![Published::new(
        "P1, testbed: round trips saved (here: where the path holds 64 initial windows and the object \
         fills it)",
        "more than 3",
        page::range_of(&rtts, 1),
        page::range(saved.iter().map(|p| p.bound_saved_rtts()), 1),
    )
    .judged(
        !rtts.is_empty() && rtts.iter().all(|rtts| rtts.low > 3.0),
        [
            "Every interval is above 3. The testbed's links are not ours.",
            "Not every interval is above 3: Reno's slow start more than doubles at first, so that there \
             is less to save. The testbed's links are not ours.",
        ],
    )];
    for (case, what, figure, ratio) in PUBLISHED {
        let Some(pair) = of(case) else { continue };
        let time = |cell: &Cell| page::time(cell.ttlb_ms());
        let bound = |cell: &Cell| page::time(cell.bound_ms());
        let (slow, careful) = (pair.slow, pair.careful);
        let row = Published::new(
            what,
            figure,
            format!(
                "{} → {}, ratio {}",
                time(slow),
                time(careful),
                page::interval(pair.ratio(), 3)
            ),
            format!("{} → {} ({:.2})", bound(slow), bound(careful), pair.bound_ratio()),
        );
        let about = if case == "500M-6.25MB" { OTHER_SERVER } else { SIZES_UNKNOWN };
        rows.push(row.figure(ratio, pair.ratio(), about));
    }
    rows
}
