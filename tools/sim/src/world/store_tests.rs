//! Tests of the store, with connections of one subnet, consecutive and concurrent.

use super::*;
use crate::outcome::FlowOutcome;

/// Time for which a claim lingers while its holder still sends.
const LINGER_MS: f64 = 2000.0;

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

/// Returns when a flow entered a phase, if it did.
fn entered_ms(flow: &FlowOutcome, name: &str) -> Option<f64> {
    let phase = flow.phases.iter().find(|(_, phase, _)| phase == name)?;
    Some(flow.start_ms + phase.0)
}

fn has_phase(flow: &FlowOutcome, name: &str) -> bool {
    flow.phases.iter().any(|(_, phase, _)| phase == name)
}

/// RFC 9959, 3.5, E1: careful resume takes three round trips and more, of a path on which
/// each is up to ten times the saved one; or of a buffer that holds several.
#[test]
fn slow_retreat_is_remembered() {
    for (path, saved) in [
        ("rate_mbps = 20\nrtt_ms = 450", "saved = { cwnd_bdp = 32, rtt_ratio = 0.11 }"),
        (
            "rate_mbps = 20\nrtt_ms = 450\nbuffer_bdp = 4",
            "saved = { cwnd_bdp = 56, rtt_ratio = 0.2 }",
        ),
        ("rate_mbps = 5\nrtt_ms = 600\nbuffer_bdp = 6", "saved = { cwnd_bdp = 24 }"),
    ] {
        let flows = subnet(path, &[0.0, 25_000.0], &format!("object_bdp = 20\n{saved}"));
        assert!(has_phase(&flows[0], "safe_retreat"), "{path}: {:?}", flows[0].phases);
        assert!(!has_jumped(&flows[1]), "{path}: {:?}", flows[1].phases);
    }
}

/// RFC 9002, 6.2.2: the default initial RTT has the server send its handshake again
/// after a second, when no answer can have come; a saved RTT does not.
#[test]
fn saved_rtt_avoids_probes_in_the_handshake() {
    for (rtt_ms, unknown, known) in [(900, 0, 0), (1200, 1, 0), (2500, 2, 0)] {
        let path = format!("rate_mbps = 20\nrtt_ms = {rtt_ms}");
        let probes = |saved: &str| {
            let flow = format!("object_bytes = 5000\nsaved = {{ {saved} }}");
            subnet(&path, &[0.0], &flow)[0].probe_timeouts
        };
        assert_eq!(probes("cold = true"), unknown, "{path}");
        assert_eq!(probes("rtt_ratio = 1"), known, "{path}");
        // What a neighbour saw who is much closer changes nothing.
        assert_eq!(probes("rtt_ratio = 0.01"), unknown, "{path}");
    }
}

/// RFC 9959, 3.2, B6: saved_rtt is the one at which saved_cwnd was seen, however many
/// shorter downloads over a shorter path there were since.
#[test]
fn renewed_window_keeps_its_rtt() {
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

/// Checks that no connection jumps onto a path that another's jump has begun to fill.
#[test]
fn staggered_connections_do_not_jump_together() {
    let starts: Vec<f64> = (0..12).map(|n| f64::from(n) * 350.0).collect();
    for path in ["rate_mbps = 20\nrtt_ms = 100", "rate_mbps = 100\nrtt_ms = 60\nbuffer_bdp = 2"] {
        for object_bdp in [2, 6, 20] {
            let flows = subnet(path, &starts, &format!("object_bdp = {object_bdp}"));
            let mut free_ms = 0.0;
            for flow in flows.iter().filter(|flow| has_jumped(flow)) {
                let jump_ms = entered_ms(flow, "unvalidated").unwrap();
                assert!(jump_ms >= free_ms, "{path}, {object_bdp} BDP: {jump_ms} {free_ms}");
                let lingers_until_ms = entered_ms(flow, "normal").unwrap() + LINGER_MS;
                free_ms = lingers_until_ms.min(flow.start_ms + flow.ttlb_ms);
            }
        }
    }
}

/// Checks that a closed connection does not keep the saved parameters from others.
#[test]
fn consecutive_connections_all_jump() {
    let path = "rate_mbps = 50\nrtt_ms = 60";
    let (flow, mut starts) = ("object_bdp = 2", vec![0.0]);
    for _ in 0..8 {
        let last = subnet(path, &starts, flow).pop().unwrap();
        assert!(has_jumped(&last), "{starts:?}: {:?}", last.phases);
        starts.push(last.start_ms + last.ttlb_ms + 100.0);
    }
}
