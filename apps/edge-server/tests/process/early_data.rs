//! Early data of edge-client. What the server does with it is tested in memory:
//! `worker/tests/early_data.rs`.

use std::process::Command;

use serde_json::Value;

use crate::support::lab::emulate;
use crate::support::process::serve;
use crate::support::process::sibling;

/// A served folder.
fn root() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("index.html"), "home").unwrap();
    dir
}

/// How long the first byte takes `edge-client` with these arguments, the second time,
/// on a path of 200 ms.
fn second_ttfb_ms(args: &[&str]) -> f64 {
    let root = root();
    let more = ["--early-data", "on", "--retry-above", "0"];
    let (_server, address) = serve(root.path(), &more);
    let mut emulator = emulate(address, "--rate 20 --rtt 200 --buffer 250000");
    let url = format!("https://{}/", emulator.address());
    let mut client = Command::new(sibling("edge-client"));
    client.args([&url, "--insecure", "--json", "--repeat", "2"]).args(args);
    let lines = String::from_utf8(client.output().unwrap().stdout).unwrap();
    let last: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!(last["status"], 200, "{lines}");
    last["ttfb_ms"].as_f64().unwrap()
}

// Retry, handshake and request are a round trip each.
#[test]
fn edge_client_reuses_tokens_and_sessions() {
    for (args, round_trips) in
        [(&[][..], 3.0), (&["--reuse"], 2.0), (&["--reuse", "--early-data"], 1.0)]
    {
        let measured = second_ttfb_ms(args) / 200.0;
        assert!((round_trips..round_trips + 0.9).contains(&measured), "{args:?}: {measured}");
    }
}
