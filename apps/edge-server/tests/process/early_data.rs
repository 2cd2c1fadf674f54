//! Requests that a client sends before its handshake is complete (RFC 8470).

use std::process::Command;

use serde_json::Value;

use crate::support::client::Client;
use crate::support::lab::emulate;
use crate::support::lab::Lab;
use crate::support::lab::Planted;
use crate::support::metrics;
use crate::support::process::serve;
use crate::support::process::sibling;

/// A served folder.
fn root() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("index.html"), "home").unwrap();
    dir
}

#[test]
fn a_safe_request_is_answered_and_any_other_is_too_early() {
    let root = root();
    let (_server, address) = serve(root.path(), &["--early-data", "on", "--speedtest"]);
    let memory = Client::connect(address).memory();

    let mut client = Client::connect_early(address, &memory);
    let get = client.request("GET", "/");
    let head = client.request("HEAD", "/");
    let post = client.post("/upload", vec![1; 100], &[]);
    let delete = client.request("DELETE", "/");
    // What the server looks at only when the handshake is complete is not early.
    client.await_unanswered();
    client.establish();
    assert!(client.early_data_accepted());
    assert_eq!(client.response(get).body, b"home");
    assert_eq!(client.response(head).status(), "200");
    assert_eq!(client.response(post).status(), "425");
    assert_eq!(client.response(delete).status(), "425");

    // Not any more.
    let post = client.post("/upload", vec![1; 100], &[]);
    assert_eq!(client.response(post).status(), "200");
}

// RFC 8470, 5.1: an intermediary says that the hop before had it as early data.
#[test]
fn a_request_that_was_early_before_is_early_here() {
    let root = root();
    let (_server, address) = serve(root.path(), &["--speedtest"]);
    let mut client = Client::connect(address);
    let post = client.post("/upload", vec![1; 100], &[("early-data", "1")]);
    assert_eq!(client.response(post).status(), "425");
    assert_eq!(client.get_with("/", &[("early-data", "1")]).body, b"home");
}

#[test]
fn a_session_takes_no_early_data_unless_it_is_asked_for() {
    let root = root();
    let (_server, address) = serve(root.path(), &["--early-data", "off"]);
    let memory = Client::connect(address).memory();
    let client = Client::connect_again(address, &memory);
    assert!(client.is_resumed());
    assert!(!client.early_data_accepted());
}

/// What comes, per byte that went out, when a client asks for much and answers
/// nothing.
fn amplification(token: bool) -> f64 {
    let root = root();
    let (_server, address) = serve(root.path(), &["--early-data", "on", "--speedtest"]);
    let mut memory = Client::connect(address).memory();
    if !token {
        memory.token = None;
    }
    let mut client = Client::connect_early(address, &memory);
    client.request("GET", "/bytes/1000000");
    let (sent, came) = client.await_unanswered();
    came as f64 / sent as f64
}

// RFC 9000, 8.1.
#[test]
fn a_token_lifts_the_limit_of_three_times_what_came() {
    assert!(amplification(false) <= 3.0);
    assert!(amplification(true) > 3.0);
}

#[test]
fn early_data_claims_nothing() {
    let lab = Lab::new();
    lab.plant(Planted::new(250_000, 100));
    let args = ["--metrics", "127.0.0.1:0", "--early-data", "on"];
    let (mut server, address) = lab.serve("run", &args);
    let metrics_at = server.metrics_address();
    let memory = Client::connect(address).memory();

    let mut client = Client::connect_early(address, &memory);
    client.request("GET", "/bytes/600000");
    client.await_unanswered();
    const CLAIMS: &str = "path_store_claims_total";
    metrics::wait_until(metrics_at, "path_store_gets_total", |gets| gets == 2);
    assert_eq!(metrics::read(metrics_at, CLAIMS), 0);

    // Without early data, who asks as much claims the set.
    let mut late = Client::connect(address);
    let stream = late.request("GET", "/bytes/600000");
    late.receive(stream, 1);
    metrics::wait_until(metrics_at, CLAIMS, |claims| claims == 1);
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
fn edge_client_reuses_what_it_was_given() {
    for (args, round_trips) in
        [(&[][..], 3.0), (&["--reuse"], 2.0), (&["--reuse", "--early-data"], 1.0)]
    {
        let measured = second_ttfb_ms(args) / 200.0;
        assert!((round_trips..round_trips + 0.9).contains(&measured), "{args:?}: {measured}");
    }
}
