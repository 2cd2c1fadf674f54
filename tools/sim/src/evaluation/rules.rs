//! Rules that hold across chapters.

use super::data::Cell;
use super::data::Chapter;
use super::data::Pair;
use super::names::controller_name;
use super::verdict::Figure;
use super::verdict::Verdict;
use crate::outcome::FlowOutcome;
use crate::outcome::Outcome;
use crate::scenario::file::File;
use crate::scenario::shipped::SHIPPED;
use crate::scenario::Controller;
use crate::scenario::Mode;

/// Round trips that Careful Resume has to save where there is much to save.
const SAVED_RTTS_MIN: f64 = 3.0;

/// What Careful Resume may lose more than slow start, in BDP, in all.
const MORE_LOST_BDP: f64 = 0.05;

/// Greatest ratios of times: path, rate in Mbit/s, RTT in ms, object in bytes, ratio.
const RATIOS_MAX: [(&str, f64, f64, u64, f64); 4] = [
    ("GEO, 3.75 MB", 50.0, 600.0, 3_750_000, 0.64),
    ("GEO, 10 MB", 50.0, 600.0, 10_000_000, 0.64),
    ("LEO, 0.75 MB", 100.0, 60.0, 750_000, 0.63),
    ("terrestrial, 0.25 MB", 100.0, 20.0, 250_000, 0.79),
];

/// Returns whether each scenario of the evaluation has all its runs, and there is
/// nothing else.
pub fn present(files: &[File], chapters: &[Chapter], outcomes: &[Outcome]) -> Verdict {
    let mut breaches = Vec::new();
    let mut found = 0;
    for (stem, _) in SHIPPED.iter().copied() {
        if !files.iter().any(|f| f.stem == stem) {
            breaches.push(format!("{stem}: there is no such scenario file"));
        }
    }
    for chapter in chapters {
        let (stem, runs) = (&chapter.file.stem, chapter.file.runs as usize);
        if chapter.cells.is_empty() {
            breaches.push(format!("{stem}: nothing was run: sim run {stem}"));
            continue;
        }
        for named in &chapter.file.scenarios {
            let cell = chapter.cells.iter().find(|c| std::ptr::eq(c.named, named));
            let got = cell.map_or(0, |c| c.runs.len());
            found += got;
            if got != runs {
                breaches.push(format!("{stem}, {}: {got} of {runs} runs", named.name));
            }
        }
    }
    if found < outcomes.len() {
        let (strange, all) = (outcomes.len() - found, outcomes.len());
        breaches.push(format!("{strange} of {all} outcomes are of no scenario: run sim run --all"));
    }
    let rule = "every scenario of the evaluation was run".into();
    Verdict { rule, found: format!("{found} runs"), breaches, ..Verdict::default() }
}

/// Returns the rules that hold in every chapter.
pub fn everywhere(chapters: &[Chapter]) -> Vec<Verdict> {
    let bounds = chapters.iter().flat_map(|chapter| {
        let stem = &chapter.file.stem;
        let figure = |c: &Cell| {
            Figure::exact(format!("{stem}, {}, {}", c.label(), mode(c)), c.least_of_bound())
        };
        chapter.cells.iter().map(figure).collect::<Vec<_>>()
    });
    let bounds = bounds.collect();
    let unit = (3, " of the bound");
    let mut verdicts =
        vec![Verdict::at_least("no download is faster than its fluid bound", 1.0, unit, bounds)];

    // Gains are judged with CUBIC: Reno's slow start is more than one.
    for cc in [Controller::Cubic, Controller::Reno] {
        let mut gains = vec![saved(chapters, cc)];
        gains.extend(RATIOS_MAX.map(|spec| ratio(chapters, cc, spec)));
        verdicts.extend(match cc {
            Controller::Cubic => gains,
            _ => gains.into_iter().map(Verdict::as_aim).collect(),
        });
    }
    verdicts.extend(losses(chapters));
    verdicts
}

