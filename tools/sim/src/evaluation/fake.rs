//! Fake outcomes for tests: those of the fluid model, slightly slower.

use path_store::StateKept;

use report::provenance::Provenance;

use crate::limits;
use crate::outcome::FlowOutcome;
use crate::outcome::Outcome;
use crate::scenario::file;
use crate::scenario::file::File;
use crate::scenario::file::Named;
use crate::scenario::Flow;
use crate::scenario::FlowEcn;
use crate::scenario::Mode;
use crate::scenario::PathEcn;
use crate::scenario::Queue;
use crate::scenario::Scenario;

/// Returns a scenario of one flow from some of its lines.
pub fn scenario(path: &str, flow: &str) -> Scenario {
    let text = format!("title = \"t\"\nabout = \"a\"\n{path}\n[[flow]]\n{flow}\n");
    file::parse("test", &text).expect("a scenario").scenarios.remove(0).scenario
}

/// Returns a run of each of a file's scenarios that obeys every rule.
pub fn outcomes(file: &File) -> Vec<Outcome> {
    let runs = |named| (1..=file.runs).map(move |run| outcome(file, named, run));
    file.scenarios.iter().flat_map(runs).collect()
}

fn outcome(file: &File, named: &Named, run: u32) -> Outcome {
    let scenario = &named.scenario;
    let flows = scenario
        .flows
        .iter()
        .flat_map(|f| std::iter::repeat_n(flow_outcome(scenario, f, run), f.count as usize));
    Outcome {
        scenario: file.stem.clone(),
        parameters: named.parameters.clone(),
        run,
        seed: run.into(),
        rate_mbps: scenario.path.rate_mbps,
        rtt_ms: scenario.path.rtt_ms,
        buffer_bytes: (scenario.path.buffer_bdp * scenario.path.bdp_bytes()) as u64,
        l4s_wait_p99_ms: (scenario.path.queue == Queue::Dualpi2).then_some(1.0),
        flows: flows.collect(),
        provenance: Provenance::default(),
    }
}

fn flow_outcome(scenario: &Scenario, flow: &Flow, run: u32) -> FlowOutcome {
    let saved = &flow.saved;
    let trusted = (0.1..=2.0).contains(&saved.rtt_ratio);
    // Visits after the first one have what that has observed.
    let is_known = !saved.cold || flow.count > 1;
    let jumps = flow.mode == Mode::CarefulResume && trusted && is_known;
    let rtt_ms = scenario.path.rtt_ms + flow.extra_rtt_ms;
    let bytes = saved.cwnd_bdp * scenario.path.bdp_bytes();
    let slow_ms = limits::bounds(scenario, flow).slow_start_ms;
    let bound_ms = if jumps { limits::bound_ms(scenario, flow) } else { None };
    let bound_ms = bound_ms.unwrap_or(slow_ms);
    let marks = flow.ecn != FlowEcn::Off;
    let is_marked = marks && scenario.path.ecn == PathEcn::Pass;
    let is_refused = is_marked && saved.cwnd_bdp > 1.0 && scenario.path.queue == Queue::Step;
    let names: &[&str] = match jumps {
        true if is_refused => &["reconnaissance", "unvalidated", "safe_retreat", "normal"],
        true => &["reconnaissance", "unvalidated", "validating", "normal"],
        false => &[],
    };
    let trigger = |name: &str| (name == "safe_retreat").then(|| "ECN_CE".to_owned());
    FlowOutcome {
        name: flow.name.clone(),
        cc: flow.cc,
        mode: flow.mode,
        client: flow.clients.map(|_| 0),
        object_bytes: flow.each_bytes(&scenario.path),
        rtt_ms,
        start_ms: flow.start_ms,
        accepted_ms: 0.5 * rtt_ms,
        ttfb_ms: 2.0 * rtt_ms,
        ttlb_ms: bound_ms * 1.001 + f64::from(run) / 1e3,
        sent_packets: flow.each_bytes(&scenario.path) / 1350 + 10,
        lost_packets: match flow.state {
            _ if is_marked => 0,
            StateKept::Store => 100 + u64::from(run % 5),
            StateKept::Token | StateKept::Both => 10,
        },
        lost_bytes: 0,
        floor_ms: None,
        bound_ms: None,
        probe_timeouts: 0,
        dropped_packets: 0,
        dropped_bytes: 0,
        dropped_before_validated_packets: jumps.then_some(0),
        dropped_before_validated_bytes: jumps.then_some(0),
        marked_packets: marks.then_some(100 + u64::from(run % 5)),
        first_drop_ms: Some(7.0 * rtt_ms),
        full_ms: Some(5.0 * rtt_ms),
        slow_start_end: Some((6.0 * rtt_ms, "search".into())),
        conservative_ms: Some(5.5 * rtt_ms),
        phases: (0..)
            .zip(names)
            .map(|(i, n)| (f64::from(i) * rtt_ms, n.to_string(), trigger(n)))
            .collect(),
        saved_cwnd_bytes: jumps.then_some(bytes as u64),
        jump_cwnd_bytes: jumps.then_some((bytes / 2.0) as u64),
        window_packets: vec![10, 20, 40],
        observed_cwnd_bytes: None,
        share_bytes: flow.share_from_ms.map(|_| 1_000_000 + u64::from(run)),
    }
}
