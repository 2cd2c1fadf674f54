//! Servers with Careful Resume on and nothing saved, beside those with Careful Resume off.

use report::chart::lines;
use report::chart::Lines;
use report::chart::Series;
use report::page::figure;

use super::gains::loss_row;
use super::gains::loss_table;
use super::gains::slower_nowhere;
use super::groups::by_controller;
use super::groups::distinct;
use crate::evaluation::data::Chapter;
use crate::evaluation::data::Pair;
use crate::evaluation::findings::Findings;
use crate::evaluation::page;
use crate::evaluation::rules::loses_no_more;
use crate::evaluation::verdict::Figure;
use crate::evaluation::verdict::Verdict;

const SIZE: &str = "flow.object_bdp";

/// Greatest ratio of times.
const RATIO_MAX: f64 = 1.01;

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let pairs = chapter.pairs();
    let mut html = String::new();
    for (cc, of_cc) in by_controller(&pairs) {
        let caption = format!(
            "{cc}: time with Careful Resume on and nothing saved over that with it off; bars: 95 % intervals."
        );
        html += &figure(&caption, &lines(&chart(&of_cc))?);
        let heads = ["path, object", "off", "on", "ratio"];
        html += &page::table(&heads, &of_cc.iter().map(|p| row(p)).collect::<Vec<_>>());
        let losses = of_cc.iter().map(|p| loss_row(name(p), p));
        html += &loss_table("path, object", &losses.collect::<Vec<_>>());
    }
    let jumps = |p: &Pair| {
        let jumped = p.careful.judged(|flow| flow.jump_cwnd_bytes.is_some());
        let jumps = jumped.into_iter().filter(|jumped| *jumped).count();
        Figure::exact(p.careful.label(), jumps as f64)
    };
    let none = Verdict::at_most(
        "nothing-saved: nothing jumps",
        0.0,
        (0, " jumps"),
        pairs.iter().map(jumps).collect(),
    );
    let rule = "nothing-saved: at most 1 % slower than with Careful Resume off";
    let all: Vec<&Pair> = pairs.iter().collect();
    let verdicts =
        vec![none, slower_nowhere(rule, RATIO_MAX, &pairs), loses_no_more("nothing-saved", &all)];
    Ok(Findings { html, verdicts, ..Findings::default() })
}

fn name(pair: &Pair) -> String {
    let said = |key| pair.careful.parameter(key);
    format!("{}, {} BDP", said("case"), said(SIZE))
}

fn row(pair: &Pair) -> Vec<String> {
    vec![
        name(pair),
        page::time(pair.slow.ttlb_ms()),
        page::time(pair.careful.ttlb_ms()),
        page::interval(pair.ratio(), 4),
    ]
}

fn chart(pairs: &[&Pair]) -> Lines {
    let sizes = distinct(pairs.iter().map(|p| p.careful.parameter(SIZE)));
    let cases = distinct(pairs.iter().map(|p| p.careful.parameter("case")));
    let series = cases.into_iter().map(|case| {
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
        y_title: "time, on / off".into(),
        level: Some((RATIO_MAX, "1 % slower".into())),
    }
}
