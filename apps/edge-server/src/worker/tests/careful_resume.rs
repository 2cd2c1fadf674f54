//! Careful Resume end to end: which phases and triggers a server's qlog tells when a path
//! is, or is no longer, what the saved parameters say.

use std::time::Duration;

use quiche::path_state::PathState;

use super::client::Client;
use super::client::ClientLimits;
use super::harness::Lab;
use super::harness::Saved;
use super::harness::Server;
use super::path::Path;
use super::qlog::events;
use super::qlog::only_qlog;
use super::qlog::phases;
use super::qlog::PhaseChange;
use super::windows::Packet;
use super::windows::Windows;

/// What a path holds that is as [`path()`].
const SAVED: Saved = Saved::new(250_000, 100);

/// Some round trips more than a jump takes.
const OBJECT_BYTES: u64 = 600_000;

/// Many times what the path holds: the whole of it is seen.
const LONG_BYTES: u64 = 6_000_000;

/// The phase begins when saved parameters are given to the connection.
const GIVEN: &str = "reconnaissance";
const JUMP: &str = "unvalidated: congestion_window_limited";

/// Whichever comes first: the jump is paced over one round trip, so that its last packet
/// leaves when the first one's ACK comes.
const JUMPED: [&str; 3] = [
    "validating: last_unvalidated_packet_sent",
    "validating: first_unvalidated_packet_acknowledged",
    "validating: rtt_exceeded",
];
const CONFIRMED: &str = "normal: last_unvalidated_packet_acknowledged";
const RETREAT: &str = "safe_retreat: packet_loss";
const SLOW_START: &str = "normal: no_saved_set";

fn path() -> Path {
    Path::new(20.0, 100, 250_000)
}

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

fn has_jumped(phases: &[PhaseChange]) -> bool {
    whats(phases).contains(&JUMP)
}

/// A server for one connection, which keeps its qlog.
struct QlogServer {
    server: Server,
    qlogs: String,
}

impl QlogServer {
    fn new(lab: &Lab, args: &[&str]) -> Self {
        let qlogs = format!("qlogs-{}", lab.servers());
        let dir = format!("DIR/{qlogs}");
        let server = lab.serve(&[&["--speedtest", "--qlog-dir", &dir], args].concat());
        Self { server, qlogs }
    }

    /// Ends the server. Returns the qlog of its only connection.
    fn qlog(&self) -> String {
        self.server.stop();
        self.server.end();
        only_qlog(self.server.lab(), &self.qlogs)
    }

    fn phases(&self) -> Vec<PhaseChange> {
        phases(&self.qlog())
    }
}

#[track_caller]
fn fetch(client: &mut Client, bytes: u64) {
    assert_eq!(client.get(&format!("/bytes/{bytes}")).body.len() as u64, bytes);
}

/// A server's life for one download over a path. Returns what Careful Resume did.
#[track_caller]
fn download_from(lab: &Lab, args: &[&str], path: &Path, bytes: u64) -> Vec<PhaseChange> {
    let run = QlogServer::new(lab, args);
    let mut client = run.server.client().over(path).connect();
    fetch(&mut client, bytes);
    client.close();
    run.phases()
}

#[track_caller]
fn download(lab: &Lab, path: &Path, bytes: u64) -> Vec<PhaseChange> {
    download_from(lab, &[], path, bytes)
}

fn lab_with(saved: Saved) -> Lab {
    let lab = Lab::new();
    lab.plant(saved);
    lab
}

// RFC 9959, 3.3: half of the saved window.
#[test]
fn jump_over_a_path_as_saved_is_clean() {
    for cc in ["cubic", "reno", "bbr2"] {
        let lab = lab_with(SAVED);
        let phases = download_from(&lab, &["--cc", cc], &path(), OBJECT_BYTES);
        assert_clean(&phases);
        assert_eq!(phases[1].cwnd_bytes, SAVED.cwnd_bytes / 2, "{cc}");
        assert!(lab.held().is_some_and(|held| held.validated), "{cc}");
    }
}

// RFC 9959, 3.2: a page's first response is small, and no reason to claim.
#[test]
fn jump_follows_a_small_document() {
    for document in [8_000, 14_000, 20_000, 26_000] {
        let lab = lab_with(SAVED);
        let run = QlogServer::new(&lab, &[]);
        let mut client = run.server.client().over(&path()).connect();
        fetch(&mut client, document);
        fetch(&mut client, OBJECT_BYTES);
        client.close();
        assert_clean(&run.phases());
    }
}

