//! Fairness to flows of another RTT, with Reno, with BBR2, and where packets are marked.

use report::page::note;

use super::fairness::harm_rule;
use super::fairness::percent;
use super::fairness::summed;
use super::fairness::Harm;
use crate::evaluation::data::Cell;
use crate::evaluation::data::Chapter;
use crate::evaluation::findings::Findings;
use crate::evaluation::page;
use crate::outcome::FlowOutcome;

const MODE: &str = "extra.mode";

pub fn findings(chapter: &Chapter) -> anyhow::Result<Findings> {
    let harms = harms(chapter);
    let heads = [
        "the flow that comes",
        "runs",
        "lost, with slow start",
        "with Careful Resume",
        "ratio",
        "lost more",
    ];
    let mut html = page::table(&heads, &harms.iter().map(row).collect::<Vec<_>>());
    html += &note(
        "Means over all runs of what the background flows lose together, with 95 % intervals; packets that arrive as CE count. Lost more: in % of the background's \
         packets.",
    );
    let verdicts = vec![harm_rule(&chapter.file.stem, &harms)];
    Ok(Findings { html, verdicts, ..Findings::default() })
}

fn harms<'a>(chapter: &'a Chapter) -> Vec<Harm<'a>> {
    let of = |mode: &'static str| chapter.cells.iter().filter(move |c| c.parameter(MODE) == mode);
    let harm = |careful: &'a Cell<'a>| {
        let who = careful.parameter("case");
        let slow = of("slow-start").find(|slow| slow.parameter("case") == who)?;
        Some(Harm { who, slow, careful })
    };
    of("careful-resume").filter_map(harm).collect()
}

fn row(harm: &Harm) -> Vec<String> {
    let lost = |cell: &Cell| page::interval(summed(cell, FlowOutcome::lost_or_marked), 0);
    vec![
        harm.who.clone(),
        harm.careful.runs.len().to_string(),
        lost(harm.slow),
        lost(harm.careful),
        page::interval(harm.ratio(), 2),
        percent(harm.more_lost_percent()),
    ]
}
