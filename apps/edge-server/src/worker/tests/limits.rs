//! Limits on clients, and that the server serves the others well.

use std::net::Ipv4Addr;
use std::time::Duration;

use super::client::first_packet;
use super::client::Client;
use super::client::ResumptionData;
use super::codes::CONNECTION_REFUSED;
use super::codes::H3_EXCESSIVE_LOAD;
use super::codes::H3_NO_ERROR;
use super::harness::Server;
use super::path::Path;

const REPLACED: &str = "edge_server_evictions_total{what=\"connections\"}";
const OPEN: &str = "edge_server_connections_open";

fn refusals(server: &Server, reason: &str) -> u64 {
    server.metric(&format!("edge_server_refusals_total{{reason=\"{reason}\"}}"))
}

fn retries(server: &Server, reason: &str) -> u64 {
    server.metric(&format!("edge_server_retries_total{{reason=\"{reason}\"}}"))
}

/// A client that has a connection and was served on it.
#[track_caller]
fn served(server: &Server) -> Client {
    let mut client = server.connect();
    assert_eq!(client.get("/").body, b"home");
    client
}

#[test]
fn limit_of_connections_refuses_until_one_ends() {
    for (limit, reason) in
        [("--connections-max", "connections"), ("--connections-per-subnet", "subnet")]
    {
        let server = Server::start(&[limit, "2"]);
        let mut inside = [(); 2].map(|()| served(&server));
        assert_eq!(server.client().refused(), CONNECTION_REFUSED);
        assert!(refusals(&server, reason) > 0, "{limit}");
        for client in &mut inside {
            assert_eq!(client.get("/").body, b"home");
        }
        inside[0].close();
        server.wait_for_metric(OPEN, |open| open == 1);
        served(&server);
    }
}

#[test]
fn limit_of_a_full_subnet_leaves_others_alone() {
    let server = Server::start(&["--connections-per-subnet", "1"]);
    let _inside = served(&server);
    assert_eq!(server.client().refused(), CONNECTION_REFUSED);
    let mut other = server.client().from([203, 0, 113, 1]).connect();
    assert_eq!(other.get("/").body, b"home");
}

#[test]
fn full_server_replaces_idle_clients_of_the_fullest_subnet() {
    let server = Server::start(&["--connections-max", "6", "--connections-per-subnet", "4"]);
    let mut fullest: Vec<_> = (0..4).map(|_| served(&server)).collect();
    let other = || server.client().from([203, 0, 113, 1]);
    let served_other = || {
        let mut client = other().connect();
        assert_eq!(client.get("/").body, b"home");
        client
    };
    let mut others = [(); 2].map(|()| served_other());
    server.lab().advance(Duration::from_secs(2));
    // The longest idle one of the fullest subnet has to go, until another has as many.
    let [first, second, ..] = &mut fullest[..] else { unreachable!() };
    assert_eq!(second.get("/").body, b"home");
    let mut third = served_other();
    assert_eq!(first.closed(), H3_NO_ERROR);
    assert_eq!((server.metric(OPEN), server.metric(REPLACED)), (6, 1));
    assert_eq!(other().refused(), CONNECTION_REFUSED);
    for client in others.iter_mut().chain([&mut third]).chain(&mut fullest[1..]) {
        assert_eq!(client.get("/").body, b"home");
    }
}

// They have responses that they do not read.
#[test]
fn full_server_replaces_stuck_clients_of_the_fullest_subnet() {
    let server = Server::start(&["--connections-max", "8", "--connections-per-subnet", "6"]);
    let begin = |_| {
        let mut client = served(&server);
        client.request("GET", "/bytes/1000000");
        client.fall_silent();
        client
    };
    let mut stuck: Vec<_> = (0..5).map(begin).collect();
    let served_from = |from: [u8; 4]| {
        let mut client = server.client().from(from).connect();
        assert_eq!(client.get("/").body, b"home");
        client
    };
    let mut idle = [(); 3].map(|()| served_from([203, 0, 113, 1]));
    server.lab().advance(Duration::from_secs(11));
    served_from([192, 0, 2, 1]);
    assert_eq!(server.metric(REPLACED), 1);
    for client in &mut idle {
        assert_eq!(client.get("/").body, b"home");
    }
    assert!(stuck[0].is_closed_by(H3_NO_ERROR));
}

