//! Careful Resume end to end: which phases and triggers the server's qlog tells
//! when a path is, or is no longer, what the saved set says.
//!
//! No outcome depends on how fast the machine is, as long as no process stands
//! still for tens of milliseconds at the one moment that matters: round trips
//! are long, ratios generous, and slow paths keep ACKs apart.

use std::thread::sleep;
use std::time::Duration;

use crate::support::client::Client;
use crate::support::client::Limits;
use crate::support::jump::Jump;
use crate::support::lab::emulate;
use crate::support::lab::fetch;
use crate::support::lab::Lab;
use crate::support::lab::PhaseChange;
use crate::support::lab::Planted;
use crate::support::metrics;
use crate::support::windows::Windows;

/// A path that holds 250 kB, and the set that says so.
const PATH: &str = "--rate 20 --rtt 100 --buffer 250000";
const SET: Planted = Planted::new(250_000, 100);

/// Some round trips more than a jump takes.
const OBJECT_BYTES: u64 = 600_000;

/// The phase begins when a saved set is given to the connection.
const GIVEN: &str = "reconnaissance";
const JUMP: &str = "unvalidated: congestion_window_limited";

/// Whichever comes first: the jump is paced over one round trip, so that its
/// last packet leaves when the first one's ACK comes.
const JUMPED: [&str; 3] = [
    "validating: last_unvalidated_packet_sent",
    "validating: first_unvalidated_packet_acknowledged",
    "validating: rtt_exceeded",
];
const CONFIRMED: &str = "normal: last_unvalidated_packet_acknowledged";
const RETREAT: &str = "safe_retreat: packet_loss";
const SLOW_START: &str = "normal: no_saved_set";

fn whats(phases: &[PhaseChange]) -> Vec<&str> {
    phases.iter().map(|change| change.what.as_str()).collect()
}

/// The path took the jump.
#[track_caller]
fn assert_clean(phases: &[PhaseChange]) {
    let whats = whats(phases);
    let [GIVEN, JUMP, jumped, CONFIRMED] = whats[..] else { panic!("{whats:?}") };
    assert!(JUMPED.contains(&jumped), "{whats:?}");
}

/// RFC 9959, 3.3: half of the saved window.
#[test]
fn a_path_that_is_as_saved_takes_the_jump() {
    for cc in ["cubic", "reno"] {
        let lab = Lab::new();
        lab.plant(SET);
        let (mut server, address) = lab.serve("run", &["--cc", cc]);
        let mut emulator = emulate(address, PATH);
        assert!(fetch(emulator.address(), OBJECT_BYTES).end().0.success());
        assert!(server.stop().success());
        let phases = lab.phases("run");
        assert_clean(&phases);
        // Less where a busy machine makes the RTT longer.
        let half = SET.saved_cwnd_bytes / 2;
        let jump = phases[1].cwnd_bytes;
        assert!((half * 3 / 4..=half).contains(&jump), "{cc}: {jump}");
        assert!(lab.held().is_some_and(|held| held.validated), "{cc}");
    }
}

// RFC 9959, 3.3 and 5.
#[test]
fn a_jump_is_to_max_jump_at_most() {
    for (max_jump, jump) in [("12000000", 12_000_000), ("16000000", 15_000_000)] {
        let lab = Lab::new();
        lab.plant(Planted::new(30_000_000, 100));
        let phases = lab.download_from("run", &["--max-jump", max_jump], PATH, OBJECT_BYTES);
        assert_eq!(whats(&phases[..2]), [GIVEN, JUMP], "{max_jump}");
        assert_eq!(phases[1].cwnd_bytes, jump, "{max_jump}");
    }
}

#[test]
fn max_jump_is_counted_as_what_ended_the_jump() {
    for (max_jump, limit) in [("50000", "max_jump"), ("125001", "saved_cwnd")] {
        let lab = Lab::new();
        lab.plant(SET);
        let args = ["--metrics", "127.0.0.1:0", "--max-jump", max_jump];
        let (mut server, address) = lab.serve("run", &args);
        let metrics_at = server.metrics_address();
        let mut emulator = emulate(address, PATH);
        assert!(fetch(emulator.address(), OBJECT_BYTES).end().0.success());
        let name = format!("edge_server_resume_jump_limits_total{{limit=\"{limit}\"}}");
        assert_eq!(metrics::read(metrics_at, &name), 1, "{max_jump}");
    }
}

