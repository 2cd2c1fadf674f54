//! Access rules: which address of a client counts, and how often it may ask.

use std::time::Duration;

use super::client::Client;
use super::harness::Lab;
use super::harness::Saved;
use super::harness::Server;
use super::path::Path;

const ALLOWED: [u8; 4] = [192, 0, 2, 1];
const OTHER_ALLOWED: [u8; 4] = [192, 0, 2, 9];
const DENIED: [u8; 4] = [203, 0, 113, 1];

// RFC 9000, 9.3.1: the address of the first packet may be forged, and the response then goes to the
// old one.
#[test]
fn client_that_moves_needs_access_at_both_addresses() {
    let lab = Lab::new();
    lab.write("edge.toml", "[[host]]\naccess = [{ allow = ['192.0.2.0/24'] }]\n");
    let server = lab.serve(&["--config", "DIR/edge.toml"]);
    for (from, to, at_once, later) in [
        (ALLOWED, OTHER_ALLOWED, "404", "404"),
        (ALLOWED, DENIED, "403", "403"),
        (DENIED, ALLOWED, "403", "404"),
    ] {
        let mut client = server.client().from(from).connect();
        let before = if from == DENIED { "403" } else { "404" };
        assert_eq!(client.get("/none").status(), before, "{from:?}");
        client.rebind(to);
        assert_eq!(client.get("/none").status(), at_once, "{from:?} {to:?}");
        lab.advance(Duration::from_secs(1));
        assert_eq!(client.get("/none").status(), later, "{from:?} {to:?}");
    }
}

#[test]
fn subnet_has_a_rate_of_requests() {
    let lab = Lab::new();
    let rule = "path = '/none', requests-per-second = 2, burst = 4";
    lab.write("edge.toml", format!("[[host]]\naccess = [{{ {rule} }}]\n"));
    let server = lab.serve(&["--config", "DIR/edge.toml"]);
    let mut one = server.client().from(ALLOWED).connect();
    let mut neighbour = server.client().from(OTHER_ALLOWED).connect();
    let mut other = server.client().from(DENIED).connect();
    let statuses = |client: &mut Client, path: &str| -> Vec<String> {
        let streams: Vec<_> = (0..3).map(|_| client.request("GET", path)).collect();
        streams.into_iter().map(|stream| client.response(stream).status().to_owned()).collect()
    };
    assert_eq!(statuses(&mut one, "/none"), ["404", "404", "404"]);
    assert_eq!(statuses(&mut neighbour, "/none"), ["404", "429", "429"]);
    assert_eq!(statuses(&mut neighbour, "/other"), ["404", "404", "404"]);
    assert_eq!(statuses(&mut other, "/none"), ["404", "404", "404"]);
    let refused = one.get("/none");
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(refused.headers["cache-control"], "no-store");
    lab.advance(Duration::from_secs(1));
    assert_eq!(statuses(&mut one, "/none"), ["404", "404", "429"]);
}

const RATE_BYTES: usize = 100_000;

/// Starts a server that has a rule for downloads of the speed test.
fn serve_limited(lab: &Lab, rule: &str, args: &[&str]) -> Server {
    lab.write("edge.toml", format!("[[host]]\naccess = [{{ path = '/bytes/*', {rule} }}]\n"));
    lab.write("www/large", vec![7; 500_000]);
    lab.serve(&[&["--speedtest", "--config", "DIR/edge.toml"], args].concat())
}

/// Returns how long whole responses take that begin together, in seconds.
fn time_of(lab: &Lab, clients: &mut [Client], path: &str) -> f64 {
    let start = lab.now();
    let streams: Vec<_> = clients.iter_mut().map(|client| client.request("GET", path)).collect();
    for (client, stream) in clients.iter_mut().zip(streams) {
        assert_eq!(client.response(stream).status(), "200");
    }
    (lab.now() - start).as_secs_f64()
}

#[test]
fn client_has_a_bandwidth_of_all_its_responses() {
    let lab = Lab::new();
    let server = serve_limited(&lab, "bytes-per-second = 100000, burst-bytes = 50000", &[]);
    let connect = |from: [u8; 4]| server.client().from(from).connect();
    let mut one = [connect(ALLOWED)];
    assert!(time_of(&lab, &mut one, "/large") < 0.5, "no rule is for it");
    assert!((4.3..5.0).contains(&time_of(&lab, &mut one, "/bytes/500000")));
    lab.advance(Duration::from_secs(1));
    let mut both = [connect(ALLOWED), connect(ALLOWED)];
    assert!((9.3..10.0).contains(&time_of(&lab, &mut both, "/bytes/500000")), "they share");
    let mut others = [connect(OTHER_ALLOWED), connect(DENIED)];
    assert!((4.3..5.0).contains(&time_of(&lab, &mut others, "/bytes/500000")), "each its own");
    assert!(server.metric("edge_server_access_delayed_responses_total") >= 5);
}

