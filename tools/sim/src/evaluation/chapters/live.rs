//! Paths like live ones, and links of other testbeds: P2, P14, P16 and P17.

use report::chart::axis::Unit;
use report::chart::bars;
use report::chart::palette::BLUE;
use report::chart::Bar;
use report::chart::Bars;
use report::page::figure;

use super::gains::gain_row;
use super::gains::gain_table;
use super::gains::loss_row;
use super::gains::loss_table;
use super::gains::slower_nowhere;
use crate::evaluation::data::Chapter;
use crate::evaluation::data::Pair;
use crate::evaluation::findings::Findings;
use crate::evaluation::findings::Published;
use crate::evaluation::page;
use crate::interval::Interval;

/// Round trips that Careful Resume saved over live paths (P2), and over 1 Gbit/s and 600 ms (P14).
const P2_RTTS: (f64, f64) = (2.8, 3.4);
const P14_RTTS: f64 = 12.0;

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let pairs = chapter.pairs();
    let mut html = figure(
        "RTTs saved by Careful Resume, means with 95 % intervals; long thin lines: by the fluid bounds. \
         Published: 2.8 to 3.4 over live paths (P2), 12 over 1 Gbit/s and 600 ms (P14).",
        &bars(&chart(&pairs))?,
    );
    let published_of = |p: &Pair| match p.careful.parameter("case").as_str() {
        "P14" => "12 RTTs",
        case if case.starts_with("P2-") => "2.8 to 3.4 RTTs",
        _ => "–",
    };
    let rows = pairs.iter().map(|p| gain_row(p.careful.label(), published_of(p), p));
    html += &gain_table("path", &rows.collect::<Vec<_>>());
    let losses = pairs.iter().map(|p| loss_row(p.careful.label(), p));
    html += &loss_table("path", &losses.collect::<Vec<_>>());
    let rule = "live: Careful Resume is slower nowhere by more than 1 %";
    let verdicts = vec![slower_nowhere(rule, 1.01, &pairs)];
    Ok(Findings { html, verdicts, published: published(&pairs) })
}

fn of<'a>(pairs: &'a [Pair<'a>], prefix: &str) -> Vec<&'a Pair<'a>> {
    pairs.iter().filter(|p| p.careful.parameter("case").starts_with(prefix)).collect()
}

fn rtts(pairs: &[&Pair]) -> Vec<Interval> {
    pairs.iter().map(|p| p.saved_rtts()).collect()
}

fn bounds(pairs: &[&Pair]) -> String {
    page::range(pairs.iter().map(|p| p.bound_saved_rtts()), 1)
}

fn published(pairs: &[Pair]) -> Vec<Published> {
    let live = of(pairs, "P2-");
    let (from, to) = P2_RTTS;
    let overlaps = |ours: &Interval| ours.low <= to && ours.high >= from;
    let p2 = Published::new(
        "P2, live GEO, 4G and 5G paths: round trips saved (here: paths like these)",
        "2.8 to 3.4",
        live.iter()
            .map(|p| format!("{} {}", p.careful.parameter("case"), page::interval(p.saved_rtts(), 1)))
            .collect::<Vec<_>>()
            .join("; "),
        bounds(&live),
    )
    .judged(
        rtts(&live).iter().all(overlaps),
        [
            "Each interval meets the published range. Rates and sizes of the live paths are not published.",
            "Not every interval meets the published range: rates and sizes of the live paths are not \
             published, and how many round trips there are to save grows with both.",
        ],
    );
    let fast = of(pairs, "P14");
    let saved = fast.first().map_or(Interval::exact(f64::NAN), |p| p.saved_rtts());
    let p14 = Published::new(
        "P14, 1 Gbit/s, 600 ms, an object of one BDP: round trips saved",
        "12",
        page::interval(saved, 1),
        bounds(&fast),
    )
    .figure(
        P14_RTTS,
        saved,
        "Slow start that doubles exactly leaves about 10 to be saved by a jump to half of the BDP, as the \
         fluid bounds tell: the published slow start, neqo's, doubles more slowly.",
    );
    let open = |id: &str, what: &str, why: &str| {
        let of_id = of(pairs, id);
        let times = page::range_of(&of_id.iter().map(|p| p.ratio()).collect::<Vec<_>>(), 2);
        let ours =
            format!("ratio of times {times}; RTTs saved {}", page::range_of(&rtts(&of_id), 1));
        Published::new(&format!("{id}, {what}"), "settings alone", ours, bounds(&of_id)).open(why)
    };
    vec![
        p2,
        p14,
        open(
            "P16",
            "netem testbed, 1 MB: 100 Mbit/s, 600 ms, 600 kB saved; 10 Mbit/s, 10 to 800 ms",
            "The testbed's settings are published, and no results to compare with.",
        ),
        open(
            "P17",
            "hackathon, GEO 50/5 Mbit/s, 10 and 20 MB, jumps of 2000 packets",
            "The settings are published, and no results to compare with.",
        ),
    ]
}

fn chart(pairs: &[Pair]) -> Bars {
    let bar = |p: &Pair| Bar {
        label: p.careful.label(),
        value: p.saved_rtts().value,
        runs: Vec::new(),
        interval: page::ends(p.saved_rtts()),
        colour: BLUE,
        bound: Some(p.bound_saved_rtts()).filter(|rtts| rtts.is_finite()),
        words: format!("{:.1}", p.saved_rtts().value),
    };
    Bars {
        title: "round trips saved",
        unit: Unit { name: "RTTs", size: 1.0 },
        bars: pairs.iter().map(bar).collect(),
        marks: vec![
            (P2_RTTS.0, "P2: 2.8 to 3.4".into()),
            (P2_RTTS.1, String::new()),
            (P14_RTTS, "P14: 12".into()),
        ],
    }
}
