//! Connections of one subnet, one after the other and side by side: what the store of
//! saved paths lets each of them do.

use super::*;
use crate::outcome::FlowOutcome;

/// Runs the flows that start at these times, in ms, all of one subnet.
fn subnet(path: &str, starts_ms: &[f64], flow: &str) -> Vec<FlowOutcome> {
    let flow = |start_ms: &f64| {
        format!(
            "[[flow]]\nmode = \"careful-resume\"\nsubnet = \"one\"\nstart_ms = {start_ms}\n{flow}\n"
        )
    };
    let flows: String = starts_ms.iter().map(flow).collect();
    let scenario = toml::from_str(&format!("[path]\n{path}\n{flows}")).unwrap();
    run(&scenario, 1).unwrap().flows
}

fn has_jumped(flow: &FlowOutcome) -> bool {
    flow.jump_cwnd_bytes.is_some()
}

fn has_phase(flow: &FlowOutcome, name: &str) -> bool {
    flow.phases.iter().any(|(_, phase, _)| phase == name)
}

/// RFC 9959, 3.5, E1: careful resume takes three round trips and more, of a path on which
/// each is up to ten times the saved one; or of a buffer that holds several.
#[test]
fn a_retreat_is_remembered_however_long_it_took() {
    for (path, saved) in [
        ("rate_mbps = 20\nrtt_ms = 450", "saved = { cwnd_bdp = 8, rtt_ratio = 0.11 }"),
        (
            "rate_mbps = 20\nrtt_ms = 450\nbuffer_bdp = 4",
            "saved = { cwnd_bdp = 14, rtt_ratio = 0.2 }",
        ),
        ("rate_mbps = 5\nrtt_ms = 600\nbuffer_bdp = 6", "saved = { cwnd_bdp = 24 }"),
    ] {
        let flows = subnet(path, &[0.0, 25_000.0], &format!("object_bdp = 20\n{saved}"));
        assert!(has_phase(&flows[0], "safe_retreat"), "{path}: {:?}", flows[0].phases);
        assert!(!has_jumped(&flows[1]), "{path}: {:?}", flows[1].phases);
    }
}

/// RFC 9959, 3.2, B6: saved_rtt is the one at which saved_cwnd was seen, however many
/// shorter downloads over a shorter path there were since.
#[test]
fn a_renewed_window_keeps_its_round_trip_time() {
    let path = "rate_mbps = 100\nrtt_ms = 55\nbuffer_bdp = 4
        [[path.change]]
        at_ms = 3000
        rtt_ms = 30";
    // 1.25 MB at 100 ms.
    let flow = "object_bdp = 2\nsaved = { cwnd_bdp = 1.8181818, rtt_ratio = 1.8181818 }";
    let flows = subnet(path, &[0.0, 4000.0], flow);

    assert!(has_jumped(&flows[0]), "{:?}", flows[0].phases);
    let last = flows[1].phases.last().unwrap();
    assert_eq!(last.2.as_deref(), Some("rtt_not_validated"), "{:?}", flows[1]);
}
