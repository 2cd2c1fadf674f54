//! Check of recorded claims: pairs of one endpoint that were live at a time.

use std::fmt;

use crate::record::LiveClaim;
use crate::record::Record;
use crate::record::Totals;

/// The most overlaps that a report describes.
const SHOWN_MAX: usize = 20;

/// Two claims of one endpoint, the second of which was granted while the first one lived.
#[derive(Debug, PartialEq, Eq)]
struct Overlap<'a> {
    first: &'a LiveClaim,
    second: &'a LiveClaim,

    /// A failover between both: its number, from 0.
    failover: Option<usize>,
}

/// What the records of all nodes show.
pub struct Report<'a> {
    record: &'a Record,
    failovers_ns: Vec<u64>,
    overlaps: Vec<Overlap<'a>>,
}

impl<'a> Report<'a> {
    /// Finds the overlaps. At each of `failovers_ns`, another server became the primary.
    pub fn new(record: &'a Record, mut failovers_ns: Vec<u64>) -> Self {
        failovers_ns.sort_unstable();
        let overlaps = overlaps(&record.claims, &failovers_ns);
        Self { record, failovers_ns, overlaps }
    }

    /// Returns how many overlaps no failover explains.
    pub fn violations(&self) -> usize {
        self.overlaps.iter().filter(|overlap| overlap.failover.is_none()).count()
    }

    fn total(&self, count: impl Fn(&Totals) -> u64) -> u64 {
        self.record.totals.iter().map(count).sum()
    }
}

fn overlaps<'a>(claims: &'a [LiveClaim], failovers_ns: &[u64]) -> Vec<Overlap<'a>> {
    let mut by_endpoint: Vec<&LiveClaim> = claims.iter().collect();
    by_endpoint.sort_by_key(|claim| (&claim.endpoint, claim.from_ns));
    let mut found = Vec::new();

    for claims in by_endpoint.chunk_by(|a, b| a.endpoint == b.endpoint) {
        let mut live: Vec<&LiveClaim> = Vec::new();
        for second in claims {
            live.retain(|first| first.until_ns > second.from_ns);
            found.extend(live.iter().map(|first| Overlap {
                first,
                second,
                failover:
                    failovers_ns.iter().position(|at| first.from_ns < *at && *at <= second.from_ns),
            }));
            live.push(second);
        }
    }

    found
}

fn seconds(from_ns: u64, to_ns: u64) -> f64 {
    (to_ns as f64 - from_ns as f64) / 1e9
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = self.total(|node| node.asked);
        let granted = self.record.claims.len();
        let by_node: Vec<String> = self
            .record
            .totals
            .iter()
            .map(|node| format!("{} by {}", node.granted, node.node))
            .collect();
        writeln!(
            f,
            "{asked} claims: {granted} granted ({}), {} refused, {} failed, {} dropped",
            by_node.join(", "),
            self.total(|node| node.refused),
            self.total(|node| node.failed),
            self.total(|node| node.dropped),
        )?;
        for (i, at) in self.failovers_ns.iter().enumerate() {
            let grants = || self.record.claims.iter().map(|claim| claim.from_ns);
            let last = grants().filter(|from| from < at).max();
            let first = grants().filter(|from| from >= at).min();
            let count = self.overlaps.iter().filter(|overlap| overlap.failover == Some(i)).count();
            let ago = |at: Option<f64>| at.map_or("never".to_owned(), |s| format!("{s:.1} s"));
            writeln!(
                f,
                "failover {}: the last claim {} before it, the first {} after it, {count} live across it",
                i + 1,
                ago(last.map(|last| seconds(last, *at))),
                ago(first.map(|first| seconds(*at, first))),
            )?;
        }
        for overlap in self.overlaps.iter().take(SHOWN_MAX) {
            let Overlap { first, second, failover } = overlap;
            writeln!(
                f,
                "{}: {} of node {}, and {:.3} s later of node {}, {:.3} s before the first ended",
                if failover.is_some() { "across a failover" } else { "at a time" },
                first.endpoint,
                first.node,
                seconds(first.from_ns, second.from_ns),
                second.node,
                seconds(second.from_ns, first.until_ns),
            )?;
        }
        let violations = self.violations();
        let across = self.overlaps.len() - violations;
        writeln!(f, "live at a time: {violations} pairs; across a failover: {across}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(endpoint: &str, from_ns: u64, until_ns: u64) -> LiveClaim {
        LiveClaim { node: "a".to_owned(), endpoint: endpoint.to_owned(), from_ns, until_ns }
    }

    #[test]
    fn overlaps_are_violations_unless_a_failover_lies_between() {
        type Case<'a> = (&'a str, &'a [LiveClaim], &'a [u64], usize, usize);
        let table: [Case; 7] = [
            ("one after the other", &[claim("x", 0, 10), claim("x", 10, 20)], &[], 0, 0),
            ("of two endpoints", &[claim("x", 0, 10), claim("y", 5, 20)], &[], 0, 0),
            ("at a time", &[claim("x", 5, 20), claim("x", 0, 10)], &[], 1, 0),
            ("across", &[claim("x", 0, 10), claim("x", 5, 20)], &[5], 0, 1),
            ("after the failover", &[claim("x", 5, 10), claim("x", 6, 20)], &[5], 1, 0),
            ("before the failover", &[claim("x", 0, 10), claim("x", 4, 20)], &[5], 1, 0),
            (
                "one with two",
                &[claim("x", 0, 30), claim("x", 10, 12), claim("x", 20, 22)],
                &[15],
                1,
                1,
            ),
        ];

        for (name, claims, failovers, violations, across) in table {
            let record = Record { claims: claims.to_vec(), totals: Vec::new() };
            let report = Report::new(&record, failovers.to_vec());
            assert_eq!(report.violations(), violations, "{name}");
            assert_eq!(report.overlaps.len() - violations, across, "{name}");
        }
    }
}
