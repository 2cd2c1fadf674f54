//! ECN end to end (RFC 9000, 13.4): marks of a queue, and paths that do not carry them.

use std::time::Duration;

use link::EcnHandling;
use link::Queue;
use quiche::ecn::Codepoint;
use quiche::ecn::EcnState;

use super::client::Client;
use super::harness::Lab;
use super::harness::Saved;
use super::harness::Server;
use super::path::Offered;
use super::path::Path;

const RTT_MS: u64 = 100;

/// Twice the window of [`narrow_path()`], so that half of it is a jump into a queue.
const SAVED: Saved = Saved::new(500_000, RTT_MS);

/// A path of 125 kB, with room for every packet.
fn narrow_path() -> Path {
    Path::new(10.0, RTT_MS, 10_000_000)
}

const MARKED_SENT: &str = "edge_server_packets_marked_ce_total{direction=\"sent\"}";
const RETREATS: &str = "edge_server_resume_phases_total{phase=\"safe_retreat\"";

#[track_caller]
fn fetch(client: &mut Client, bytes: usize) {
    assert_eq!(client.get(&format!("/bytes/{bytes}")).body.len(), bytes);
}

fn end(server: &Server, mut client: Client) {
    client.close();
    server.wait_for_metric("edge_server_connections_open", |open| open == 0);
}

fn are_all(datagrams: &[Offered], ecn: Codepoint) -> bool {
    datagrams.iter().all(|datagram| datagram.ecn == ecn)
}

fn marked(datagrams: &[Offered]) -> impl Iterator<Item = &Offered> {
    datagrams.iter().filter(|datagram| datagram.ecn_out == Codepoint::Ce)
}

#[test]
fn download_over_codel_is_marked_and_loses_nothing() {
    for cc in ["cubic", "reno", "bbr2"] {
        let args = ["--speedtest", "--cc", cc, "--access-log", "-", "--slow-start-exit", "none"];
        let server = Server::start(&args);
        let path = narrow_path().with_queue(Queue::CoDel);
        let mut client = server.client().over(&path).marking().connect();
        fetch(&mut client, 6_000_000);
        let (stats, (up, down)) = (client.ecn_stats(), client.datagrams());
        let [shown] = &server.connections()[..] else { panic!("one connection") };
        assert_eq!(shown.ecn, Some("capable"), "{cc}");
        end(&server, client);

        assert!(are_all(&up, Codepoint::Ect0) && are_all(&down, Codepoint::Ect0), "{cc}");
        assert!(up.iter().chain(&down).all(|datagram| datagram.arrives), "{cc}");
        let marks = marked(&down).count() as u64;
        assert!(marks > 0, "{cc}");
        assert_eq!((stats.state, stats.received.ce), (Some(EcnState::Capable), marks), "{cc}");
        assert_eq!(server.metric(MARKED_SENT), marks, "{cc}");
        assert_eq!(server.metric("edge_server_packets_lost_total"), 0, "{cc}");
        assert_eq!(server.metric("edge_server_ecn_connections_total{state=\"capable\"}"), 1);
        assert_eq!(server.log()[0]["ecn"], "capable", "{cc}");
    }
}

#[test]
fn l4s_fills_a_link_that_marks_early_and_loses_nothing() {
    for (cc, codepoint) in
        [("cubic", Codepoint::Ect1), ("reno", Codepoint::Ect1), ("bbr2", Codepoint::Ect0)]
    {
        let server = Server::start(&["--speedtest", "--cc", cc, "--ecn", "l4s"]);
        let step = Queue::Step { mark_above: Duration::from_millis(1) };
        let path = Path::new(40.0, RTT_MS, 10_000_000).with_queue(step);
        let mut client = server.client().over(&path).connect();
        fetch(&mut client, 12_000_000);
        let (_, down) = client.datagrams();
        end(&server, client);

        assert!(are_all(&down, codepoint), "{cc}");
        // Marks of L4S come every round trip.
        let marks = marked(&down).count();
        assert!(codepoint == Codepoint::Ect0 || marks > 20, "{cc}: {marks}");
        assert_eq!(server.metric("edge_server_packets_lost_total"), 0, "{cc}");
    }
}

#[test]
fn marks_on_a_clients_packets_are_reported_and_counted() {
    let server = Server::start(&["--speedtest"]);
    let path = narrow_path().with_queue(Queue::Step { mark_above: Duration::from_millis(5) });
    let mut client = server.client().over(&path).marking().connect();
    let upload = client.post("/upload", vec![7; 1_000_000], &[]);
    assert_eq!(client.response(upload).status(), "200");
    let (stats, (up, _)) = (client.ecn_stats(), client.datagrams());
    let marks = marked(&up).count() as u64;
    assert!(marks > 0);
    end(&server, client);
    assert_eq!(stats.reported.ce, marks);
    assert_eq!(server.metric("edge_server_packets_marked_ce_total{direction=\"received\"}"), marks);
}

