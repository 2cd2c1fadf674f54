//! Rules that are known to be missed, each with its reason. The page shows them as missed; a rule
//! that is not in this list must be met.

use super::verdict::Verdict;

/// How the rule begins, and why it is missed.
const KNOWN_MISSES: &[(&str, &str)] = &[];

/// Reports the known misses among some verdicts as such.
pub fn mark(verdicts: Vec<Verdict>) -> Vec<Verdict> {
    let known = |verdict: Verdict| {
        let why = KNOWN_MISSES.iter().find(|(rule, _)| verdict.rule.starts_with(rule));
        match why {
            Some((_, why)) => verdict.as_known_miss(why),
            None => verdict,
        }
    };
    verdicts.into_iter().map(known).collect()
}

/// Returns the entries of the list whose rule is met, or is none.
pub fn stale(verdicts: &[Verdict]) -> impl Iterator<Item = &'static str> + '_ {
    let is_missed =
        |rule: &str| verdicts.iter().any(|v| v.known.is_some() && v.rule.starts_with(rule));
    KNOWN_MISSES.iter().map(|(rule, _)| *rule).filter(move |rule| !is_missed(rule))
}
