//! Anti-amplification limit (RFC 9000, 8.1).

use std::net::SocketAddr;
use std::time::Duration;

use super::client::first_packet;
use super::harness::Lab;
use super::harness::Server;
use super::harness::CLIENT;

const TIMES_MAX: usize = 3;

/// From one datagram to the next, which is more than a round trip.
const PAUSE: Duration = Duration::from_millis(20);

/// From the last one on: more than the server takes to repeat its packets, and again.
const REPETITIONS: Duration = Duration::from_secs(5);

/// Sends datagrams one by one, and acknowledges nothing. Returns how many bytes went out
/// and how many came, at worst.
fn exchange(server: &Server, datagrams: impl Fn(SocketAddr) -> Vec<Vec<u8>>) -> (usize, usize) {
    let peer = server.lab().peer(CLIENT);
    let bytes = |offered: Vec<super::path::Offered>| -> usize {
        offered.iter().map(|datagram| datagram.bytes).sum()
    };
    let count = || {
        let (sent, came) = peer.datagrams();
        let (sent, came) = (bytes(sent), bytes(came));
        assert!(came <= TIMES_MAX * sent, "{came} bytes for {sent}");
        (sent, came)
    };
    for datagram in datagrams(peer.address) {
        peer.send(server, datagram);
        server.lab().advance(PAUSE);
        count();
    }
    server.lab().advance(REPETITIONS);
    count()
}

/// A packet of another version, and so long.
fn other_version(bytes: usize) -> Vec<u8> {
    let mut packet = [&[0xc0, 0x5a, 0x5a, 0x5a, 0x5a, 8][..], b"somebody", &[0]].concat();
    packet.resize(bytes, 0);
    packet
}

/// Packets of connections that are not there, whose IDs name every secret there might be.
fn of_no_connection(bytes: usize) -> Vec<Vec<u8>> {
    let packet = |n: u8| [&[0x40][..], &vec![n; bytes - 1]].concat();
    (0..=u8::MAX).map(packet).collect()
}

fn cut(from: SocketAddr, server: SocketAddr, bytes: usize) -> Vec<u8> {
    first_packet(from, server)[..bytes].to_vec()
}

/// What is sent, from where and to where, and whether anything comes back.
type Case = (&'static str, bool, fn(SocketAddr, SocketAddr) -> Vec<Vec<u8>>);

fn assert_bounded(args: &[&str], cases: &[Case]) {
    for (case, is_answered, datagrams) in cases {
        let lab = Lab::new();
        let server = lab.serve(args);
        let mut regular = server.connect();
        assert_eq!(regular.get("/").body, b"home");
        let (sent, came) = exchange(&server, |from| datagrams(from, server.address()));
        println!("{case}: {came} bytes for {sent}");
        assert_eq!(came > 0, *is_answered, "{case}");
        assert_eq!(regular.get("/").body, b"home", "{case}");
    }
}

#[test]
fn amplification_of_unproven_addresses_is_bounded() {
    assert_bounded(
        &[],
        &[
            ("one Initial", true, |l, s| vec![first_packet(l, s)]),
            ("the same again", true, |l, s| vec![first_packet(l, s); 5]),
            ("many clients", true, |l, s| (0..5).map(|_| first_packet(l, s)).collect()),
            ("small Initials", false, |l, s| vec![cut(l, s, 1199); 20]),
            ("very small ones", false, |l, s| vec![cut(l, s, 60); 100]),
            ("an Initial, then small ones", true, |l, s| {
                [vec![first_packet(l, s)], vec![cut(l, s, 100); 50]].concat()
            }),
            ("another version", true, |_, _| vec![other_version(1200)]),
            ("another version, small", false, |_, _| vec![other_version(100); 20]),
            ("of no connection", true, |_, _| of_no_connection(50)),
            ("of no connection, small", false, |_, _| of_no_connection(21)),
        ],
    );
}

#[test]
fn amplification_of_retry_is_bounded() {
    let initials: Case = ("Retry", true, |l, s| vec![first_packet(l, s); 5]);
    assert_bounded(&["--retry-above", "0"], &[initials]);
}

#[test]
fn amplification_of_refusals_is_bounded() {
    let initials: Case = ("refused", true, |l, s| vec![first_packet(l, s); 5]);
    assert_bounded(&["--connections-max", "1"], &[initials]);
}

// The limit is each client's own, however many there are and whether Retry comes and goes.
#[test]
fn amplification_is_bounded_as_retry_comes_and_goes() {
    let server = Server::start(&["--retry-above", "1", "--handshake-timeout", "3"]);
    for round in 0..2 {
        for _ in 0..3 {
            exchange(&server, |from| vec![first_packet(from, server.address())]);
        }
        server.lab().advance(Duration::from_secs(3));
        assert_eq!(server.connect().get("/").body, b"home", "{round}");
    }
    let late = server.metric("edge_server_drops_total{what=\"handshake\"}");
    let failed = "edge_server_handshake_failures_total{by=\"server\",reason=\"timeout\"}";
    assert!(late > 0 && server.metric(failed) >= late, "{late}");
}
