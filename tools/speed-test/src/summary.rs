//! Summary of downloads: medians by path and mode, the figures that are quoted.

use std::fmt::Write;

use report::bound::bdp_bytes;
use report::bound::bounds;
use report::bound::Bounds;
use report::record::Download;
use report::record::Mode;
use report::record::EDGE_SERVER;
use report::stats::median;
use report::stats::number;

/// The downloads of one object over one path.
#[derive(Debug)]
pub struct Group<'a> {
    pub path: &'a str,
    pub rate_mbps: Option<f64>,
    pub rtt_ms: Option<f64>,
    pub buffer_bytes: Option<u64>,
    pub object_bytes: u64,
    /// Absent when the path is not known.
    pub bounds: Option<Bounds>,
    /// In the order in which they are shown: the reference first.
    pub rows: Vec<Row<'a>>,
}

/// The downloads of a group that were made in the same way.
#[derive(Debug)]
pub struct Row<'a> {
    pub mode: Mode,
    /// Which one of a series of visits.
    pub visit: Option<u32>,
    pub label: String,
    /// Sorted by time to last byte.
    pub runs: Vec<&'a Download>,
    pub ttlb_ms: f64,
    pub ttfb_ms: f64,
    /// `ttlb_ms` in round trips.
    pub ttlb_rtts: Option<f64>,
    pub bound_ms: Option<f64>,
    /// Against slow start on the same server; so is `ratio`.
    pub saved_rtts: Option<f64>,
    pub ratio: Option<f64>,
    pub saved_cwnd_bdp: Option<f64>,
    pub lost_packets: Option<f64>,
    /// Every sequence of phases seen, and in how many runs.
    pub phases: Vec<(String, usize)>,
    /// Most packets that one run lost to its jump.
    pub jump_lost_packets: Option<u64>,
}

impl Row<'_> {
    /// Returns the run that has the median time (the faster of two).
    pub fn median_run(&self) -> &Download {
        self.runs[(self.runs.len() - 1) / 2]
    }

    /// Returns whether a server other than ours made it, for comparison.
    pub fn is_other_server(&self) -> bool {
        is_other_server(self.runs[0])
    }
}

/// Groups downloads by path, in the order of their first appearance.
pub fn groups(downloads: &[Download]) -> Vec<Group<'_>> {
    let mut paths: Vec<&str> = Vec::new();
    for d in downloads {
        if !paths.contains(&d.path.as_str()) {
            paths.push(&d.path);
        }
    }
    paths.iter().map(|path| group(path, downloads)).collect()
}