#[test]
fn limited_response_is_spread_evenly() {
    let lab = Lab::new();
    let server = serve_limited(&lab, "bytes-per-second = 100000, burst-bytes = 1", &[]);
    let mut client = server.connect();
    let begin = lab.now();
    client.get("/bytes/1000000");
    let (_, sent) = client.datagrams();
    let mut packets = 0;
    for second in 0..9 {
        let from = begin + Duration::from_secs(second);
        let until = from + Duration::from_secs(1);
        let within = sent.iter().filter(|sent| (from..until).contains(&sent.at));
        let bytes: usize = within.clone().map(|sent| sent.bytes).sum();
        packets += within.count();
        assert!(bytes.abs_diff(RATE_BYTES) < RATE_BYTES / 8, "{second}: {bytes}");
    }
    assert!(packets < 1200, "{packets} packets for 900 kB");
}

#[test]
fn limited_responses_keep_their_priorities() {
    let lab = Lab::new();
    let server = serve_limited(&lab, "bytes-per-second = 100000, burst-bytes = 1", &[]);
    for (priority, is_shared) in [("u=3", false), ("u=3, i", true)] {
        let mut client = server.connect();
        let ask =
            |client: &mut Client, priority| client.ask("/bytes/200000", &[("priority", priority)]);
        let streams = [priority, priority].map(|priority| ask(&mut client, priority));
        client.receive(streams[0], 20_000);
        let urgent = ask(&mut client, "u=1");
        client.response(urgent);
        let received = streams.map(|stream| client.received_bytes(stream));
        assert!(received.iter().all(|bytes| *bytes < 40_000), "{priority}: {received:?}");
        client.response(streams[0]);
        let share = client.received_bytes(streams[1]);
        assert_eq!(share > 150_000, is_shared, "{priority}: {share}");
        assert!(is_shared || share < 15_000, "{priority}: {share}");
        client.response(streams[1]);
    }
}

// Each gets 100 bytes a second.
#[test]
fn limited_response_is_neither_stalled_nor_stuck() {
    let lab = Lab::new();
    let args = ["--stall-timeout", "5", "--connections-max", "14"];
    let rule = "bytes-per-second = 1000, burst-bytes = 1";
    let server = serve_limited(&lab, rule, &args);
    let mut clients: Vec<_> = (0..10).map(|_| server.client().from(ALLOWED).connect()).collect();
    let streams: Vec<_> =
        clients.iter_mut().map(|client| client.request("GET", "/bytes/4000")).collect();
    lab.advance(Duration::from_secs(20));
    let others: Vec<_> =
        (1..=6).map(|subnet| server.client().from([203, 0, subnet, 1]).begin()).collect();
    lab.advance(Duration::from_secs(2));
    drop(others);
    for (client, stream) in clients.iter_mut().zip(streams) {
        assert_eq!(client.response(stream).body.len(), 4000);
    }
    assert!(lab.now() > Duration::from_secs(40));
    assert_eq!(server.metric("edge_server_drops_total"), 0);
    assert_eq!(server.metric("edge_server_evictions_total"), 0);
}

#[test]
fn limited_response_stalls_if_its_client_takes_nothing() {
    let lab = Lab::new();
    let rule = "bytes-per-second = 1000000, burst-bytes = 1";
    let server = serve_limited(&lab, rule, &["--stall-timeout", "5"]);
    let mut client = server.connect();
    let stream = client.request("GET", "/bytes/5000000");
    client.receive(stream, 500_000);
    client.fall_silent();
    lab.advance(Duration::from_secs(18));
    assert_eq!(server.metric("edge_server_drops_total{what=\"response\"}"), 1);
}

// RFC 9959, 4.7: the server limits it, not the path.
#[test]
fn limited_connection_changes_nothing_that_is_saved() {
    let saved = Saved::new(250_000, 100);
    let path = Path::new(20.0, 100, 250_000);
    let rule = "bytes-per-second = 100000, burst-bytes = 1000";
    for planted in [true, false] {
        let lab = Lab::new();
        if planted {
            lab.plant(saved);
        }
        let before = lab.held();
        let server = serve_limited(&lab, rule, &[]);
        let mut client = server.client().over(&path).connect();
        assert_eq!(client.get("/bytes/1000000").status(), "200");
        client.close();
        server.wait_for_metric("edge_server_connections_open", |open| open == 0);
        assert_eq!(server.metric("path_store_claims_total"), 0);
        assert_eq!(lab.held(), before, "{planted}");
    }
}