// RFC 9959, 4.3.1: more than the largest jump uses is of no use.
#[test]
fn what_is_saved_is_twice_max_jump_at_most_and_lives_as_long_as_told() {
    let lab = Lab::new();
    let args = ["--max-jump", "50000", "--path-lifetime", "90"];
    lab.download_from("run", &args, PATH, 4 * OBJECT_BYTES);
    let held = lab.held().expect("a set");
    assert_eq!(held.saved_cwnd, 100_000);
    assert_eq!(held.expires, held.observed + Duration::from_secs(90));
}

// RFC 9959, 3.3. How exactly, is measured by the bench `jump_pacing`: here, that
// neither a burst nor a trickle is what half of the eighths of a round trip see.
#[test]
fn a_jump_is_spread_over_its_round_trip() {
    let lab = Lab::new();
    lab.plant(SET);
    let trace = lab.file("trace.csv");
    lab.download("run", &format!("{PATH} --trace {}", trace.display()), OBJECT_BYTES);
    let trace = std::fs::read_to_string(trace).unwrap();
    let jump = Jump::new(&lab.qlog("run"), &trace).unwrap();
    let windows = Windows::new(&jump.packets, jump.rtt_ns / 8, jump.jump_cwnd / 8).unwrap();
    let [_, median, _] = windows.shares();
    assert!((0.5..1.5).contains(&median), "{:?}, {}", windows.shares(), windows.bursts());
}

// RFC 9002, 6.2.2: the default has the server send its handshake again after a second,
// when no answer can have come. What a neighbour saw who is closer changes nothing.
#[test]
fn a_saved_rtt_spares_a_long_path_probes_of_the_handshake() {
    for (saved_rtt_ms, is_repeated) in [(1200, false), (100, true)] {
        let lab = Lab::new();
        lab.plant(Planted::new(250_000, saved_rtt_ms));
        let (mut server, address) = lab.serve("run", &["--metrics", "127.0.0.1:0"]);
        let metrics_at = server.metrics_address();
        let mut emulator = emulate(address, "--rate 20 --rtt 1200 --buffer 250000");
        assert!(fetch(emulator.address(), 5000).end().0.success());
        metrics::wait_until(metrics_at, "edge_server_connections_open", |open| open == 0);
        let repeated = metrics::read(metrics_at, "edge_server_packets_retransmitted_total");
        assert_eq!(repeated > 0, is_repeated, "{saved_rtt_ms}: {repeated}");
    }
}

/// A set that the path does not match, and how the connection says so.
struct Refusal {
    set: Planted,
    path: &'static str,
    expected: &'static [&'static str],
}

// RFC 9959, 3.2 and 4.2.1. The link is never faster than its RTT, but a machine
// under load is slower: the lower bound's cases leave room for that.
const RTT_TABLE: [Refusal; 3] = [
    // Not half of the saved RTT, by at most what packets take to transmit.
    Refusal { set: Planted::new(250_000, 200), path: PATH, expected: &[GIVEN, JUMP] },
    // Half, or somewhat more when processes wait for the processor.
    Refusal {
        set: Planted::new(250_000, 250),
        path: PATH,
        expected: &[GIVEN, "normal: rtt_not_validated"],
    },
    // Twelve times as long.
    Refusal {
        set: Planted::new(250_000, 10),
        path: "--rate 20 --rtt 120 --buffer 250000",
        expected: &[GIVEN, "normal: rtt_not_validated"],
    },
];

#[test]
fn the_rtt_must_be_above_half_the_saved_one_and_at_most_ten_times_it() {
    for Refusal { set, path, expected } in RTT_TABLE {
        let lab = Lab::new();
        lab.plant(set);
        let phases = lab.download("run", path, OBJECT_BYTES);
        let begin = whats(&phases).into_iter().take(expected.len());
        assert_eq!(begin.collect::<Vec<_>>(), expected, "{set:?}");
        assert!(lab.held().is_some(), "only retreat and expiry delete a set");
    }
}