#[test]
fn handshakes_that_do_not_end_replace_nobody() {
    let server = Server::start(&["--connections-max", "16", "--handshake-timeout", "1000"]);
    // They have tokens, which validate their addresses.
    let known: Vec<_> = (0..8).map(|subnet| known_client(&server, [203, 0, subnet, 1])).collect();
    server.wait_for_metric(OPEN, |open| open == 0);
    let mut idle: Vec<_> = (0..16).map(|_| served(&server)).collect();
    server.lab().advance(Duration::from_secs(2));

    let begin = |(from, resumption): &([u8; 4], ResumptionData)| {
        let mut client = server.client().from(*from).with(resumption).begin();
        server.lab().settle();
        client.fall_mute();
        client
    };
    let mut begun: Vec<_> = known.iter().map(begin).collect();
    server.lab().advance(Duration::from_millis(50));
    // An eighth has a place beyond the limit.
    assert_eq!((server.metric(REPLACED), server.metric(OPEN)), (0, 18));
    assert_eq!(refusals(&server, "connections"), 6);
    assert!(idle.iter_mut().all(|client| client.get("/").body == b"home"));

    // The end of a handshake takes the place of an idle client.
    server.lab().advance(Duration::from_secs(2));
    let finished = &mut begun[0];
    finished.wake_up();
    finished.establish();
    assert_eq!(finished.get("/").body, b"home");
    assert_eq!((server.metric(REPLACED), server.metric(OPEN)), (1, 17));
    assert_eq!(idle[0].closed(), H3_NO_ERROR);
}

// Handshakes of eight subnets, which do not end, have all places beyond the limit.
#[test]
fn handshake_that_does_not_end_gives_way_to_a_newcomer() {
    let server = Server::start(&["--connections-max", "64", "--handshake-timeout", "1000"]);
    let known: Vec<_> = (0..9).map(|subnet| known_client(&server, [203, 0, subnet, 1])).collect();
    server.wait_for_metric(OPEN, |open| open == 0);
    let _idle: Vec<_> = (0..64).map(|_| served(&server)).collect();
    server.lab().advance(Duration::from_secs(2));
    let begin = |(from, resumption): &([u8; 4], ResumptionData)| {
        let client = server.client().from(*from).with(resumption);
        let mut client = client.over(&Path::new(20.0, 700, 100_000)).begin();
        server.lab().advance(Duration::from_millis(600));
        client.fall_mute();
        client
    };
    let mut silent: Vec<_> = known[1..].iter().map(begin).collect();
    // The youngest is an honest one, that is a round trip from its end.
    let mut honest = silent.pop().unwrap();
    assert_eq!(server.metric(OPEN), 64 + 8);

    let (from, resumption) = &known[0];
    let mut newcomer = server.client().from(*from).with(resumption).connect();
    assert_eq!(newcomer.get("/").body, b"home");
    assert_eq!((server.metric(REPLACED), refusals(&server, "connections")), (1, 1));
    assert_eq!(server.metric(OPEN), 64 + 7);
    honest.wake_up();
    honest.establish();
    assert_eq!(honest.get("/").body, b"home");
}

/// A client that has a token of an earlier connection.
fn known_client(server: &Server, from: [u8; 4]) -> ([u8; 4], ResumptionData) {
    let mut client = server.client().from(from).connect();
    let resumption = client.resumption_data();
    client.close();
    (from, resumption)
}

// All connections of the subnet are one client's. Its neighbours replace idle ones, until one has as
// many.
#[test]
fn full_subnet_replaces_idle_connections_of_the_client_that_has_most() {
    let server = Server::start(&["--connections-per-subnet", "8"]);
    let mut greedy: Vec<_> = (0..8).map(|_| served(&server)).collect();
    assert_eq!(server.client().from([198, 51, 100, 200]).refused(), CONNECTION_REFUSED);
    let refused = refusals(&server, "subnet");
    server.lab().advance(Duration::from_secs(2));
    for host in [200, 201] {
        let mut neighbour = server.client().from([198, 51, 100, host]).connect();
        assert_eq!(neighbour.get("/").body, b"home");
    }
    assert_eq!((server.metric(REPLACED), refusals(&server, "subnet")), (2, refused));
    assert!(greedy[..2].iter_mut().all(|client| client.closed() == H3_NO_ERROR));
    assert_eq!(server.client().refused(), CONNECTION_REFUSED);
    assert!(greedy[2..].iter_mut().all(|client| client.get("/").body == b"home"));
}

#[test]
fn full_server_replaces_nobody_with_a_request() {
    let server = Server::start(&["--speedtest", "--connections-max", "3"]);
    let mut busy: Vec<_> = (0..3).map(|_| served(&server)).collect();
    let streams: Vec<_> = busy.iter_mut().map(|client| client.open_request("/bytes/5")).collect();
    server.lab().advance(Duration::from_secs(2));
    assert_eq!(server.client().from([203, 0, 113, 1]).refused(), CONNECTION_REFUSED);
    for (client, stream) in busy.iter_mut().zip(streams) {
        client.end_with_trailers(stream);
        assert_eq!(client.response(stream).body.len(), 5);
    }
}