// The initial window leaves before the handshake is complete, and is acknowledged with it.
#[test]
fn jump_after_early_data_comes_one_round_trip_earlier() {
    let jump_ms = |early: bool| {
        let lab = lab_with(SAVED);
        lab.write("secrets", "5e".repeat(32));
        let args = ["--early-data", "on", "--secrets", "DIR/secrets"];
        let before = lab.serve(&[&["--speedtest"], &args[..]].concat());
        let memory = before.client().over(&path()).connect().resumption_data();
        let run = QlogServer::new(&lab, &args);
        let client = run.server.client().over(&path()).with(&memory);
        let mut client = if early { client.connect_early() } else { client.connect() };
        fetch(&mut client, OBJECT_BYTES);
        client.close();
        let qlog = run.qlog();
        assert_clean(&phases(&qlog));
        let jump = events(&qlog).find(|event| event["data"]["new"] == "unvalidated");
        jump.unwrap()["time"].as_f64().unwrap()
    };
    let (early, late) = (jump_ms(true), jump_ms(false));
    assert!(early > 95.0 && early < 120.0 && late > 195.0, "{early} {late}");
}

// An experiment: RFC 9959, 3.2 waits for the initial window's ACKs.
#[test]
fn early_jump_to_a_quarter_follows_the_handshake() {
    for cc in ["cubic", "reno", "bbr2"] {
        let lab = lab_with(SAVED);
        let run = QlogServer::new(&lab, &["--early-jump", "on", "--cc", cc]);
        let mut client = run.server.client().over(&path()).connect();
        fetch(&mut client, OBJECT_BYTES);
        client.close();
        let qlog = run.qlog();
        let phases = phases(&qlog);
        assert_eq!(whats(&phases[..2]), [GIVEN, "unvalidated: handshake_acknowledged"], "{cc}");
        assert!(JUMPED.contains(&whats(&phases)[2]), "{cc} {phases:?}");
        assert_eq!(whats(&phases[3..]), [CONFIRMED], "{cc}");
        assert_eq!(phases[1].cwnd_bytes, SAVED.cwnd_bytes / 4, "{cc}");
        let jump = events(&qlog).find(|event| event["data"]["new"] == "unvalidated").unwrap();
        assert!(jump["time"].as_f64().unwrap() < 120.0, "{cc} {jump}");
    }
}

// RFC 9959, 3.3 and 5.
#[test]
fn jump_is_to_max_jump_at_most() {
    for (max_jump, jump) in [("12000000", 12_000_000), ("16000000", 15_000_000)] {
        let lab = lab_with(Saved::new(30_000_000, 100));
        let phases = download_from(&lab, &["--max-jump", max_jump], &path(), OBJECT_BYTES);
        assert_eq!(whats(&phases[..2]), [GIVEN, JUMP], "{max_jump}");
        assert_eq!(phases[1].cwnd_bytes, jump, "{max_jump}");
    }
}

#[test]
fn jump_limit_is_counted_by_what_it_was() {
    for (max_jump, limit) in [("50000", "max_jump"), ("125001", "saved_cwnd")] {
        let lab = lab_with(SAVED);
        let server = lab.serve(&["--speedtest", "--max-jump", max_jump]);
        fetch(&mut server.client().over(&path()).connect(), OBJECT_BYTES);
        let name = format!("edge_server_resume_jump_limits_total{{limit=\"{limit}\"}}");
        assert_eq!(server.metric(&name), 1, "{max_jump}");
    }
}

// RFC 9959, 4.3.1: more than the largest jump uses is of no use.
#[test]
fn saved_parameters_are_bounded_by_options() {
    let lab = Lab::new();
    let args = ["--max-jump", "50000", "--path-lifetime", "90"];
    download_from(&lab, &args, &path(), 4 * OBJECT_BYTES);
    let held = lab.held().expect("saved parameters");
    assert_eq!(held.saved_cwnd, 100_000);
    assert_eq!(held.expires, held.observed + Duration::from_secs(90));
}