// RFC 9959, 4.2: the operator knows of paths that do not bear it.
#[test]
fn clients_of_a_subnet_that_is_excepted_neither_resume_nor_teach() {
    let lab = Lab::new();
    lab.plant(SET);
    let before = lab.held();
    for (run, subnet, resumes) in [("own", "127.0.0.0/24", false), ("other", "10.0.0.0/8", true)] {
        let (mut server, address) = lab.serve(run, &["--resume-except", subnet]);
        let mut emulator = emulate(address, PATH);
        assert!(fetch(emulator.address(), OBJECT_BYTES).end().0.success());
        assert!(server.stop().success());
        let phases = lab.phases(run);
        let expected = if resumes { GIVEN } else { SLOW_START };
        assert_eq!(whats(&phases)[0], expected, "{run}");
        assert_eq!(lab.held() != before, resumes, "{run}");
    }
}

// RFC 9959, 3.3 and 3.5.
#[test]
fn a_path_with_a_quarter_of_the_capacity_makes_the_server_retreat_and_forget() {
    let lab = Lab::new();
    // The jump is twice what the path carries in the round trip it is paced over.
    lab.plant(Planted::new(500_000, 100));
    let narrow = "--rate 10 --rtt 100 --buffer 30000";
    let phases = lab.download("run", narrow, OBJECT_BYTES);
    let (first, end) = phases.split_at(phases.len() - 2);
    assert_eq!(whats(&first[..2]), [GIVEN, JUMP]);
    // The loss may be noticed before or after the jump is out.
    assert!(first[2..].iter().all(|change| JUMPED.contains(&&*change.what)), "{first:?}");
    assert_eq!(whats(end), [RETREAT, "normal: exit_recovery"]);
    assert!(end[0].cwnd_bytes <= 125_000, "{end:?}");

    assert_eq!(lab.held(), None);
    let listed = lab.path_store(&["list", "--json"]);
    assert!(listed.contains(r#""saved_cwnd":null"#), "{listed}");
    let next = lab.download("next", narrow, OBJECT_BYTES);
    assert_eq!(whats(&next), [SLOW_START]);
    assert_eq!(lab.held(), None, "the endpoint is held off");
}

// RFC 9959, 3.2; the set stays, as only retreat and expiry delete it.
#[test]
fn a_loss_in_reconnaissance_ends_it_and_the_set_stays() {
    let lab = Lab::new();
    lab.plant(SET);
    // The handshake takes 2 or 3 datagrams, the initial window the 10 after.
    let lossy = format!("{PATH} --drop down:8");
    let phases = lab.download("run", &lossy, OBJECT_BYTES);
    assert_eq!(whats(&phases), [GIVEN, "normal: packet_loss"]);
    assert!(lab.held().is_some());
    // Neither is it claimed any more.
    assert_clean(&lab.download("next", PATH, OBJECT_BYTES));
}

// RFC 9959, 3.3: more than the initial window, less than the jump needs.
#[test]
fn an_object_that_the_path_has_carried_already_is_rate_limited() {
    let lab = Lab::new();
    lab.plant(SET);
    // Slow start carries 30 packets until the initial window is acknowledged.
    // At 10 ms a packet, their ACKs come one by one.
    let slow = "--rate 1 --rtt 100 --buffer 250000";
    let phases = lab.download("run", slow, 46_000);
    assert_eq!(whats(&phases), [GIVEN, JUMP, "normal: rate_limited"]);
    assert_eq!(lab.held().map(|held| held.saved_cwnd), Some(SET.saved_cwnd_bytes));
}

// RFC 9959, 3.3 and 4.7: what is in flight becomes the window, as the client
// takes no more; and such a connection does not lower what is saved.
#[test]
fn a_client_window_smaller_than_the_jump_ends_it_early() {
    let lab = Lab::new();
    lab.plant(Planted::new(600_000, 100));
    let (mut server, address) = lab.serve("run", &[]);
    let mut emulator = emulate(address, "--rate 40 --rtt 100 --buffer 500000");
    let limits = Limits { window_bytes: 110_000, ..Limits::default() };
    let mut client = Client::connect_with(emulator.address(), limits);
    // The headers of the second response have to wait as well.
    let streams = [client.request("GET", "/bytes/400000"), client.request("GET", "/bytes/100000")];
    let bytes: usize = streams.iter().map(|stream| client.response(*stream).body.len()).sum();
    assert_eq!(bytes, 500_000);
    drop(client);
    assert!(server.stop().success());

    let phases = lab.phases("run");
    assert_clean(&phases);
    assert_eq!(phases[1].cwnd_bytes, 300_000);
    assert!(phases[2].cwnd_bytes < 150_000, "{phases:?}");
    assert_eq!(lab.held().map(|held| held.saved_cwnd), Some(600_000));
    // 500 kB are 380 packets; that the window is closed needs to be told once.
    let sent_packets = lab.sent_packets("run");
    assert!(sent_packets < 700, "{sent_packets}");
}

// RFC 9959, 3.2: it is not used, and it is deleted.
#[test]
fn an_expired_set_is_not_used_and_goes() {
    let lab = Lab::new();
    lab.plant(Planted { lives: Duration::ZERO, ..SET });
    let phases = lab.download("run", PATH, OBJECT_BYTES);
    assert_eq!(whats(&phases), [SLOW_START]);
    // What is held now was learnt by this connection, if anything.
    assert!(lab.held().is_none_or(|held| held.observed > quiche::clock::wall_now() - HALF_HOUR));
}

const HALF_HOUR: Duration = Duration::from_secs(1800);

/// A connection that was given its set, and whose client falls silent until
/// `silence` after the initial window is out: how it goes on. HyStart++ would
/// take the silence for a queue, and be the first to end Careful Resume.
fn after_silence(set: Planted, silence: Duration) -> Vec<PhaseChange> {
    let lab = Lab::new();
    let (mut server, address) = lab.serve("run", &["--slow-start-exit", "none"]);
    // Its life is for the connection, not for the start of a process.
    lab.plant(set);
    let mut client = Client::connect(address);
    let stream = client.request("GET", "/bytes/300000");
    // Returns before it has acknowledged what it waited for.
    client.receive(stream, 1);
    server.wait_for(": resumes from ");
    sleep(silence);
    assert_eq!(client.response(stream).body.len(), 300_000);
    drop(client);
    assert!(server.stop().success());
    lab.phases("run")
}

// RFC 9959, 3.2.
#[test]
fn a_set_that_expires_before_the_jump_is_not_used() {
    let life = Duration::from_secs(6);
    let phases = after_silence(Planted { lives: life, ..SET }, life);
    assert_eq!(whats(&phases), [GIVEN, "normal: lifetime_passed"]);
}

// RFC 9959, 3.2: another connection may have begun to use it. A set with so
// short an RTT is claimed for one second, and used in the first half of it.
#[test]
fn a_claim_that_may_lapse_before_the_jump_is_over_is_not_used() {
    let phases = after_silence(SET, Duration::from_secs(1));
    assert_eq!(whats(&phases), [GIVEN, "normal: claim_lapsed"]);
}

// RFC 9959, 3.2 and 4.2: also when the connections are of different processes.
#[test]
fn of_two_connections_in_two_servers_with_one_store_one_jumps() {
    let lab = Lab::new();
    // The claim lasts 1.6 s. The first connection holds it for its three round
    // trips, the second asks for it after two of its shorter ones.
    lab.plant(Planted::new(250_000, 200));
    let (mut one, one_at) = lab.serve("one", &[]);
    let (mut other, other_at) = lab.serve("other", &[]);
    let mut long = emulate(one_at, "--rate 20 --rtt 400 --buffer 1000000");
    let mut short = emulate(other_at, "--rate 20 --rtt 110 --buffer 250000");
    let paths = [long.address(), short.address()];

    let mut first = fetch(paths[0], OBJECT_BYTES);
    one.wait_for(": resumes from ");
    let mut second = fetch(paths[1], OBJECT_BYTES);
    assert!(first.end().0.success());
    assert!(second.end().0.success());
    assert!(one.stop().success());
    assert!(other.stop().success());
    assert_clean(&lab.phases("one"));
    assert_eq!(whats(&lab.phases("other")), [SLOW_START]);
}
