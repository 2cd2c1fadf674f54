//! Buffers at the bottleneck, small and large.

use report::chart::lines;
use report::chart::Lines;
use report::chart::Series;
use report::page::figure;
use report::page::note;

use super::gains::gains;
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

const BUFFER: &str = "path.buffer_bdp";
const SIZE: &str = "flow.object_bdp";

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let pairs = chapter.pairs();
    let mut html = gains(&pairs);
    for size in distinct(pairs.iter().map(|p| p.careful.parameter(SIZE))) {
        let of_size: Vec<&Pair> =
            pairs.iter().filter(|p| p.careful.parameter(SIZE) == size).collect();
        let caption = format!(
            "RTTs saved by Careful Resume over buffers of 0.25 to 4 BDP, objects of {size} BDP; bars: 95 % \
             intervals."
        );
        html += &figure(&caption, &lines(&chart(&of_size))?);
    }
    let heads = ["path, object, buffer (BDP)", "ratio", "bound", "RTTs saved", "bound"];
    html += &page::table(&heads, &pairs.iter().map(row).collect::<Vec<_>>());
    let losses = pairs.iter().map(|p| loss_row(name(p), p));
    html += &loss_table("path, object, buffer (BDP)", &losses.collect::<Vec<_>>());
    html += &note("Nothing was published on this.");

    let retreats = |p: &Pair| Figure::exact(p.careful.label(), p.careful.retreats_of_jumps());
    let retreats = pairs.iter().map(retreats).collect();
    let rule = "buffers: a jump to half of what the path holds loses nothing: no retreat";
    let verdict = Verdict::at_most(rule, 0.0, (0, " retreats"), retreats);
    let all: Vec<&Pair> = pairs.iter().collect();
    let verdicts = vec![verdict, loses_no_more("buffers", &all)];
    Ok(Findings { html, verdicts, ..Findings::default() })
}

fn name(pair: &Pair) -> String {
    let said = |key| pair.careful.parameter(key);
    format!("{}, {} BDP, {}", said("case"), said(SIZE), said(BUFFER))
}

fn row(pair: &Pair) -> Vec<String> {
    vec![
        name(pair),
        page::interval(pair.ratio(), 2),
        format!("{:.2}", pair.bound_ratio()),
        page::interval(pair.saved_rtts(), 1),
        format!("{:.1}", pair.bound_saved_rtts()),
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
                pairs.iter().find(is).and_then(|p| page::point(p.saved_rtts()))
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
