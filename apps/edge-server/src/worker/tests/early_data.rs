//! Requests that a client sends before its handshake is complete (RFC 8470).

use std::time::Duration;

use super::harness::Lab;
use super::harness::Saved;
use super::harness::Server;
use super::path::Path;

const ROUND_TRIP: Duration = Duration::from_millis(10);

#[test]
fn early_data_answers_safe_requests_and_no_others() {
    let server = Server::start(&["--early-data", "on", "--speedtest"]);
    let memory = server.connect().resumption_data();

    let mut client = server.client().with(&memory).connect_early();
    let get = client.request("GET", "/");
    let head = client.request("HEAD", "/");
    let post = client.post("/upload", vec![1; 100], &[]);
    let delete = client.request("DELETE", "/");
    // What the server looks at only when the handshake is complete is not early.
    client.fall_silent();
    server.lab().advance(ROUND_TRIP);
    client.wake_up();
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
fn early_data_before_an_intermediary_is_early_here() {
    let server = Server::start(&["--speedtest"]);
    let mut client = server.connect();
    let post = client.post("/upload", vec![1; 100], &[("early-data", "1")]);
    assert_eq!(client.response(post).status(), "425");
    assert_eq!(client.get_with("/", &[("early-data", "1")]).body, b"home");
}

#[test]
fn early_data_is_off_unless_asked_for() {
    let server = Server::start(&["--early-data", "off"]);
    let memory = server.connect().resumption_data();
    let client = server.client().with(&memory).connect();
    assert!(client.is_resumed());
    assert!(!client.early_data_accepted());
}

// RFC 9000, 7.4.1: a client ends the connection if what it remembers was reduced, and its early data was
// accepted.
#[test]
fn early_data_is_refused_when_limits_have_changed() {
    const BEFORE: [&str; 3] = ["--early-data", "on", "--speedtest"];
    let table: [(&[&str], bool); 5] = [
        (&BEFORE, true),
        (&["--early-data", "on", "--speedtest", "--idle-timeout", "9"], true),
        (&["--early-data", "on"], false),
        (&["--early-data", "on", "--speedtest", "--requests-max", "50"], false),
        (&["--early-data", "on", "--speedtest", "--header-bytes-max", "4096"], false),
    ];
    for (after, expected) in table {
        let server = Server::start(&BEFORE);
        let before = server.connect().resumption_data();
        server.reload(after);
        let since = server.connect().resumption_data();
        for (memory, is_accepted) in [(&before, expected), (&since, true)] {
            let mut client = server.client().with(memory).connect_early();
            let get = client.request("GET", "/");
            assert_eq!(client.response(get).body, b"home", "{after:?}");
            assert!(client.is_resumed(), "{after:?}");
            assert_eq!(client.early_data_accepted(), is_accepted, "{after:?}");
            client.close();
        }
        server.wait_for_metric("edge_server_connections_open", |open| open == 0);
        let counted = |result| {
            let name = "edge_server_early_data_connections_total";
            server.metric(&format!("{name}{{result=\"{result}\"}}"))
        };
        let (accepted, refused) = (1 + u64::from(expected), u64::from(!expected));
        let results = ["accepted", "limits", "refused"].map(counted);
        assert_eq!(results, [accepted, refused, 0], "{after:?}");
    }
}

/// How many files a request in early data has opened before the client answers, and what becomes of
/// it and of an upload once the handshake is complete.
fn opened_early(token: bool) -> (u64, Vec<String>) {
    let server = Server::start(&["--early-data", "on", "--speedtest"]);
    server.lab().write("www/file", vec![7; 3_000_000]);
    let mut memory = server.connect().resumption_data();
    if !token {
        memory.token = None;
    }
    let mut client = server.client().with(&memory).connect_early();
    let get = client.request("GET", "/file");
    let post = client.post("/upload", vec![1; 100], &[]);
    client.fall_silent();
    server.lab().advance(ROUND_TRIP);
    let opened = server.metric("edge_server_files_open ");
    client.wake_up();
    client.establish();
    assert!(client.early_data_accepted());
    let responses = [get, post].map(|stream| client.response(stream).status().to_owned());
    (opened, responses.to_vec())
}

// RFC 8470, 5.1: the server may delay. The address may be forged, and files would count for its
// subnet. After the handshake a replay is none, so that the server need not refuse the upload.
#[test]
fn early_data_of_an_unvalidated_address_waits_for_the_handshake() {
    assert_eq!(opened_early(false), (0, vec!["200".into(), "200".into()]));
    assert_eq!(opened_early(true), (1, vec!["200".into(), "425".into()]));
}

/// What comes, per byte that went out, when a client asks for much and answers nothing.
fn amplification(token: bool) -> f64 {
    let server = Server::start(&["--early-data", "on", "--speedtest"]);
    let mut memory = server.connect().resumption_data();
    if !token {
        memory.token = None;
    }
    let mut client = server.client().with(&memory).connect_early();
    client.request("GET", "/bytes/1000000");
    client.fall_silent();
    server.lab().advance(Duration::from_secs(1));
    let (sent, came) = client.datagrams();
    let bytes = |offered: Vec<super::path::Offered>| -> usize {
        offered.iter().map(|datagram| datagram.bytes).sum()
    };
    bytes(came) as f64 / bytes(sent) as f64
}

// RFC 9000, 8.1.
#[test]
fn early_data_without_a_token_is_limited_threefold() {
    assert!(amplification(false) <= 3.0);
    assert!(amplification(true) > 3.0);
}

// The address may be forged, and the packets replayed, unless a token proves it.
#[test]
fn early_data_claims_with_a_token_only() {
    const CLAIMS: &str = "path_store_claims_total";
    for (token, expected) in [(false, 0), (true, 1)] {
        let lab = Lab::new();
        lab.plant(Saved::new(250_000, 10));
        let server = lab.serve(&["--early-data", "on", "--speedtest"]);
        let mut memory = server.connect().resumption_data();
        if !token {
            memory.token = None;
        }
        let mut client = server.client().with(&memory).connect_early();
        client.request("GET", "/bytes/600000");
        client.fall_silent();
        lab.advance(ROUND_TRIP);
        assert_eq!(server.metric("path_store_gets_total"), 2);
        assert_eq!(server.metric(CLAIMS), expected, "{token}");
    }
}

/// A download with early data and the token of a long download: the time to its last byte in
/// milliseconds, and the packets that were lost.
fn download_after_a_long_one(path: &Path, bdp_bytes: u64) -> (f64, usize) {
    let lab = Lab::new();
    lab.write("secrets", "5e".repeat(32));
    let args = ["--early-data", "on", "--secrets", "DIR/secrets", "--speedtest", "--pmtud", "off"];
    let server = lab.serve(&args);
    let mut first = server.client().over(path).connect();
    first.get(&format!("/bytes/{}", 10 * bdp_bytes));
    let memory = first.resumption_data();
    first.close();
    lab.advance(Duration::from_secs(2));
    let start = lab.now();
    let mut client = server.client().over(path).with(&memory).connect_early();
    let bytes = client.get(&format!("/bytes/{bdp_bytes}")).body.len() as u64;
    assert_eq!(bytes, bdp_bytes);
    let took_ms = (lab.now() - start).as_secs_f64() * 1000.0;
    let (_, down) = client.datagrams();
    (took_ms, down.iter().filter(|datagram| !datagram.arrives).count())
}

// Request and initial window take two round trips of 300 ms, the jump half of the path in the next,
// and then the path is full. Headers add 4 % to the 300 ms of content.
#[test]
fn early_download_with_own_state_takes_little_more_than_its_bound() {
    const BOUND_MS: f64 = 600.0 + 300.0 + 150.0;
    const BDP_BYTES: u64 = 750_000;
    let path = Path::new(20.0, 300, BDP_BYTES);
    let (took_ms, lost) = download_after_a_long_one(&path, BDP_BYTES);
    assert!((BOUND_MS..BOUND_MS + 20.0).contains(&took_ms), "{took_ms}");
    assert_eq!(lost, 0);
}