/// Returns whether jumps that fit lose nothing, and whether what follows them does.
fn losses(chapters: &[Chapter]) -> Vec<Verdict> {
    let mut before = Vec::new();
    let mut in_all = Vec::new();
    for chapter in chapters {
        let who = |c: &Cell| format!("{}, {}", chapter.file.stem, c.label());
        let most = |c: &Cell, figure: fn(&FlowOutcome) -> Option<u64>| {
            let packets = c.judged(figure).into_iter().flatten().max()?;
            Some(Figure::exact(who(c), packets as f64))
        };
        let jumped = |f: &FlowOutcome| f.jump_cwnd_bytes.map(|_| f.dropped_packets);
        let judged = || chapter.cells.iter().filter(|c| c.grows_softly_on_idle_path());
        before.extend(judged().filter_map(|c| most(c, |f| f.dropped_before_validated_packets)));
        in_all.extend(judged().filter_map(|c| most(c, jumped)));
    }
    let unit = (0, " packets");
    let place = "an idle path with a buffer of one BDP";
    vec![
        Verdict::at_most(
            &format!("a jump to half of what {place} holds, or less, loses nothing in any run before it is validated"),
            0.0,
            unit,
            before,
        ),
        Verdict::at_most(
            &format!("with soft growth, a download that jumps on {place} loses nothing in all, in any run"),
            0.0,
            unit,
            in_all,
        )
        .as_aim(),
    ]
}

/// Returns the rule on what Careful Resume loses in all, beside slow start: of every pair of
/// scenarios whose path holds what was saved.
pub fn loses_no_more(stem: &str, pairs: &[&Pair]) -> Verdict {
    let figure = |p: &&Pair| {
        let who = format!("{}, {}", p.careful.label(), controller_name(p.controller()));
        Figure::new(who, p.more_lost_bdp())
    };
    let rule = format!(
        "{stem}: in all, Careful Resume loses at most {MORE_LOST_BDP} BDP more than slow start"
    );
    Verdict::at_most(&rule, MORE_LOST_BDP, (3, " BDP"), pairs.iter().map(figure).collect())
}

fn saved(chapters: &[Chapter], cc: Controller) -> Verdict {
    let mut saved = Vec::new();
    // One run alone has no interval: chapters of random paths judge means over paths.
    for chapter in chapters.iter().filter(|chapter| chapter.file.runs > 1) {
        let stem = &chapter.file.stem;
        let figure =
            |p: &Pair| Figure::new(format!("{stem}, {}", p.careful.label()), p.saved_rtts());
        let pairs = chapter.pairs();
        let judged = pairs.iter().filter(|p| p.has_much_to_save() && p.controller() == cc);
        saved.extend(judged.map(figure));
    }
    let cc = controller_name(cc);
    let rule = format!(
        "{cc}: at least 3 RTTs saved where the path holds 64 initial windows and the object fills it"
    );
    Verdict::at_least(&rule, SAVED_RTTS_MIN, (2, " RTTs"), saved)
}

fn mode(cell: &Cell) -> &'static str {
    match cell.named.scenario.flows[0].mode {
        Mode::SlowStart => "slow start",
        Mode::CarefulResume => "Careful Resume",
    }
}

fn ratio(
    chapters: &[Chapter],
    cc: Controller,
    (name, rate_mbps, rtt_ms, object_bytes, limit): (&str, f64, f64, u64, f64),
) -> Verdict {
    let mut ratios = Vec::new();
    for chapter in chapters.iter().filter(|c| c.file.stem == "paths") {
        for pair in chapter.pairs() {
            let path = (pair.rate_mbps(), pair.rtt_ms(), pair.object_bytes());
            if path == (rate_mbps, rtt_ms, object_bytes) && pair.controller() == cc {
                ratios.push(Figure::new(format!("paths, {}", pair.careful.label()), pair.ratio()));
            }
        }
    }
    let cc = controller_name(cc);
    let rule = format!("{cc}, {name}: at most {limit} of slow start's time");
    Verdict::at_most(&rule, limit, (3, ""), ratios)
}
