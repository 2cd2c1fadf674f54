//! Rules that hold across chapters.

use super::data::Cell;
use super::data::Chapter;
use super::data::Pair;
use super::names::controller_name;
use super::verdict::Figure;
use super::verdict::Verdict;
use crate::outcome::Outcome;
use crate::scenario::file::File;
use crate::scenario::shipped::SHIPPED;
use crate::scenario::Controller;
use crate::scenario::Mode;

/// Round trips that Careful Resume has to save where there is much to save.
const SAVED_RTTS_MIN: f64 = 3.0;

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
    Verdict { rule, found: format!("{found} runs"), breaches, missed: Vec::new() }
}

/// Returns the rules that hold in every chapter.
pub fn everywhere(chapters: &[Chapter]) -> Vec<Verdict> {
    let bounds = chapters.iter().flat_map(|chapter| {
        let stem = &chapter.file.stem;
        let figure = |c: &Cell| {
            Figure::new(format!("{stem}, {}, {}", c.label(), mode(c)), c.least_of_bound())
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
    verdicts.push(lossless(chapters));
    verdicts
}

/// Returns whether soft growth ends what follows a jump in time: an aim.
fn lossless(chapters: &[Chapter]) -> Verdict {
    let mut lost = Vec::new();
    for chapter in chapters {
        let stem = &chapter.file.stem;
        let most = |c: &Cell| {
            let packets = c.judged(|f| f.jump_lost_packets);
            packets.into_iter().flatten().max().map(|most| most as f64)
        };
        let judged = chapter.cells.iter().filter(|c| c.grows_softly_on_idle_path());
        let figures =
            judged.filter_map(|c| Some(Figure::new(format!("{stem}, {}", c.label()), most(c)?)));
        lost.extend(figures);
    }
    let rule = "with soft growth, a jump to half of what an idle path with a buffer of one BDP \
        holds, or less, is followed by no loss within 5 RTTs";
    Verdict::at_most(rule, 0.0, (0, " packets"), lost).as_aim()
}

fn saved(chapters: &[Chapter], cc: Controller) -> Verdict {
    let mut saved = Vec::new();
    for chapter in chapters {
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
