//! Tests of observations: what connections record of a path, and how the next ones use it.

use super::*;
use crate::outcome::FlowOutcome;

/// Returns a client's downloads in turn, as many as `count` says.
fn downloads(path: &str, flow: &str) -> (f64, Vec<FlowOutcome>) {
    let text = format!(
        "[path]
        {path}
        [[flow]]
        mode = \"careful-resume\"
        in_turn = true
        subnet = \"home\"
        {flow}"
    );
    let scenario: Scenario = toml::from_str(&text).unwrap();
    let flows = run(&scenario, 1).unwrap().flows;
    (scenario.path.bdp_bytes(), flows)
}

const GEO: &str = "rate_mbps = 50\nrtt_ms = 600";
const LEO: &str = "rate_mbps = 100\nrtt_ms = 60";

#[test]
fn flow_in_turn_starts_when_the_last_has_ended() {
    let flow = "count = 3\nobject_bytes = 100_000\nstart_ms = 50\nsaved.cold = true";
    let (_, visits) = downloads(LEO, flow);
    let starts: Vec<f64> = visits.iter().map(|flow| flow.start_ms).collect();
    let first_s = visits[0].ttlb_ms;
    assert_eq!(starts[0], 50.0);
    for pair in visits.windows(2) {
        let pause_ms = pair[1].start_ms - pair[0].start_ms - pair[0].ttlb_ms;
        // The client's last packet takes half a round trip.
        assert!((80.0..81.0).contains(&pause_ms), "{starts:?} {first_s}");
    }
}

/// Checks RFC 9959, 3.1: each download is saved for the next one.
#[test]
fn third_visit_is_as_fast_as_from_a_full_store() {
    for (path, cc) in [(GEO, "cubic"), (GEO, "reno"), (LEO, "cubic"), (LEO, "reno")] {
        let visits = |more: &str| downloads(path, &format!("cc = '{cc}'\nobject_bdp = 1\n{more}"));
        let (_, warm) = visits("");
        let (bdp_bytes, cold) = visits("count = 4\nsaved.cold = true");

        assert_eq!(cold[0].saved_cwnd_bytes, None);
        for (i, visit) in cold.iter().enumerate().skip(2) {
            let over_warm = visit.ttlb_ms / warm[0].ttlb_ms;
            assert!(over_warm < 1.05, "{path}, {cc}, visit {}: {over_warm}", i + 1);
        }
        for pair in cold.windows(2) {
            let (before, after) = (pair[0].ttlb_ms, pair[1].ttlb_ms);
            assert!(after < before * 1.01, "{path}, {cc}: {before} {after}");
        }
        let saved = cold.iter().filter_map(|flow| flow.saved_cwnd_bytes);
        assert!(saved.max() <= Some((bdp_bytes * 1.03) as u64), "{path}, {cc}");
    }
}

/// Returns what a first download records, as a share of the path's BDP.
fn recorded_bdp(path: &str, flow: &str) -> f64 {
    let (bdp_bytes, flows) = downloads(path, &format!("saved.cold = true\n{flow}"));
    flows[0].observed_cwnd_bytes.unwrap_or(0) as f64 / bdp_bytes
}

/// RFC 9959, 3.1 and 4.1: what was delivered in one RTT, at most what the path
/// carries: at least half of an object that slow start doubles up to, and nearly
/// all that the path holds of one that fills it.
#[test]
fn first_download_records_what_it_carried() {
    let paths = ["rate_mbps = 300\nrtt_ms = 10", LEO];
    let impairments = ["", "ack_thinning = 8", "jitter_ms = 1", "jitter_ms = 1\nack_thinning = 8"];
    for (path, impaired) in paths.iter().flat_map(|p| impairments.map(|i| (p, i))) {
        let path = format!("{path}\n{impaired}");
        for cc in ["cubic", "reno"] {
            for (object_bdp, least) in [(1, 0.35), (2, 0.65), (4, 0.9), (6, 0.9), (12, 0.9)] {
                let share = recorded_bdp(&path, &format!("cc = '{cc}'\nobject_bdp = {object_bdp}"));
                // With jitter, the minimum RTT may be longer than the path's.
                let most = if path.contains("jitter") { 1.05 } else { 1.0 };
                assert!((least..most).contains(&share), "{path}, {cc}, {object_bdp}: {share}");
            }
        }
    }
}

/// Checks RFC 9959, 3.1: a path that has lost capacity is saved as it is now.
#[test]
fn long_download_lowers_saved_cwnd() {
    for after_jump in ["soft", "ceiling", "none"] {
        let flow = format!(
            "count = 2\nobject_bdp = 20\nsaved.cwnd_bdp = 1.6\nafter_jump = '{after_jump}'"
        );
        let (bdp_bytes, visits) = downloads("rate_mbps = 50\nrtt_ms = 100", &flow);
        let saved = visits[1].saved_cwnd_bytes.unwrap() as f64 / bdp_bytes;
        assert!((0.9..1.03).contains(&saved), "{after_jump}: {saved}");
    }
}