#[test]
fn forged_addresses_do_not_lock_their_subnet_out() {
    let args = ["--connections-per-subnet", "16", "--handshake-timeout", "1000"];
    let server = Server::start(&args);
    for host in 0..100 {
        let forger = server.lab().peer(Ipv4Addr::new(198, 51, 100, 2 + host).into());
        forger.send(&server, first_packet(forger.address, server.address()));
    }
    server.lab().advance(Duration::from_millis(20));
    // An eighth got in, and every other had an answer that takes no memory.
    assert_eq!((server.metric(OPEN), server.metric("edge_server_retries_total")), (2, 98));

    let _clients: Vec<_> = (0..16).map(|_| served(&server)).collect();
    assert!(retries(&server, "subnet") > 98);
    assert_eq!(server.client().refused(), CONNECTION_REFUSED);
}

#[test]
fn handshake_completed_in_a_full_subnet_is_refused() {
    let args = ["--connections-per-subnet", "16", "--handshake-timeout", "1000"];
    let server = Server::start(&args);
    // It has the server's handshake and has not sent the end of its own.
    let mut late = server.client().begin();
    server.lab().settle();
    late.fall_mute();
    server.lab().advance(Duration::from_millis(50));
    let _clients: Vec<_> = (0..16).map(|_| served(&server)).collect();
    late.wake_up();
    assert_eq!(late.closed(), CONNECTION_REFUSED);
    assert_eq!(refusals(&server, "subnet"), 1);
}

#[test]
fn limit_of_handshakes_a_second_sends_retry() {
    let server = Server::start(&["--handshakes-per-second", "1"]);
    served(&server);
    assert!(retries(&server, "rate") > 0);
}

#[test]
fn handshake_is_given_up_after_its_time() {
    let server = Server::start(&["--handshake-timeout", "3"]);
    let forger = server.lab().peer([198, 51, 100, 1].into());
    forger.send(&server, first_packet(forger.address, server.address()));
    server.wait_for_metric(OPEN, |open| open == 1);
    let begun = server.lab().now();
    server.wait_for_metric(OPEN, |open| open == 0);
    assert_eq!(server.lab().now() - begun, Duration::from_secs(3));
    assert_eq!(server.metric("edge_server_drops_total{what=\"handshake\"}"), 1);
}

#[test]
fn limit_of_connection_time_finishes_what_was_asked() {
    let server = Server::start(&["--speedtest", "--connection-time-max", "3"]);
    let mut client = server.connect();
    let unfinished = client.open_request("/bytes/5");
    client.receive(unfinished, 5);
    let told = client.goaways(2);
    assert_eq!(told.last(), Some(&(unfinished + 4)));
    client.end_with_trailers(unfinished);
    assert_eq!(client.closed(), H3_NO_ERROR);
    assert_eq!(server.metric("edge_server_drops_total{what=\"connection\"}"), 1);
    let lived = server.lab().now();
    assert!((Duration::from_secs(4)..Duration::from_millis(4100)).contains(&lived), "{lived:?}");
    served(&server);
}

#[test]
fn idle_connection_ends_after_its_time() {
    let server = Server::start(&["--idle-timeout", "3"]);
    let client = served(&server);
    let last = server.lab().now();
    client.vanish();
    server.wait_for_metric(OPEN, |open| open == 0);
    let idle = server.lab().now() - last;
    assert!((Duration::from_secs(3)..Duration::from_millis(3300)).contains(&idle), "{idle:?}");
    served(&server);
}

#[test]
fn limits_of_requests_and_their_headers_are_kept() {
    let server = Server::start(&["--requests-max", "7", "--header-bytes-max", "2000"]);
    let mut client = server.connect();
    assert_eq!(client.requests_left(), 7);
    for (bytes, status) in [(1000, "200"), (2000, "431")] {
        let response = client.get_with("/", &[("cookie", &"x".repeat(bytes))]);
        assert_eq!(response.status(), status, "{bytes}");
    }
    client.ask("/", &[("cookie", &"x".repeat(4000))]);
    assert_eq!(client.closed(), H3_EXCESSIVE_LOAD);
    served(&server);
}

// A GEO path of 64 kbit/s is slow, and honest.
#[test]
fn stall_of_a_slow_path_is_none() {
    let server = Server::start(&["--speedtest", "--stall-timeout", "5", "--resume", "off"]);
    let mut client = server.client().over(&Path::new(0.064, 600, 10_000)).connect();
    assert_eq!(client.get("/bytes/100000").body.len(), 100_000);
    assert_eq!(server.metric("edge_server_drops_total"), 0);
}