// RFC 9959, 3.3. On a real machine the bench `jump_pacing` measures it.
#[test]
fn jump_is_spread_over_its_round_trip() {
    const PARTS: u64 = 8;
    let lab = lab_with(SAVED);
    let run = QlogServer::new(&lab, &[]);
    fetch(&mut run.server.client().over(&path()).connect(), OBJECT_BYTES);
    let qlog = run.qlog();
    let jump = phases(&qlog)[2].clone();
    let of_jump = jump.first_unvalidated..=jump.last_unvalidated;
    let packets: Vec<_> = events(&qlog)
        .filter(|event| event["name"] == "quic:packet_sent")
        .filter(|event| event["data"]["header"]["packet_type"] == "1RTT")
        .filter(|event| {
            let number = event["data"]["header"]["packet_number"].as_u64();
            number.is_some_and(|number| of_jump.contains(&number))
        })
        .map(|event| Packet {
            time_ns: (event["time"].as_f64().unwrap() * 1e6) as u64,
            bytes: event["data"]["raw"]["length"].as_u64().unwrap(),
        })
        .collect();
    let part_ns = SAVED.rtt_ms * 1_000_000 / PARTS;
    let windows = Windows::new(&packets, part_ns, SAVED.cwnd_bytes / 2 / PARTS).unwrap();
    let [min, _, max] = windows.shares();
    // A packet more or less.
    assert!(min > 0.85 && max < 1.15, "{min} to {max}: {}", windows.bursts());
}

// RFC 9002, 6.2.2: the default has the server send its handshake again after a second,
// when no answer can have come. What a neighbour saw who is closer changes nothing.
#[test]
fn saved_rtt_spares_a_long_path_handshake_probes() {
    for (saved_rtt_ms, is_repeated) in [(1200, false), (100, true)] {
        let lab = lab_with(Saved::new(250_000, saved_rtt_ms));
        let server = lab.serve(&["--speedtest"]);
        let mut client = server.client().over(&Path::new(20.0, 1200, 250_000)).connect();
        fetch(&mut client, 5000);
        client.close();
        server.wait_for_metric("edge_server_connections_open", |open| open == 0);
        let repeated = server.metric("edge_server_packets_retransmitted_total");
        assert_eq!(repeated > 0, is_repeated, "{saved_rtt_ms}: {repeated}");
    }
}

// RFC 9959, 3.2 and 4.2.1.
#[test]
fn saved_rtt_has_to_be_near_the_paths() {
    for (saved_rtt_ms, rtt_ms, expected) in [
        // Not half of the saved RTT, by at most what packets take to transmit.
        (200, 100, JUMP),
        // Less than half.
        (250, 100, "normal: rtt_not_validated"),
        // Twelve times as long.
        (10, 120, "normal: rtt_not_validated"),
    ] {
        let lab = lab_with(Saved::new(250_000, saved_rtt_ms));
        let phases = download(&lab, &Path::new(20.0, rtt_ms, 250_000), OBJECT_BYTES);
        assert_eq!(whats(&phases[..2]), [GIVEN, expected], "{saved_rtt_ms} {rtt_ms}");
        assert!(lab.held().is_some(), "only retreat and expiry delete them");
    }
}

// RFC 9959, 4.2: the operator knows of paths that do not bear it.
#[test]
fn resume_except_leaves_its_subnet_alone() {
    let lab = lab_with(SAVED);
    let before = lab.held();
    for (subnet, resumes) in [("198.51.100.0/24", false), ("10.0.0.0/8", true)] {
        let phases = download_from(&lab, &["--resume-except", subnet], &path(), OBJECT_BYTES);
        assert_eq!(whats(&phases)[0], if resumes { GIVEN } else { SLOW_START }, "{subnet}");
        assert_eq!(lab.held() != before, resumes, "{subnet}");
    }
}

// RFC 9959, 3.3 and 3.5.
#[test]
fn jump_over_a_narrower_path_retreats_and_forgets() {
    // The jump is twice what the path carries in the round trip it is paced over.
    let lab = lab_with(Saved::new(500_000, 100));
    let narrow = Path::new(10.0, 100, 30_000);
    let phases = download(&lab, &narrow, OBJECT_BYTES);
    let (first, end) = phases.split_at(phases.len() - 2);
    assert_eq!(whats(&first[..2]), [GIVEN, JUMP]);
    // The loss may be noticed before or after the jump is out.
    assert!(first[2..].iter().all(|change| JUMPED.contains(&&*change.what)), "{first:?}");
    assert_eq!(whats(end), [RETREAT, "normal: exit_recovery"]);
    assert!(end[0].cwnd_bytes <= 125_000, "{end:?}");

    assert_eq!(lab.held(), None);
    assert_eq!(whats(&download(&lab, &narrow, OBJECT_BYTES)), [SLOW_START]);
    assert_eq!(lab.held(), None, "the endpoint is held off");
}

// RFC 9959, 3.2; the parameters stay, as only retreat and expiry delete them.
#[test]
fn reconnaissance_with_a_loss_keeps_what_is_saved() {
    let lab = lab_with(SAVED);
    // The handshake takes 2 or 3 datagrams, the initial window the 10 after.
    let phases = download(&lab, &path().dropping("8"), OBJECT_BYTES);
    assert_eq!(whats(&phases), [GIVEN, "normal: packet_loss"]);
    assert!(lab.held().is_some());
    // Neither is it claimed any more.
    assert_clean(&download(&lab, &path(), OBJECT_BYTES));
}

