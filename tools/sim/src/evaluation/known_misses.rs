//! Rules that are known to be missed, each with its reason. The page shows them as missed; a rule
//! that is not in this list must be met.

use super::verdict::Verdict;

/// How the rule begins, and why it is missed.
const KNOWN_MISSES: &[(&str, &str)] = &[
    (
        "buffers: in all, Careful Resume loses",
        "objects of ten BDP over a buffer of a quarter or half a BDP: growth after the jump overshoots by \
         up to a third of a BDP more than slow start does. From a buffer of one BDP on nothing is lost.",
    ),
    (
        "swinging: by 0.2 RTTs",
        "the mean is below the limit, and its interval reaches beyond it where a swing takes 12 RTTs: how \
         long a download takes depends on the phase in which it begins.",
    ),
    (
        "swinging: by 0.3 RTTs",
        "the mean is below the limit, and its interval reaches beyond it where a swing takes 1.7 RTTs: how \
         long a download takes depends on the phase in which it begins.",
    ),
    (
        "random paths, steady: Careful Resume takes at most 1.05 of what it takes unrestrained",
        "where less than 0.55 BDP is saved, soft growth after the jump costs 4 to 8 %, and gains where \
         more is: a mean over all that was saved hid this.",
    ),
    (
        "random paths, jittery: Careful Resume loses at most",
        "each mean is below the limit; of twelve ranges, intervals of four reach beyond it. A mean over \
         all that was saved hid this.",
    ),
    (
        "ecn-neighbours: background flows lose",
        "BBR2 among BBR2: the mean is below the limit, and the interval of 160 seeds reaches beyond it; \
         that of 400 does not.",
    ),
    (
        "P5, GEO: conditions are found",
        "the medians of 60 seeds are within 5 %, and the interval of one reaches beyond 10 %: jitter \
         of more than half a round trip spreads the times.",
    ),
    (
        "P6, LEO: conditions are found",
        "random loss spreads the times: medians of 60 seeds have intervals of a quarter and more. With \
         five seeds one of 81 conditions came close by chance.",
    ),
    (
        "P7, terrestrial: conditions are found",
        "the closest conditions are 10 % off, and more at the end of the interval. With five seeds one of \
         24 conditions came closer by chance.",
    ),
];

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
