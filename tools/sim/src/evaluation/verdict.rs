//! Rules that the figures must obey. A rule that had nothing to judge is broken.

use super::chapters::controller_name;
use super::data::Cell;
use super::data::Chapter;
use super::data::Pair;
use crate::outcome::Outcome;
use crate::scenario::file::File;
use crate::scenario::Controller;

/// Round trips that Careful Resume has to save where there is much to save.
const SAVED_RTTS_MIN: f64 = 3.0;

/// Greatest ratios of times: path, rate in Mbit/s, RTT in ms, object in bytes, ratio.
const RATIOS_MAX: [(&str, f64, f64, u64, f64); 4] = [
    ("GEO, 3.75 MB", 50.0, 600.0, 3_750_000, 0.64),
    ("GEO, 10 MB", 50.0, 600.0, 10_000_000, 0.64),
    ("LEO, 0.75 MB", 100.0, 60.0, 750_000, 0.63),
    ("terrestrial, 0.25 MB", 100.0, 20.0, 250_000, 0.79),
];

/// What a rule found that had nothing to judge.
const NOTHING: &str = "nothing";

/// A rule and what came of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    pub rule: String,
    /// The figure that came closest to breaking it, or worse.
    pub found: String,
    /// What breaks it, one line each.
    pub breaches: Vec<String>,
    /// What misses an aim without breaking the rule, one line each.
    pub missed: Vec<String>,
}

/// A figure that a rule judges.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it was measured on.
    pub who: String,
    pub value: f64,
}

impl Figure {
    pub fn new(who: impl Into<String>, value: f64) -> Self {
        Figure { who: who.into(), value }
    }
}

impl Verdict {
    /// No figure may be below `limit`; `digits` and `unit` are those of messages.
    pub fn at_least(
        rule: &str,
        limit: f64,
        (digits, unit): (usize, &str),
        all: Vec<Figure>,
    ) -> Self {
        Self::of(rule, all, ("least", "less than"), (limit, digits, unit), |a, b| a < b)
    }

    /// No figure may be above `limit`.
    pub fn at_most(
        rule: &str,
        limit: f64,
        (digits, unit): (usize, &str),
        all: Vec<Figure>,
    ) -> Self {
        Self::of(rule, all, ("most", "more than"), (limit, digits, unit), |a, b| a > b)
    }

    fn of(
        rule: &str,
        all: Vec<Figure>,
        (extreme, beyond): (&str, &str),
        (limit, digits, unit): (f64, usize, &str),
        is_beyond: impl Fn(f64, f64) -> bool,
    ) -> Self {
        let rule = rule.to_string();
        let number = |value: f64| format!("{value:.digits$}{unit}");
        let worst = |a: &Figure, b: &Figure| is_beyond(b.value, a.value);
        let Some(worst) = all.iter().reduce(|a, b| if worst(a, b) { b } else { a }) else {
            let breaches = vec!["nothing to judge".into()];
            return Verdict { rule, found: NOTHING.into(), breaches, ..Self::default() };
        };
        let found =
            format!("{extreme} {}: {}; {} judged", number(worst.value), worst.who, all.len());
        // What is no number was not measured.
        let broken = |f: &&Figure| is_beyond(f.value, limit) || f.value.is_nan();
        let say = |f: &Figure| {
            // A breach by less than the last digit is still one.
            let value = format!("{:.*}{unit}", digits + 2, f.value);
            format!("{}: {value} is {beyond} {}", f.who, number(limit))
        };
        let breaches = all.iter().filter(broken).map(say).collect();
        Verdict { rule, found, breaches, missed: Vec::new() }
    }

    /// A rule that is only aimed at: what would break it is told, and no more.
    pub fn as_aim(mut self) -> Self {
        if self.found != NOTHING {
            let rule = &self.rule;
            self.missed = self.breaches.drain(..).map(|line| format!("{rule}: {line}")).collect();
        }
        self
    }

    pub fn is_met(&self) -> bool {
        self.breaches.is_empty()
    }

    /// Its breaches, one line each, with the rule.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.breaches.iter().map(|breach| format!("{}: {breach}", self.rule))
    }
}

