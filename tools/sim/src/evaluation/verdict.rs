//! Verdicts on figures, by rules. A rule without figures is broken.

use crate::interval::Interval;

/// Finding of a rule without figures.
const NOTHING: &str = "nothing";

/// A rule and its result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    pub rule: String,
    /// The figure that came closest to breaking it, or worse.
    pub found: String,
    /// Figures that break it, one line each.
    pub breaches: Vec<String>,
    /// Figures that miss an aim, or a rule that is known to be missed, one line each.
    pub missed: Vec<String>,
    /// Why the rule is known to be missed.
    pub known: Option<&'static str>,
}

/// A figure that a rule judges, by the worse end of its interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name of the path or flow that it was measured on.
    pub who: String,
    pub interval: Interval,
}

impl Figure {
    pub fn new(who: impl Into<String>, interval: Interval) -> Self {
        Figure { who: who.into(), interval }
    }

    /// Creates a figure without an interval: of each run, or a count of what must not be.
    pub fn exact(who: impl Into<String>, value: f64) -> Self {
        Figure::new(who, Interval::exact(value))
    }
}

/// On which side of its limit a figure has to be.
#[derive(Clone, Copy)]
enum LimitSide {
    AtLeast,
    AtMost,
}

impl LimitSide {
    /// Returns the end of an interval that is closest to the wrong side.
    fn worse_end(self, interval: Interval) -> f64 {
        match self {
            LimitSide::AtLeast => interval.low,
            LimitSide::AtMost => interval.high,
        }
    }

    fn is_beyond(self, value: f64, limit: f64) -> bool {
        match self {
            LimitSide::AtLeast => value < limit,
            LimitSide::AtMost => value > limit,
        }
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            LimitSide::AtLeast => ("least", "less than"),
            LimitSide::AtMost => ("most", "more than"),
        }
    }
}

impl Verdict {
    /// Checks that no interval goes below `limit`; `digits` and `unit` are those of messages.
    pub fn at_least(
        rule: &str,
        limit: f64,
        (digits, unit): (usize, &str),
        all: Vec<Figure>,
    ) -> Self {
        Self::of(rule, all, LimitSide::AtLeast, (limit, digits, unit))
    }

    /// Checks that no interval goes above `limit`.
    pub fn at_most(
        rule: &str,
        limit: f64,
        (digits, unit): (usize, &str),
        all: Vec<Figure>,
    ) -> Self {
        Self::of(rule, all, LimitSide::AtMost, (limit, digits, unit))
    }

    fn of(
        rule: &str,
        all: Vec<Figure>,
        side: LimitSide,
        (limit, digits, unit): (f64, usize, &str),
    ) -> Self {
        let rule = rule.to_string();
        let (extreme, beyond) = side.words();
        let worst = |a: &Figure, b: &Figure| {
            side.is_beyond(side.worse_end(b.interval), side.worse_end(a.interval))
        };
        let Some(worst) = all.iter().reduce(|a, b| if worst(a, b) { b } else { a }) else {
            let breaches = vec!["nothing to judge".into()];
            return Verdict { rule, found: NOTHING.into(), breaches, ..Self::default() };
        };
        let value = said(worst.interval, digits, unit);
        let found = format!("{extreme} {value}: {}; {} judged", worst.who, all.len());
        let broken = |f: &&Figure| {
            let end = side.worse_end(f.interval);
            // What is no number was not measured.
            side.is_beyond(end, limit) || end.is_nan()
        };
        let say = |f: &Figure| {
            // A breach by less than the last digit is still one.
            let value = said(f.interval, digits + 2, unit);
            format!("{}: {value} is {beyond} {limit:.digits$}{unit}", f.who)
        };
        let breaches = all.iter().filter(broken).map(say).collect();
        Verdict { rule, found, breaches, ..Self::default() }
    }

    /// Makes the rule an aim: a breach is reported, and is no failure.
    pub fn as_aim(mut self) -> Self {
        if self.found != NOTHING {
            self.missed.append(&mut self.breaches);
        }
        self
    }