// RFC 9959, 3.3: more than the initial window, less than the jump needs.
#[test]
fn jump_for_what_the_path_has_carried_is_rate_limited() {
    let lab = lab_with(SAVED);
    // Slow start carries 30 packets until the initial window is acknowledged. At 10 ms a
    // packet, their ACKs come one by one.
    let phases = download(&lab, &Path::new(1.0, 100, 250_000), 46_000);
    assert_eq!(whats(&phases), [GIVEN, JUMP, "normal: rate_limited"]);
    assert_eq!(lab.held().map(|held| held.saved_cwnd), Some(SAVED.cwnd_bytes));
}

// RFC 9959, 3.3 and 4.7: what is in flight becomes the window, as the client takes no more;
// and such a connection does not lower what is saved.
#[test]
fn jump_beyond_the_clients_window_ends_early() {
    let lab = lab_with(Saved::new(600_000, 100));
    let run = QlogServer::new(&lab, &[]);
    let limits = ClientLimits { window_bytes: 110_000, ..ClientLimits::default() };
    let path = Path::new(40.0, 100, 500_000);
    let mut client = run.server.client().over(&path).granting(limits).connect();
    // The headers of the second response have to wait as well.
    let streams = [client.request("GET", "/bytes/400000"), client.request("GET", "/bytes/100000")];
    let bytes: usize = streams.iter().map(|stream| client.response(*stream).body.len()).sum();
    assert_eq!(bytes, 500_000);
    let (_, sent) = client.datagrams();

    let phases = run.phases();
    assert_clean(&phases);
    assert_eq!(phases[1].cwnd_bytes, 300_000);
    assert!(phases[2].cwnd_bytes < 150_000, "{phases:?}");
    assert_eq!(lab.held().map(|held| held.saved_cwnd), Some(600_000));
    // 500 kB are 380 packets; that the window is closed needs to be told once.
    assert!(sent.len() < 500, "{}", sent.len());
}

// RFC 9959, 3.2: it is not used, and it is deleted.
#[test]
fn saved_parameters_that_expired_are_not_used() {
    let lab = lab_with(Saved { lives: Duration::ZERO, ..SAVED });
    let planted = quiche::clock::wall_now();
    assert_eq!(whats(&download(&lab, &path(), OBJECT_BYTES)), [SLOW_START]);
    // What is held now, if anything, was observed by this connection.
    assert!(lab.held().is_none_or(|held| held.observed > planted));
}

/// A connection that was given saved parameters, and whose client falls silent for so long
/// after the initial window is out: how it goes on. HyStart++ would take the silence for a
/// queue, and be the first to end Careful Resume.
fn after_silence(saved: Saved, silence: Duration) -> Vec<PhaseChange> {
    let lab = lab_with(saved);
    let run = QlogServer::new(&lab, &["--slow-start-exit", "none"]);
    let mut client = run.server.connect();
    let stream = client.request("GET", "/bytes/300000");
    run.server.wait_for_metric("path_store_claims_granted_total", |granted| granted == 1);
    client.fall_silent();
    lab.advance(silence);
    client.wake_up();
    assert_eq!(client.response(stream).body.len(), 300_000);
    client.close();
    run.phases()
}

// RFC 9959, 3.2.
#[test]
fn saved_parameters_expire_before_the_jump() {
    let life = Duration::from_secs(6);
    let phases = after_silence(Saved { lives: life, ..Saved::new(250_000, 10) }, life);
    assert_eq!(whats(&phases), [GIVEN, "normal: lifetime_passed"]);
}

// RFC 9959, 3.2: another connection may have begun to use them. Parameters with so short an
// RTT are claimed for one second, and used in the first half of it.
#[test]
fn claim_that_may_lapse_before_the_jump_is_not_used() {
    let phases = after_silence(Saved::new(250_000, 10), Duration::from_secs(1));
    assert_eq!(whats(&phases), [GIVEN, "normal: claim_lapsed"]);
}

