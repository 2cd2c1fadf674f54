//! Objects smaller and larger than the BDP: P10.

use report::chart::lines;
use report::chart::Lines;
use report::chart::Series;
use report::page::figure;

use super::gains::gain_row;
use super::gains::gain_table;
use super::gains::gains;
use super::gains::loss_row;
use super::gains::loss_table;
use super::gains::slower_nowhere;
use super::gains::RENO;
use super::groups::by_controller;
use super::groups::distinct;
use crate::evaluation::data::Chapter;
use crate::evaluation::data::Pair;
use crate::evaluation::findings::Findings;
use crate::evaluation::findings::Published;
use crate::evaluation::page;
use crate::evaluation::rules::loses_no_more;
use crate::interval::Interval;

const SIZE: &str = "flow.object_bdp";

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let pairs = chapter.pairs();
    let mut html = gains(&pairs);
    for (cc, of_cc) in by_controller(&pairs) {
        html += &page::heading(&format!("With {cc}"));
        let caption = format!(
            "{cc}: time with Careful Resume over that with slow start, over the size of the object; bars: \
             95 % intervals. Published (P10): below 1, a plot without figures."
        );
        html += &figure(&caption, &lines(&chart(&of_cc))?);
        let rows: Vec<_> = of_cc.iter().map(|p| gain_row(name(p), "plot", p)).collect();
        html += &gain_table("path, object", &rows);
        let rows: Vec<_> = of_cc.iter().map(|p| loss_row(name(p), p)).collect();
        html += &loss_table("path, object", &rows);
    }
    html += &report::page::note(&format!(
        "P10's figures are published as plots only. What is saved does not grow with the object once \
         the path is full, so the ratio tends to 1. {RENO}"
    ));

    let published =
        distinct(pairs.iter().map(|p| p.careful.parameter("case"))).into_iter().map(|case| {
            let of_case = || pairs.iter().filter(|p| p.careful.parameter("case") == case);
            let ratios: Vec<Interval> = of_case().map(Pair::ratio).collect();
            Published::new(
                &format!("P10, {case}, 0.25 to 20 BDP: ratio of times"),
                "below 1 (a plot)",
                page::range_of(&ratios, 2),
                page::range(of_case().map(Pair::bound_ratio), 2),
            )
            .judged(
                ratios.iter().all(|ratio| ratio.high < 1.0),
                [
                    "Every interval is below 1; P10 is a plot without figures, so that only the direction \
                     can be compared.",
                    "Some intervals reach 1: objects of a quarter of a BDP hardly outlast the initial \
                     window and the next one. P10 is a plot without figures.",
                ],
            )
        });
    let published = published.collect();
    let rule = "objects: Careful Resume is slower nowhere by more than 1 %";
    let all: Vec<&Pair> = pairs.iter().collect();
    let verdicts = vec![slower_nowhere(rule, 1.01, &pairs), loses_no_more("objects", &all)];
    Ok(Findings { html, published, verdicts })
}

fn name(pair: &Pair) -> String {
    let (case, size) = (pair.careful.parameter("case"), pair.careful.parameter(SIZE));
    let bytes = pair.object_bytes() as f64 / 1e6;
    format!("{case}, {size} BDP ({bytes:.2} MB)")
}

fn chart(pairs: &[&Pair]) -> Lines {
    let sizes = distinct(pairs.iter().map(|p| p.careful.parameter(SIZE)));
    let series =
        distinct(pairs.iter().map(|p| p.careful.parameter("case"))).into_iter().map(|case| {
            let ratio = |size: &String| {
                let is = |p: &&&Pair| {
                    p.careful.parameter("case") == case && p.careful.parameter(SIZE) == *size
                };
                pairs.iter().find(is).and_then(|p| page::point(p.ratio()))
            };
            Series { points: sizes.iter().map(ratio).collect(), name: case }
        });
    Lines {
        x_title: "object (BDP)".into(),
        series: series.collect(),
        columns: sizes,
        y_title: "time / slow start's".into(),
        level: Some((1.0, "no gain".into())),
    }
}
