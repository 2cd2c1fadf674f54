//! Verdicts on figures, by rules. A rule without figures is broken.

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
    /// Figures that miss an aim without breaking the rule, one line each.
    pub missed: Vec<String>,
}

/// A figure that a rule judges.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name of the path or flow that it was measured on.
    pub who: String,
    pub value: f64,
}

impl Figure {
    pub fn new(who: impl Into<String>, value: f64) -> Self {
        Figure { who: who.into(), value }
    }
}

impl Verdict {
    /// Checks that no figure is below `limit`; `digits` and `unit` are those of messages.
    pub fn at_least(
        rule: &str,
        limit: f64,
        (digits, unit): (usize, &str),
        all: Vec<Figure>,
    ) -> Self {
        Self::of(rule, all, ("least", "less than"), (limit, digits, unit), |a, b| a < b)
    }

    /// Checks that no figure is above `limit`.
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

    /// Makes the rule an aim: a breach is reported, and is no failure.
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

    /// Returns its breaches, one line each, with the rule.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.breaches.iter().map(|breach| format!("{}: {breach}", self.rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(values: &[f64]) -> Vec<Figure> {
        values.iter().enumerate().map(|(i, v)| Figure::new(format!("run {i}"), *v)).collect()
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
        assert_eq!(missed.missed, ["saves: run 0: 2.000 RTTs is less than 3.0 RTTs"]);
        assert!(!Verdict::at_least("saves", 3.0, (1, ""), Vec::new()).as_aim().is_met());
    }

    #[test]
    fn missing_measurement_breaks_the_rule() {
        assert!(!Verdict::at_most("costs", 1.25, (2, ""), Vec::new()).is_met());
        assert!(!Verdict::at_least("saves", 3.0, (2, ""), figures(&[f64::NAN])).is_met());
        assert!(!Verdict::at_most("costs", 1.25, (2, ""), figures(&[f64::NAN])).is_met());
    }
}