// RFC 9959, 3.2 and 4.2: also when the connections are of different servers.
#[test]
fn claim_is_held_by_one_connection_at_a_time() {
    // The claim lasts 1.6 s. The first connection holds it for its three round trips, the
    // second asks for it after two of its shorter ones.
    let lab = lab_with(Saved::new(250_000, 200));
    let [one, other] = [(); 2].map(|()| QlogServer::new(&lab, &[]));
    let mut first = one.server.client().over(&Path::new(20.0, 400, 1_000_000)).connect();
    let of_first = first.request("GET", &format!("/bytes/{OBJECT_BYTES}"));
    one.server.wait_for_metric("path_store_claims_granted_total", |granted| granted == 1);
    let mut second = other.server.client().over(&Path::new(20.0, 110, 250_000)).connect();
    fetch(&mut second, OBJECT_BYTES);
    assert_eq!(first.response(of_first).body.len() as u64, OBJECT_BYTES);
    assert_clean(&one.phases());
    assert_eq!(whats(&other.phases()), [SLOW_START]);
}

#[test]
fn claim_goes_back_when_its_client_asks_no_more() {
    let lab = lab_with(SAVED);
    let server = lab.serve(&["--speedtest"]);
    let mut stays = server.client().over(&path()).connect();
    fetch(&mut stays, OBJECT_BYTES);
    lab.advance(Duration::from_secs(1));
    fetch(&mut server.client().over(&path()).connect(), OBJECT_BYTES);
    assert_eq!(server.metric(JUMPS), 2);
}

const JUMPS: &str = "edge_server_resume_phases_total{phase=\"unvalidated\"";
const RETREATS: &str = "edge_server_resume_phases_total{phase=\"safe_retreat\"";

#[test]
fn observation_of_one_server_serves_the_next() {
    let lab = Lab::new();
    assert_eq!(whats(&download(&lab, &path(), LONG_BYTES)), [SLOW_START]);
    assert_clean(&download(&lab, &path(), OBJECT_BYTES));
    // The claim went back: the next connection gets the parameters at once.
    assert_clean(&download_from(&lab, &["--cc", "reno"], &path(), OBJECT_BYTES));
}

#[test]
fn observation_is_kept_when_the_server_stops() {
    let lab = Lab::new();
    let server = lab.serve(&["--speedtest"]);
    let mut client = server.client().over(&path()).connect();
    let stream = client.request("GET", "/bytes/60000000");
    client.receive(stream, LONG_BYTES as usize);
    server.stop();
    server.end();
    assert!(has_jumped(&download(&lab, &path(), OBJECT_BYTES)));
}

// RFC 9959, 3.5: after a safe retreat the saved parameters are deleted.
#[test]
fn loss_in_the_jump_has_the_path_forgotten() {
    let lab = Lab::new();
    download(&lab, &path(), LONG_BYTES);
    let lossy = download(&lab, &path().dropping("50-54"), OBJECT_BYTES);
    assert!(whats(&lossy).contains(&RETREAT), "{lossy:?}");
    assert_eq!(whats(&download(&lab, &path(), OBJECT_BYTES)), [SLOW_START]);
}

#[test]
fn resume_off_tells_no_phases() {
    let lab = lab_with(SAVED);
    let phases = download_from(&lab, &["--resume", "off"], &path(), OBJECT_BYTES);
    assert!(phases.is_empty(), "{phases:?}");
}

#[test]
fn response_within_the_initial_window_claims_nothing() {
    let lab = lab_with(SAVED);
    let server = lab.serve(&["--speedtest"]);
    fetch(&mut server.client().over(&path()).connect(), 1000);
    assert_eq!(server.metric("path_store_claims_total"), 0);
}

// RFC 9959, 2.2: what is saved is about one remote endpoint.
#[test]
fn observation_ends_when_the_client_changes_subnet() {
    let lab = Lab::new();
    let server = lab.serve(&["--speedtest"]);
    let mut client = server.client().over(&Path::new(50.0, 40, 250_000)).connect();
    let stream = client.request("GET", "/bytes/60000000");
    client.receive(stream, 10_000_000);
    client.rebind([203, 0, 113, 1]);
    let received = client.received_bytes(stream);
    client.receive(stream, received + 1_000_000);
    let (held, records) = (lab.held(), server.metric("path_store_records_total"));
    assert!(held.is_some(), "nothing was recorded before");
    // Later observations would be recorded every second, and at the end.
    lab.advance(Duration::from_secs(3));
    client.close();
    server.wait_for_metric("edge_server_connections_open", |open| open == 0);
    assert_eq!(lab.held(), held);
    assert_eq!(server.metric("path_store_records_total"), records);
}