// RFC 9959, 3.5: what loses a packet elsewhere marks one here.
#[test]
fn jump_into_a_marking_queue_retreats_within_a_round_trip() {
    for cc in ["cubic", "reno", "bbr2"] {
        let lab = Lab::new();
        lab.plant(SAVED);
        let server = lab.serve(&["--speedtest", "--cc", cc]);
        let path = narrow_path().with_queue(Queue::Step { mark_above: Duration::from_millis(20) });
        let mut client = server.client().over(&path).connect();
        let stream = client.request("GET", "/bytes/600000");
        server.wait_for_metric(RETREATS, |retreats| retreats == 1);
        let retreated = lab.now();
        let first_mark = marked(&client.datagrams().1).next().unwrap().at;
        // The packet waits for 20 ms and a little more.
        let round_trip = Duration::from_millis(RTT_MS + 25);
        assert!(retreated - first_mark < round_trip, "{cc}: {:?}", retreated - first_mark);
        assert_eq!(client.response(stream).body.len(), 600_000);
        let (_, down) = client.datagrams();
        end(&server, client);

        assert_eq!(server.metric(&format!("{RETREATS},trigger=\"ECN_CE\"}}")), 1, "{cc}");
        assert!(down.iter().all(|datagram| datagram.arrives), "{cc}");
        assert_eq!(server.metric("edge_server_packets_lost_total"), 0, "{cc}");
        assert_eq!(lab.held(), None, "{cc}: a retreat forgets");
        let mut next = server.client().over(&path).connect();
        fetch(&mut next, 600_000);
        end(&server, next);
        assert_eq!(lab.held(), None, "{cc}: the endpoint is held off");
    }
}

/// Time of a download from a server with saved parameters, from the client's first packet.
fn download_time(ecn: &str, path: &Path, state: &str) -> Duration {
    let lab = Lab::new();
    lab.plant(Saved::new(250_000, RTT_MS));
    let server = lab.serve(&["--speedtest", "--ecn", ecn]);
    let start = lab.now();
    let mut client = server.client().over(path).connect();
    fetch(&mut client, 600_000);
    let time = lab.now() - start;
    end(&server, client);
    let name = format!("edge_server_ecn_connections_total{{state=\"{state}\"}}");
    assert_eq!(server.metric(&name), 1, "{path:?}: {state}");
    assert_eq!(server.metric(RETREATS), 0, "{path:?}");
    assert!(lab.held().is_some(), "{path:?}: nothing is forgotten");
    time
}

/// A path of 250 kB.
fn wide_path() -> Path {
    Path::new(20.0, RTT_MS, 250_000)
}

#[test]
fn path_that_changes_marks_costs_nothing() {
    let without = download_time("off", &wide_path(), "off");
    for (handling, state) in [
        (EcnHandling::Pass, "capable"),
        (EcnHandling::Bleach, "failed"),
        (EcnHandling::RemarkEct1, "failed"),
        (EcnHandling::RemarkCe, "failed"),
    ] {
        let time = download_time("on", &wide_path().with_ecn(handling), state);
        let more = time.saturating_sub(without);
        assert!(more < Duration::from_millis(2), "{handling:?}: {time:?}, without {without:?}");
    }
}

// The first flight of the server is marked.
#[test]
fn path_that_drops_marked_packets_costs_the_first_flight() {
    let black_hole = wide_path().with_ecn(EcnHandling::BlackHole);
    let with = download_time("on", &black_hole, "unknown");
    let without = download_time("off", &wide_path().dropping("1-4"), "off");
    assert!(with < without + Duration::from_millis(2), "{with:?}, without {without:?}");
}

#[test]
fn ecn_off_marks_nothing() {
    let server = Server::start(&["--ecn", "off"]);
    let path = Path::default().with_queue(Queue::CoDel);
    let mut client = server.client().over(&path).marking().connect();
    assert_eq!(client.get("/").body, b"home");
    let (up, down) = client.datagrams();
    assert!(are_all(&up, Codepoint::Ect0) && are_all(&down, Codepoint::NotEct));
    assert_eq!(client.ecn_stats().state, Some(EcnState::Capable), "marks are reported");
    end(&server, client);
    assert_eq!(server.metric("edge_server_ecn_connections_total{state=\"off\"}"), 1);
}

#[test]
fn reload_switches_ecn_for_new_connections() {
    let server = Server::start(&[]);
    let mut old = server.connect();
    server.reload(&["--ecn", "off"]);
    let mut new = server.connect();
    for (client, expected) in [(&mut old, Codepoint::Ect0), (&mut new, Codepoint::NotEct)] {
        client.get("/");
        assert!(are_all(&client.datagrams().1, expected), "{expected:?}");
    }
}

// RFC 8511: more of the window is kept.
#[test]
fn alternative_backoff_keeps_more_of_the_window() {
    let time = |backoff: &str| {
        let args = ["--speedtest", "--cc", "reno", "--ecn-backoff", backoff];
        let server = Server::start(&args);
        let path = narrow_path().with_queue(Queue::Step { mark_above: Duration::from_millis(1) });
        let mut client = server.client().over(&path).connect();
        fetch(&mut client, 10_000_000);
        server.lab().now()
    };
    let (standard, alternative) = (time("standard"), time("alternative"));
    assert!(alternative < standard.mul_f64(0.95), "{alternative:?} {standard:?}");
}

// Nothing is known of the path of a client without a connection.
#[test]
fn packets_of_no_connection_are_not_marked() {
    let server = Server::start(&["--retry-above", "0"]);
    let client = server.connect();
    let (_, down) = client.datagrams();
    let retries = server.metric("edge_server_retries_total") as usize;
    assert!(retries > 0 && are_all(&down[..retries], Codepoint::NotEct));
    assert!(are_all(&down[retries..], Codepoint::Ect0));
}