fn group<'a>(path: &'a str, downloads: &'a [Download]) -> Group<'a> {
    let all: Vec<&Download> = downloads.iter().filter(|d| d.path == path).collect();
    // A connection that only observes the path may download another object.
    let typical = all.iter().find(|d| d.mode != Mode::First).unwrap_or(&all[0]);
    let has_slow_start = all.iter().any(|d| d.mode == Mode::SlowStart);
    let known = typical.rate_mbps.zip(typical.rtt_ms);
    let bounds = known.map(|(rate, rtt)| bounds(rate, rtt, typical.object_bytes));
    let object_bytes = typical.object_bytes;

    let mut kinds: Vec<(Mode, bool, Option<&str>, Option<u32>)> = Vec::new();
    let comparable: Vec<&Download> = all
        .iter()
        .copied()
        .filter(|d| d.object_bytes == object_bytes && !(has_slow_start && d.mode == Mode::First))
        .collect();
    for d in &comparable {
        let kind = (d.mode, !is_other_server(d), d.server.as_deref(), d.visit);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds.sort();

    let mut rows: Vec<Row> = Vec::new();
    for (mode, _, server, visit) in kinds {
        let same = |d: &&Download| (d.mode, d.server.as_deref(), d.visit) == (mode, server, visit);
        let runs = comparable.iter().copied().filter(same).collect();
        let reference = rows
            .iter()
            .find(|r| matches!(r.mode, Mode::SlowStart | Mode::First) && !r.is_other_server())
            .map(|r| r.ttlb_ms);
        rows.push(row(runs, reference));
    }

    Group {
        path,
        rate_mbps: typical.rate_mbps,
        rtt_ms: typical.rtt_ms,
        buffer_bytes: typical.buffer_bytes,
        object_bytes,
        bounds,
        rows,
    }
}

/// Returns the row of a mode; `reference_ms` is the time with slow start, if known.
fn row<'a>(mut runs: Vec<&'a Download>, reference_ms: Option<f64>) -> Row<'a> {
    runs.sort_by(|a, b| a.ttlb_ms.total_cmp(&b.ttlb_ms));
    let mode = runs[0].mode;
    let other = runs[0].server.as_deref().filter(|_| is_other_server(runs[0]));
    let ttlb_ms = median(runs.iter().map(|d| d.ttlb_ms)).unwrap_or(f64::NAN);
    let rtt_ms = median(runs.iter().filter_map(|d| d.rtt_ms));
    let compares = !matches!(mode, Mode::SlowStart | Mode::First);
    let reference_ms = reference_ms.filter(|_| compares);
    let kind = runs[0].kind();

    Row {
        mode,
        visit: runs[0].visit,
        label: other.map_or(kind.clone(), |server| format!("{kind}, {server}")),
        ttlb_ms,
        ttfb_ms: median(runs.iter().map(|d| d.ttfb_ms)).unwrap_or(f64::NAN),
        ttlb_rtts: rtt_ms.map(|rtt| ttlb_ms / rtt),
        bound_ms: runs[0].bound_ms(),
        saved_rtts: reference_ms.zip(rtt_ms).map(|(reference, rtt)| (reference - ttlb_ms) / rtt),
        ratio: reference_ms.map(|reference| ttlb_ms / reference),
        saved_cwnd_bdp: median(
            runs.iter().filter_map(|d| {
                Some(d.saved_cwnd_bytes? as f64 / bdp_bytes(d.rate_mbps?, d.rtt_ms?))
            }),
        ),
        lost_packets: median(runs.iter().filter_map(|d| Some(d.lost_packets? as f64))),
        phases: sequences(&runs),
        jump_lost_packets: runs.iter().filter_map(|d| d.jump_lost_packets).max(),
        runs,
    }
}

fn is_other_server(d: &Download) -> bool {
    d.server.as_deref().is_some_and(|s| s != EDGE_SERVER)
}

fn sequences(runs: &[&Download]) -> Vec<(String, usize)> {
    let mut seen: Vec<(String, usize)> = Vec::new();
    for run in runs.iter().filter(|d| !d.phases.is_empty()) {
        let names: Vec<&str> = run.phases.iter().map(|p| p.1.as_str()).collect();
        let names = names.join(", ");
        match seen.iter_mut().find(|(n, _)| *n == names) {
            Some((_, count)) => *count += 1,
            None => seen.push((names, 1)),
        }
    }
    seen
}