// A NAT forgets: what is on its way to the old address is lost, whatever controls congestion.
#[test]
fn download_survives_a_change_of_address() {
    for cc in ["reno", "cubic", "bbr2"] {
        let lab = Lab::new();
        let server = lab.serve(&["--speedtest", "--cc", cc]);
        let mut client = server.client().over(&path()).connect();
        let stream = client.request("GET", &format!("/bytes/{LONG_BYTES}"));
        client.receive(stream, 1_000_000);
        client.rebind([203, 0, 113, 1]);
        assert_eq!(client.response(stream).body.len() as u64, LONG_BYTES, "{cc}");
    }
}

/// Hostile clients of a subnet: what each can make the server believe, and what its
/// neighbours see of that. How much time it costs the neighbours is measured by `hostile`.
struct Subnet {
    lab: Lab,
    server: Server,
}

impl Subnet {
    fn new() -> Self {
        let lab = Lab::new();
        let server = lab.serve(&["--speedtest"]);
        Self { lab, server }
    }

    /// A whole download over a path.
    fn download(&self, path: &Path, bytes: u64) {
        let mut client = self.server.client().over(path).connect();
        fetch(&mut client, bytes);
        client.close();
        self.server.wait_for_metric("edge_server_connections_open", |open| open == 0);
    }

    /// Returns what the store holds of the subnet.
    fn saved(&self) -> PathState {
        self.lab.held().expect("saved parameters")
    }

    /// Jumps and retreats so far.
    fn jumps(&self) -> (u64, u64) {
        (self.server.metric(JUMPS), self.server.metric(RETREATS))
    }
}

const PROTOCOL_VIOLATION: u64 = 0xa;

// RFC 9000, 21.4: the connection ends, and what it seemed to carry is not kept.
#[test]
fn forged_acknowledgements_end_their_connection() {
    // Of packets that are under way, one number was skipped; others were never sent.
    for ahead in [5, 1_000_000] {
        for planted in [false, true] {
            let subnet = Subnet::new();
            if planted {
                subnet.lab.plant(SAVED);
            }
            let before = subnet.lab.held();
            let mut forger = subnet.server.client().over(&path()).connect();
            forger.request("GET", "/bytes/50000000");
            assert_eq!(forger.acknowledge_ahead(ahead), PROTOCOL_VIOLATION, "{ahead}");
            subnet.server.wait_for_metric("edge_server_connections_open", |open| open == 0);

            // At most it made its own jump fail.
            let (_, retreats) = subnet.jumps();
            assert_eq!(subnet.lab.held(), before.filter(|_| retreats == 0), "{ahead}");
            subnet.download(&path(), OBJECT_BYTES);
            assert_eq!(subnet.jumps().1, retreats, "{ahead}");
        }
    }
}

// What it made the server believe before it was found out is not its neighbours' to jump onto.
#[test]
fn forged_acknowledgements_void_what_their_connection_recorded() {
    let subnet = Subnet::new();
    let mut forger = subnet.server.client().over(&path()).connect();
    forger.request("GET", "/bytes/50000000");
    subnet.lab.advance(Duration::from_secs(3));
    subnet.saved();
    assert_eq!(forger.acknowledge_ahead(5), PROTOCOL_VIOLATION);
    subnet.server.wait_for_metric("path_store_forgets_total", |forgets| forgets == 1);
    assert_eq!(subnet.lab.held(), None);
}

// Once an hour: otherwise it would hold its neighbours off for as long as it likes.
#[test]
fn client_with_forged_acknowledgements_is_not_believed_again() {
    let subnet = Subnet::new();
    for again in [false, true] {
        let before = subnet.lab.held();
        assert_eq!(before.is_some(), again);
        let mut forger = subnet.server.client().over(&path()).connect();
        forger.request("GET", "/bytes/50000000");
        subnet.lab.advance(Duration::from_secs(3));
        assert_eq!(forger.acknowledge_ahead(5), PROTOCOL_VIOLATION);
        subnet.server.wait_for_metric("edge_server_connections_open", |open| open == 0);
        assert_eq!(subnet.server.metric("path_store_forgets_total"), 1);
        assert_eq!(subnet.server.metric("edge_server_resume_jumps_taken_total"), 0);
        assert_eq!(subnet.lab.held().is_some(), again);
        subnet.lab.advance(Duration::from_secs(61));
        let mut neighbour = subnet.server.client().from([198, 51, 100, 77]).over(&path()).connect();
        fetch(&mut neighbour, LONG_BYTES);
        neighbour.close();
        subnet.server.wait_for_metric("edge_server_connections_open", |open| open == 0);
    }
    assert_eq!(subnet.server.metric("edge_server_resume_violations_total"), 2);
}