    /// Reports breaches of a rule that is known to be missed as such, with the reason. They are no
    /// failure of the evaluation; a rule without figures is.
    pub fn as_known_miss(mut self, why: &'static str) -> Self {
        if self.found != NOTHING && !self.breaches.is_empty() {
            self.missed.append(&mut self.breaches);
            self.known = Some(why);
        }
        self
    }

    pub fn is_met(&self) -> bool {
        self.breaches.is_empty()
    }

    /// Returns its breaches, one line each, with the rule.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.breaches.iter().map(|breach| format!("{}: {breach}", self.rule))
    }
}

/// Returns a figure with its interval, if it has one.
fn said(interval: Interval, digits: usize, unit: &str) -> String {
    let Interval { value, low, high, .. } = interval;
    let value = format!("{value:.digits$}");
    match (format!("{low:.digits$}"), format!("{high:.digits$}")) {
        (low, high) if low == value && high == value => format!("{value}{unit}"),
        (low, high) => format!("{value} ({low} to {high}){unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(values: &[f64]) -> Vec<Figure> {
        values.iter().enumerate().map(|(i, v)| Figure::exact(format!("run {i}"), *v)).collect()
    }

    #[test]
    fn limit_itself_is_allowed_and_the_worst_is_named() {
        let least = Verdict::at_least("saves", 3.0, (1, " RTTs"), figures(&[4.0, 3.0, 5.0]));
        assert!(least.is_met());
        assert_eq!(least.found, "least 3.0 RTTs: run 1; 3 judged");
        let most = Verdict::at_most("costs", 1.25, (2, ""), figures(&[1.0, 1.25]));
        assert!(most.is_met());
        assert_eq!(most.found, "most 1.25: run 1; 2 judged");
    }

    #[test]
    fn rule_passes_only_if_the_whole_interval_does() {
        let figure = |low: f64, high: f64| {
            vec![Figure::new("path", Interval { value: 1.0, low, high, runs: 20 })]
        };
        for (low, high, at_least, at_most) in [
            (0.95, 1.05, true, true),
            (0.85, 1.05, false, true),
            (0.95, 1.15, true, false),
            (0.85, 1.15, false, false),
            (f64::NAN, f64::NAN, false, false),
        ] {
            let least = Verdict::at_least("least", 0.9, (2, ""), figure(low, high));
            let most = Verdict::at_most("most", 1.1, (2, ""), figure(low, high));
            assert_eq!((least.is_met(), most.is_met()), (at_least, at_most), "{low} to {high}");
        }
        let most = Verdict::at_most("most", 1.1, (2, ""), figure(0.9, 1.2));
        assert_eq!(most.found, "most 1.00 (0.90 to 1.20): path; 1 judged");
        assert_eq!(most.breaches, ["path: 1.0000 (0.9000 to 1.2000) is more than 1.10"]);
    }

    #[test]
    fn breach_is_a_line_with_figure_and_limit() {
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
    fn missed_aim_is_no_breach() {
        let missed = Verdict::at_least("saves", 3.0, (1, " RTTs"), figures(&[2.0])).as_aim();
        assert!(missed.is_met());
        assert_eq!(missed.missed, ["run 0: 2.000 RTTs is less than 3.0 RTTs"]);
        assert!(!Verdict::at_least("saves", 3.0, (1, ""), Vec::new()).as_aim().is_met());
    }

    #[test]
    fn known_miss_says_why_and_is_no_breach() {
        let rule = |value| Verdict::at_least("saves", 3.0, (1, ""), figures(&[value]));
        let missed = rule(2.0).as_known_miss("because");
        assert_eq!(
            (missed.is_met(), missed.known, missed.missed.len()),
            (true, Some("because"), 1)
        );
        assert_eq!(rule(4.0).as_known_miss("because").known, None);
        let nothing = Verdict::at_least("saves", 3.0, (1, ""), Vec::new());
        assert!(!nothing.as_known_miss("because").is_met());
    }

    #[test]
    fn missing_measurement_breaks_the_rule() {
        assert!(!Verdict::at_most("costs", 1.25, (2, ""), Vec::new()).is_met());
        assert!(!Verdict::at_least("saves", 3.0, (2, ""), figures(&[f64::NAN])).is_met());
        assert!(!Verdict::at_most("costs", 1.25, (2, ""), figures(&[f64::NAN])).is_met());
    }
}
