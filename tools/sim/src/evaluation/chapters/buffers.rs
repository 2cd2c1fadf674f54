//! Buffers at the bottleneck, small and large.

use report::chart::lines;
use report::chart::Lines;
use report::chart::Series;
use report::page::note;

use super::gains::gains;
use super::groups::distinct;
use crate::evaluation::data::Chapter;
use crate::evaluation::data::Pair;
use crate::evaluation::findings::Findings;
use crate::evaluation::page;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;

const BUFFER: &str = "path.buffer_bdp";
const SIZE: &str = "flow.object_bdp";

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let pairs = chapter.pairs();
    let mut html = gains(&pairs);
    for size in distinct(pairs.iter().map(|p| p.careful.parameter(SIZE))) {
        let of_size: Vec<&Pair> =
            pairs.iter().filter(|p| p.careful.parameter(SIZE) == size).collect();
        html += &page::heading(&format!("RTTs saved, objects of {size} BDP"));
        html += &lines(&chart(&of_size))?;
    }
    let heads = [
        "path, object, buffer (BDP)",
        "published",
        "ratio",
        "bound",
        "RTTs saved",
        "bound",
        "lost, slow start",
        "lost, Careful Resume",
        "retreats",
    ];
    html += &page::table(&heads, &pairs.iter().map(row).collect::<Vec<_>>());
    html += &note("Lost: packets that the server declared lost. Nothing was published on this.");

    let retreats = |p: &Pair| Figure::new(p.careful.label(), p.careful.retreats_of_jumps());
    let retreats = pairs.iter().map(retreats).collect();
    let rule = "buffers: a jump to half of what the path holds loses nothing: no retreat";
    let verdict = Verdict::at_most(rule, 0.0, (0, " retreats"), retreats);
    Ok(Findings { html, verdicts: vec![verdict], ..Findings::default() })
}

fn row(pair: &Pair) -> Vec<String> {
    let said = |key| pair.careful.parameter(key);
    let lost = |f: &crate::outcome::FlowOutcome| f.lost_packets as f64;
    vec![
        format!("{}, {} BDP, {}", said("case"), said(SIZE), said(BUFFER)),
        "–".into(),
        format!("{:.2}", pair.ratio()),
        format!("{:.2}", pair.bound_ratio()),
        format!("{:.1}", pair.saved_rtts()),
        format!("{:.1}", pair.bound_saved_rtts()),
        format!("{:.0}", pair.slow.median(lost)),
        format!("{:.0}", pair.careful.median(lost)),
        format!("{} of {}", pair.careful.retreats(), pair.careful.runs.len()),
    ]
}

fn chart(pairs: &[&Pair]) -> Lines {
    let buffers = distinct(pairs.iter().map(|p| p.careful.parameter(BUFFER)));
    let series =
        distinct(pairs.iter().map(|p| p.careful.parameter("case"))).into_iter().map(|case| {
            let saved = |buffer: &String| {
                let is = |p: &&&Pair| {
                    p.careful.parameter("case") == case && p.careful.parameter(BUFFER) == *buffer
                };
                pairs.iter().find(is).map(|p| (p.saved_rtts(), 0.0))
            };
            Series { points: buffers.iter().map(saved).collect(), name: case }
        });
    Lines {
        x_title: "buffer (BDP)".into(),
        series: series.collect(),
        columns: buffers,
        y_title: "RTTs saved".into(),
        level: Some((3.0, "3 RTTs".into())),
    }
}