// RFC 9959, 3.2: an RTT of less than half the saved one is another path.
#[test]
fn delayed_acknowledgements_cost_one_jump_alone() {
    const OTHER_PATHS: &str =
        "edge_server_resume_phases_total{phase=\"normal\",trigger=\"rtt_not_validated\"}";
    let subnet = Subnet::new();
    subnet.download(&Path::new(20.0, 1000, 2_500_000), 2_000_000);
    assert!(subnet.saved().saved_rtt.as_millis() >= 1000);
    subnet.download(&path(), OBJECT_BYTES);
    assert_eq!(subnet.server.metric(OTHER_PATHS), 1);
    assert_eq!(subnet.jumps(), (0, 0));
}

// RFC 9959, 3.5: the first jump fails, and the saved parameters are forgotten; then jumps are
// held off.
#[test]
fn neighbour_on_a_faster_link_costs_one_retreat() {
    let slow = Path::new(2.0, 40, 20_000);
    let subnet = Subnet::new();
    subnet.download(&Path::new(50.0, 40, 250_000), LONG_BYTES);
    subnet.saved();
    subnet.download(&slow, 300_000);
    assert_eq!(subnet.jumps(), (1, 1));
    assert_eq!(subnet.server.metric("path_store_forgets_total"), 1);
    assert_eq!(subnet.lab.held(), None);
    for _ in 0..2 {
        subnet.download(&slow, 100_000);
    }
    assert_eq!(subnet.jumps(), (1, 1));
}

#[test]
fn client_failing_its_own_jump_leaves_nothing_saved() {
    let subnet = Subnet::new();
    subnet.lab.plant(SAVED);
    subnet.download(&path().dropping("50-54"), OBJECT_BYTES);
    assert_eq!(subnet.jumps(), (1, 1));
    assert_eq!(subnet.server.metric("path_store_forgets_total"), 1);
    subnet.download(&path(), OBJECT_BYTES);
    assert_eq!(subnet.jumps(), (1, 1));
}

/// Limits that keep nobody out, so that the store is all that does.
const OPEN_TO_ALL: [&str; 6] = [
    "--retry-above",
    "100000",
    "--connections-max",
    "1000000",
    "--handshakes-per-second",
    "1000000",
];

fn assert_abuse_is_in_vain(forged: u32) {
    let lab = lab_with(SAVED);
    let server = lab.serve(&[&["--speedtest"], &OPEN_TO_ALL[..]].concat());
    for n in 0..forged {
        let from = std::net::Ipv4Addr::from_bits(0x7f01_0001 + (n << 8));
        let forger = lab.peer(from.into());
        forger.send(&server, super::client::first_packet(forger.address, server.address()));
    }
    let limits = ClientLimits { idle_timeout: Duration::from_secs(30), ..ClientLimits::default() };
    let _silent: Vec<_> = (0..100).map(|_| server.client().granting(limits).connect()).collect();
    // Each asked whether there are saved parameters.
    assert_eq!(server.metric("path_store_gets_total"), u64::from(forged) + 100);
    assert_eq!(server.metric("path_store_claims_total"), 0);

    // Those that ask for a download, and then fall silent, hold the parameters for half of
    // their lease.
    for _ in 0..20 {
        let mut greedy = server.client().granting(limits).connect();
        let stream = greedy.request("GET", &format!("/bytes/{OBJECT_BYTES}"));
        greedy.receive(stream, 1);
        greedy.fall_silent();
    }
    let granted = server.metric("path_store_claims_granted_total");
    assert!(granted > 0);
    lab.advance(Duration::from_secs(1));
    assert_eq!(server.metric("path_store_releases_total"), granted);
    let jumps = server.metric(JUMPS);
    fetch(&mut server.client().from([198, 51, 100, 77]).over(&path()).connect(), OBJECT_BYTES);
    assert_eq!(server.metric(JUMPS), jumps + 1);
}

/// What a neighbour does with its claims, which come to nothing.
#[derive(Clone, Copy, Debug)]
enum Disuse {
    FallsSilent,
    LeavesDuringJump,
    VanishesDuringJump,
    StopsReading,
}

impl Disuse {
    /// Has a connection claim, and do nothing with it. Returns it if it stays open.
    fn act(self, server: &Server) -> Option<Client> {
        let limits =
            ClientLimits { idle_timeout: Duration::from_secs(30), ..ClientLimits::default() };
        let mut client = server.client().granting(limits).over(&path()).connect();
        let stream = client.request("GET", &format!("/bytes/{OBJECT_BYTES}"));
        // More than the initial window: it has been acknowledged.
        let bytes_min = if matches!(self, Self::FallsSilent) { 1 } else { 14_000 };
        client.receive(stream, bytes_min);
        match self {
            Self::FallsSilent => client.fall_silent(),
            Self::LeavesDuringJump => client.close(),
            Self::VanishesDuringJump => {
                client.vanish();
                return None;
            }
            Self::StopsReading => client.stop(stream),
        }
        Some(client)
    }
}