/// Returns the table for a terminal.
pub fn text_table(groups: &[Group]) -> String {
    let mut out = format!(
        "{:42} {:>4} {:>8} {:>6} {:>9} {:>11} {:>6} {:>11} {:>6}\n",
        "", "runs", "TTLB ms", "RTTs", "bound ms", "RTTs saved", "ratio", "saved_cwnd", "lost"
    );
    for group in groups {
        let _ = writeln!(out, "{}", group.path);
        for row in &group.rows {
            let saved = row.saved_cwnd_bdp.map_or(String::new(), |v| format!("{v:.2} BDP"));
            let line = format!(
                "  {:40} {:>4} {:>8.0} {:>6} {:>9} {:>11} {:>6} {:>11} {:>6}",
                row.label,
                row.runs.len(),
                row.ttlb_ms,
                number(row.ttlb_rtts, 1),
                number(row.bound_ms, 0),
                number(row.saved_rtts, 1),
                number(row.ratio, 2),
                saved,
                number(row.lost_packets, 0),
            );
            let _ = writeln!(out, "{}", line.trim_end());
        }
        for row in &group.rows {
            let label = &row.label;
            for (names, count) in &row.phases {
                let runs = row.runs.len();
                let _ = writeln!(out, "  {label}: phases {names} ({count} of {runs})");
            }
            if let Some(lost) = row.jump_lost_packets {
                let _ = writeln!(out, "  {label}: packets lost after the jump: {lost}");
            }
            let disturbed = row.runs.iter().filter(|d| d.is_disturbed()).count();
            if disturbed > 0 {
                let runs = row.runs.len();
                let _ = writeln!(
                    out,
                    "  {label}: in {disturbed} of {runs} runs this machine, not the path, lost or delayed \
                     packets"
                );
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::download;

    fn sample() -> Vec<Download> {
        let mut all = Vec::new();
        let mut first = download(Mode::First, 1, 900.0);
        first.object_bytes = 31_250_000;
        all.push(first);
        for (run, ms) in [(1, 600.0), (2, 580.0), (3, 570.0)] {
            all.push(download(Mode::CarefulResume, run, ms / 2.0));
            all.push(download(Mode::SlowStart, run, ms));
            let mut other = download(Mode::SlowStart, run, ms + 10.0);
            other.server = Some("upstream quiche".into());
            all.push(other);
        }
        all
    }

    #[test]
    fn gains_compare_with_our_own_slow_start() {
        let all = sample();
        let groups = groups(&all);
        let rows = &groups[0].rows;
        let labels: Vec<&str> = rows.iter().map(|r| r.label.as_str()).collect();
        assert_eq!(labels, ["slow start, upstream quiche", "slow start", "Careful Resume"]);
        let resumed = &rows[2];
        assert_eq!((resumed.ttlb_ms, resumed.ttlb_rtts), (290.0, Some(5.8)));
        assert_eq!((resumed.saved_rtts, resumed.ratio), (Some(5.8), Some(0.5)));
        assert_eq!(resumed.saved_cwnd_bdp, Some(0.96));
        assert_eq!(resumed.median_run().run, 2);
        assert_eq!(rows[1].saved_rtts, None);
    }

    #[test]
    fn first_connection_is_no_reference() {
        let mut all = sample();
        all[0].object_bytes = 6_250_000;
        assert!(groups(&all)[0].rows.iter().all(|r| r.mode != Mode::First));
    }

    #[test]
    fn median_run_of_an_even_number_is_the_faster() {
        let all = [download(Mode::SlowStart, 1, 570.0), download(Mode::SlowStart, 2, 560.0)];
        assert_eq!(groups(&all)[0].rows[0].median_run().run, 2);
    }

    #[test]
    fn text_table_has_every_figure() {
        let table = text_table(&groups(&sample()));
        for part in [
            "500 Mbit/s, 50 ms, 6.25 MB",
            "580   11.6       545",
            "0.96 BDP",
            "Careful Resume: phases reconnaissance, unvalidated, validating, normal (3 of 3)",
            "Careful Resume: packets lost after the jump: 0",
        ] {
            assert!(table.contains(part), "{part} in\n{table}");
        }
    }

    #[test]
    fn text_table_notes_disturbed_runs() {
        let mut all = sample();
        assert!(!text_table(&groups(&all)).contains("this machine"));
        all[1].overrun_packets = Some(3);
        let table = text_table(&groups(&all));
        assert!(table.contains("Careful Resume: in 1 of 3 runs this machine"), "{table}");
    }

    #[test]
    fn remote_connections_compare_with_the_first() {
        let mut all = [download(Mode::First, 1, 600.0), download(Mode::Later, 1, 300.0)];
        for d in &mut all {
            d.rate_mbps = None;
        }
        let groups = groups(&all);
        assert_eq!(groups[0].rows[1].saved_rtts, Some(6.0));
        assert!(groups[0].bounds.is_none());
    }
}
