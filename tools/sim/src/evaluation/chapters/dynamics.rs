//! Changes of a path during a download.

use report::chart::axis::Unit;
use report::chart::bars;
use report::chart::palette::BLUE;
use report::chart::palette::ORANGE;
use report::chart::Bar;
use report::chart::Bars;
use report::page::figure;
use report::page::note;

use super::gains::gain_row;
use super::gains::gain_table;
use super::gains::gains;
use super::gains::loss_row;
use super::gains::loss_table;
use super::gains::slower_nowhere;
use super::gains::RENO;
use super::groups::by_controller;
use crate::evaluation::data::Chapter;
use crate::evaluation::data::Pair;
use crate::evaluation::findings::Findings;
use crate::evaluation::page;

/// Greatest ratio of times.
const RATIO_MAX: f64 = 1.25;

/// Scenarios in which RFC 9959 makes Careful Resume slower: a retreat from a path that is
/// another one, and a single jump among the clients of a subnet.
const TOLD: [&str; 2] = ["rtt-falls-in-the-jump", "one-subnet"];

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let pairs = chapter.pairs();
    let mut html = gains(&pairs);
    for (cc, of_cc) in by_controller(&pairs) {
        html += &page::heading(&format!("With {cc}"));
        let caption = format!(
            "{cc}: time with Careful Resume over that with slow start where the path changes; means, and \
             their 95 % intervals."
        );
        html += &figure(&caption, &bars(&chart(&of_cc))?);
        let rows: Vec<_> = of_cc.iter().map(|p| gain_row(name(p), "–", p)).collect();
        html += &gain_table("what happens", &rows);
        let rows: Vec<_> = of_cc.iter().map(|p| loss_row(name(p), p)).collect();
        html += &loss_table("what happens", &rows);
    }
    html += &note(&format!(
        "Bounds are those of the best that the path ever is. Of several clients of one subnet that \
         start together, the mean is shown. {RENO}"
    ));
    let (told, judged): (Vec<_>, Vec<_>) =
        pairs.into_iter().partition(|p| TOLD.contains(&p.careful.parameter("case").as_str()));
    let rule = "dynamics: Careful Resume is nowhere more than 1.25 times slower";
    let aim = "dynamics, by the rules of RFC 9959: nowhere more than 1.25 times slower";
    let verdicts = vec![
        slower_nowhere(rule, RATIO_MAX, &judged),
        slower_nowhere(aim, RATIO_MAX, &told).as_aim(),
    ];
    Ok(Findings { html, verdicts, ..Findings::default() })
}

/// Returns the case and what else it varies.
fn name(pair: &Pair) -> String {
    let varied = pair.careful.named.parameters.iter().filter(|(key, _)| key.starts_with("path."));
    let varied = varied.map(|(key, value)| format!(" ({} {value})", &key["path.".len()..]));
    pair.careful.parameter("case") + &varied.collect::<String>()
}

fn chart(pairs: &[&Pair]) -> Bars {
    let bar = |p: &&Pair| Bar {
        label: name(p),
        value: p.ratio().value,
        runs: Vec::new(),
        interval: page::ends(p.ratio()),
        colour: if p.ratio().value > 1.0 { ORANGE } else { BLUE },
        bound: None,
        words: format!("{:.2}", p.ratio().value),
    };
    Bars {
        title: "time with Careful Resume",
        unit: Unit { name: "of slow start's", size: 1.0 },
        bars: pairs.iter().map(bar).collect(),
        marks: vec![(1.0, "as slow start".into())],
    }
}