// A neighbour asks for a download twice a second.
#[test]
fn neighbour_that_wastes_claims_keeps_its_subnet_from_few_jumps() {
    for disuse in [
        Disuse::FallsSilent,
        Disuse::LeavesDuringJump,
        Disuse::VanishesDuringJump,
        Disuse::StopsReading,
    ] {
        let lab = lab_with(SAVED);
        let server = lab.serve(&["--speedtest"]);
        let mut wasters = Vec::new();
        let mut jumps = Vec::new();
        for claims in 1..=6 {
            for _ in 0..claims {
                wasters.extend(disuse.act(&server));
                lab.advance(Duration::from_millis(500));
            }
            let before = server.metric(JUMPS);
            let mut client = server.client().from([198, 51, 100, 77]).over(&path()).connect();
            fetch(&mut client, OBJECT_BYTES);
            jumps.push(server.metric(JUMPS) - before);
        }
        // The first waste may last as long as its lease, after which the neighbour waits.
        let granted = server.metric("path_store_claims_granted_total");
        let jumped: u64 = jumps.iter().sum();
        assert!(jumped >= 5 && granted - jumped == 1, "{disuse:?}: {jumps:?} of {granted}");
    }
}

// Somebody closes a tab during a jump, among many downloads from one address.
#[test]
fn claim_of_use_outweighs_a_waste() {
    let lab = lab_with(SAVED);
    let server = lab.serve(&["--speedtest"]);
    for _ in 0..8 {
        fetch(&mut server.client().over(&path()).connect(), OBJECT_BYTES);
    }
    Disuse::StopsReading.act(&server);
    lab.advance(Duration::from_secs(4));
    let jumps = server.metric(JUMPS);
    fetch(&mut server.client().over(&path()).connect(), OBJECT_BYTES);
    assert_eq!(server.metric(JUMPS), jumps + 1);
}

// It has all that it asked for, although it does not acknowledge the end.
#[test]
fn short_download_is_no_waste_of_its_claim() {
    let lab = lab_with(SAVED);
    let server = lab.serve(&["--speedtest"]);
    let claims = "path_store_claims_granted_total";
    for n in 1..=3 {
        let mut client = server.client().over(&path()).connect();
        fetch(&mut client, 30_000);
        client.close();
        lab.advance(Duration::from_secs(4));
        assert_eq!(server.metric(claims), n);
    }
}

// Its flow control limits it, so that it does not jump; it is no silent client.
#[test]
fn client_with_a_small_window_may_claim_again() {
    let lab = lab_with(SAVED);
    let server = lab.serve(&["--speedtest"]);
    let limits = ClientLimits { window_bytes: 10_000, ..ClientLimits::default() };
    fetch(&mut server.client().granting(limits).over(&path()).connect(), OBJECT_BYTES);
    let claims = "path_store_claims_total";
    assert_eq!((server.metric(claims), server.metric(JUMPS)), (1, 0));
    fetch(&mut server.client().over(&path()).connect(), OBJECT_BYTES);
    assert_eq!((server.metric(claims), server.metric(JUMPS)), (2, 1));
}

// It jumps over a path that loses packets of the jump, and so has the parameters forgotten.
#[test]
fn failing_neighbour_extends_the_hold_off_once() {
    let lab = Lab::new();
    let server = lab.serve(&["--speedtest", "--path-lifetime", "86400"]);
    for _ in 0..20 {
        lab.plant(Saved { lives: Duration::from_secs(86_400), ..SAVED });
        let mut greedy = server.client().over(&path().dropping("50-54")).connect();
        fetch(&mut greedy, OBJECT_BYTES);
        greedy.close();
        lab.advance(Duration::from_secs(121));
    }
    // Within 40 minutes: a minute and two minutes of hold-off, and no more.
    assert_eq!(server.metric(RETREATS), 2);
    fetch(&mut server.client().from([198, 51, 100, 77]).over(&path()).connect(), OBJECT_BYTES);
    assert_eq!(server.metric(JUMPS), 3);
}

#[test]
fn forged_and_silent_clients_keep_nobody_from_a_jump() {
    assert_abuse_is_in_vain(500);
}

#[test]
#[ignore = "ten thousand handshakes: make check-long"]
fn many_forged_clients_keep_nobody_from_a_jump() {
    assert_abuse_is_in_vain(10_000);
}