/// Whether each scenario of the evaluation has all its runs, and there is
/// nothing else.
pub fn present(files: &[File], chapters: &[Chapter], outcomes: &[Outcome]) -> Verdict {
    let mut breaches = Vec::new();
    let mut found = 0;
    for stem in super::chapters::STEMS {
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
            let cell = chapter.cells.iter().find(|c| c.named.parameters == named.parameters);
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

/// What holds in every chapter.
pub fn everywhere(chapters: &[Chapter]) -> Vec<Verdict> {
    let bounds = chapters.iter().flat_map(|chapter| {
        let stem = &chapter.file.stem;
        let figure = |c: &super::data::Cell| {
            Figure::new(format!("{stem}, {}, {}", c.who(), mode(c)), c.least_of_bound())
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
            Controller::Reno => gains.into_iter().map(Verdict::as_aim).collect(),
        });
    }
    verdicts.push(lossless(chapters));
    verdicts
}

/// Whether soft growth ends what follows a jump in time: an aim.
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
            judged.filter_map(|c| Some(Figure::new(format!("{stem}, {}", c.who()), most(c)?)));
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
        let figure = |p: &Pair| Figure::new(format!("{stem}, {}", p.careful.who()), p.saved_rtts());
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

fn mode(cell: &super::data::Cell) -> &'static str {
    match cell.named.scenario.flows[0].mode {
        crate::scenario::Mode::SlowStart => "slow start",
        crate::scenario::Mode::CarefulResume => "Careful Resume",
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
                ratios.push(Figure::new(format!("paths, {}", pair.careful.who()), pair.ratio()));
            }
        }
    }
    let cc = controller_name(cc);
    let rule = format!("{cc}, {name}: at most {limit} of slow start's time");
    Verdict::at_most(&rule, limit, (3, ""), ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(values: &[f64]) -> Vec<Figure> {
        values.iter().enumerate().map(|(i, v)| Figure::new(format!("run {i}"), *v)).collect()
    }

    #[test]
    fn a_limit_itself_is_allowed_and_the_worst_is_named() {
        let least = Verdict::at_least("saves", 3.0, (1, " RTTs"), figures(&[4.0, 3.0, 5.0]));
        assert!(least.is_met());
        assert_eq!(least.found, "least 3.0 RTTs: run 1; 3 judged");
        let most = Verdict::at_most("costs", 1.25, (2, ""), figures(&[1.0, 1.25]));
        assert!(most.is_met());
        assert_eq!(most.found, "most 1.25: run 1; 2 judged");
    }

    #[test]
    fn each_breach_is_a_line_that_tells_figure_and_limit() {
        let least = Verdict::at_least("saves", 3.0, (1, " RTTs"), figures(&[2.999, 3.0, 1.0]));
        let lines: Vec<String> = least.lines().collect();
        assert_eq!(
            lines,
            [
                "saves: run 0: 2.999 RTTs is less than 3.0 RTTs",
                "saves: run 2: 1.000 RTTs is less than 3.0 RTTs"
            ]
        );
        assert_eq!(Verdict::at_most("costs", 1.25, (2, ""), figures(&[1.26])).breaches.len(), 1);
    }

    #[test]
    fn an_aim_that_is_missed_is_no_breach_but_must_be_judged() {
        let missed = Verdict::at_least("saves", 3.0, (1, " RTTs"), figures(&[2.0])).as_aim();
        assert!(missed.is_met());
        assert_eq!(missed.missed, ["saves: run 0: 2.000 RTTs is less than 3.0 RTTs"]);
        assert!(!Verdict::at_least("saves", 3.0, (1, ""), Vec::new()).as_aim().is_met());
    }

    #[test]
    fn what_was_not_measured_breaks_the_rule() {
        assert!(!Verdict::at_most("costs", 1.25, (2, ""), Vec::new()).is_met());
        assert!(!Verdict::at_least("saves", 3.0, (2, ""), figures(&[f64::NAN])).is_met());
        assert!(!Verdict::at_most("costs", 1.25, (2, ""), figures(&[f64::NAN])).is_met());
    }
}
