//! Snapshot of key figures of scenarios of the evaluation, one line each, beside
//! those in `snapshot.txt`: every change of them is visible, and reviewed as text.

use std::fmt::Write;
use std::path::Path;

use sim::scenario::file::Named;
use sim::scenario::shipped;
use sim::world;

const SEED: u64 = 1;

/// Rounds that are shown.
const ROUNDS_MAX: usize = 14;

/// File, and parameters that choose scenarios of it.
const CHOSEN: &[(&str, &str)] = &[
    ("paths", "flow.cc=cubic"),
    ("paths", "flow.cc=reno,GEO-3.75MB"),
    ("changed", "LEO,flow.saved.rtt_ratio=1,careful-resume"),
    ("dynamics", "flow.cc=cubic,careful-resume"),
];

/// `file parameters | TTLB of the first flow in RTTs, packets lost | window in
/// packets at the end of each round`
fn line(file: &str, named: &Named) -> String {
    let Named { name, scenario, .. } = named;
    let outcome = world::run(scenario, SEED).unwrap_or_else(|e| panic!("{file} {name}: {e:#}"));
    let flow = &outcome.flows[0];
    let windows: Vec<_> = flow.window_packets.iter().take(ROUNDS_MAX).map(u64::to_string).collect();
    let more = if flow.window_packets.len() > ROUNDS_MAX { " …" } else { "" };
    let rtts = flow.ttlb_ms / flow.rtt_ms;
    let lost = flow.lost_packets;
    format!("{file} {name} | {rtts:.2} RTTs, {lost} lost | {}{more}", windows.join(" "))
}

#[test]
fn key_figures_are_those_of_the_snapshot() {
    let mut figures = String::new();
    for (file, terms) in CHOSEN {
        let content = shipped::find(file).expect("a shipped file");
        let chosen: Vec<_> = content.scenarios.iter().filter(|s| s.matches(terms)).collect();
        assert!(!chosen.is_empty(), "{file}: no scenario has {terms}");
        for named in chosen {
            writeln!(figures, "{}", line(file, named)).expect("a string takes all");
        }
    }

    let snapshot = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshot.txt");
    if std::env::var_os("UPDATE_SNAPSHOT").is_some() {
        std::fs::write(&snapshot, &figures).expect("a snapshot that can be written");
    }
    let expected = std::fs::read_to_string(&snapshot).unwrap_or_default();
    let differences: Vec<String> = expected
        .lines()
        .zip(figures.lines())
        .filter(|(old, new)| old != new)
        .map(|(old, new)| format!("- {old}\n+ {new}"))
        .collect();
    assert!(
        expected == figures,
        "key figures have changed; if that is meant, `make snapshot` writes them:\n{}",
        differences.join("\n")
    );
}
