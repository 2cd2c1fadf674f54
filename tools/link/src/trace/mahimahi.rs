//! Format of mahimahi: delivery opportunities of 1500 bytes, in ms.

use super::steps::lines;
use super::steps::Fault;
use super::steps::PathTrace;
use super::steps::Step;
use crate::rate::Rate;
use std::time::Duration;

const OPPORTUNITY_BITS: u64 = 1_500 * 8;

/// The longest time over which an opportunity is spread: at the slowest rate that a link may have. A
/// longer one is an outage until the last ms.
const GAP_MS_MAX: u64 = OPPORTUNITY_BITS * 1_000 / Rate::BITS_PER_S_MIN;

pub fn parse(text: &str) -> Result<PathTrace, Fault> {
    let times = opportunities(text)?;
    let Some(&(last_line, end_ms)) = times.last() else {
        return Err((None, "no delivery opportunity: one whole number of ms a line".into()));
    };
    if end_ms == 0 {
        return Err((
            Some(last_line),
            "the trace ends at 0 ms: its last line is its length".into(),
        ));
    }
    // An opportunity at the very start is also one at the end of the trace before.
    let at_start = times.iter().take_while(|(_, ms)| *ms == 0).count();
    let mut steps = Vec::new();
    let mut from_ms = 0;
    for same in times[at_start..].chunk_by(|a, b| a.1 == b.1) {
        let (line, ms) = same[0];
        let count = same.len() + if ms == end_ms { at_start } else { 0 };
        if ms - from_ms > GAP_MS_MAX {
            push(&mut steps, from_ms, Rate::ZERO);
            from_ms = ms - 1;
        }
        push(&mut steps, from_ms, rate(count, ms - from_ms, line)?);
        from_ms = ms;
    }
    Ok(PathTrace { steps, period: Some(Duration::from_millis(end_ms)) })
}

/// Returns each opportunity with its line.
fn opportunities(text: &str) -> Result<Vec<(usize, u64)>, Fault> {
    let mut times: Vec<(usize, u64)> = Vec::new();
    for (line, word) in lines(text) {
        let Ok(ms) = word.parse() else {
            let reason = format!(
                "{word:?} is no delivery opportunity: one whole number of ms a line (a table of \
                 values is a file that ends in .csv)"
            );
            return Err((Some(line), reason));
        };
        if let Some(&(before, before_ms)) = times.last().filter(|(_, before)| *before > ms) {
            let reason =
                format!("{ms} ms is before the {before_ms} ms of line {before}: times do not fall");
            return Err((Some(line), reason));
        }
        times.push((line, ms));
    }
    Ok(times)
}

/// Returns the rate of this many opportunities at the end of so many ms.
fn rate(count: usize, gap_ms: u64, line: usize) -> Result<Rate, Fault> {
    let bits_per_s = OPPORTUNITY_BITS as f64 * count as f64 * 1e3 / gap_ms as f64;
    Rate::from_bits_per_s(bits_per_s.round() as u64).map_err(|e| (Some(line), e.to_string()))
}

/// Adds a step, unless the rate stays.
fn push(steps: &mut Vec<Step>, at_ms: u64, rate: Rate) {
    let before = steps.last().and_then(|step: &Step| step.rate);
    if before != Some(rate) {
        let at = Duration::from_millis(at_ms);
        steps.push(Step { at, rate: Some(rate), ..Step::default() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(text: &str) -> Vec<(u64, u64)> {
        let trace = parse(text).unwrap();
        let at = |step: &Step| (step.at.as_millis() as u64, step.rate.unwrap().bits_per_s());
        trace.steps().iter().map(at).collect()
    }

    #[test]
    fn opportunity_is_a_rate_since_the_one_before() {
        // One in the first ms, two in the second, none in the next three, one in the sixth.
        let steps = [(0, 12_000_000), (1, 24_000_000), (2, 3_000_000)];
        assert_eq!(rates("1\n2\n2\n6\n"), steps);
        assert_eq!(parse("1\n2\n2\n6\n").unwrap().period(), Some(Duration::from_millis(6)));
    }

    #[test]
    fn opportunity_at_the_start_is_one_at_the_end() {
        assert_eq!(rates("0\n1\n2\n"), [(0, 12_000_000), (1, 24_000_000)]);
    }

    #[test]
    fn equal_rates_are_one_step() {
        assert_eq!(rates("# ours\n5\n10\n15\n\n20\n"), [(0, 2_400_000)]);
    }

    #[test]
    fn long_time_without_opportunity_is_an_outage() {
        let slowest = [(0, 12_000_000), (1, 1_000)];
        assert_eq!(rates("1\n12001\n"), slowest);
        let outage = [(0, 12_000_000), (1, 0), (12_001, 24_000_000)];
        assert_eq!(rates("1\n12002\n12002\n"), outage);
    }

    #[test]
    fn bad_opportunity_is_named_by_its_line() {
        for (text, line, named) in [
            ("", None, "no delivery opportunity"),
            ("0\n0\n", Some(2), "ends at 0 ms"),
            ("1\n\nx\n", Some(3), "\"x\" is no delivery opportunity"),
            ("1\n2.5\n", Some(2), "whole number of ms"),
            ("7\n5\n", Some(2), "5 ms is before the 7 ms of line 1"),
        ] {
            let (found, reason) = parse(text).unwrap_err();
            assert!(found == line && reason.contains(named), "{text:?}: {found:?} {reason}");
        }
    }
}
