//! Packets that belong to no connection, or mean nothing.

use std::time::Duration;

use super::harness::Server;
use super::harness::CLIENT;
use super::path::Path;

#[test]
fn packets_that_mean_nothing_are_ignored() {
    let server = Server::start(&[]);
    let peer = server.lab().peer(CLIENT);
    for packet in [&[][..], &[0x40; 30], &[0xff; 1200], &[0xc0; 1200], &[0; 1400]] {
        peer.send(&server, packet.to_vec());
    }
    assert_eq!(server.connect().get("/").body, b"home");
}

// RFC 9000, 10.2.2: a stateless reset would answer packets that are still under way.
#[test]
fn late_packet_of_an_ended_connection_is_ignored() {
    let server = Server::start(&["--speedtest"]);
    let mut client = server.client().over(&Path::new(100.0, 500, 1_000_000)).connect();
    assert_eq!(client.get("/bytes/1000").body.len(), 1000);
    client.close();
    server.wait_for_metric("edge_server_connections_open", |open| open == 0);
    let late = [&[0x40], &client.destination_id()[..], &[0x57; 60]].concat();
    let mut answers_after = |time| {
        server.lab().advance(time);
        let before = client.datagrams().1.len();
        client.send_raw(late.clone());
        server.lab().advance(Duration::from_millis(600));
        client.datagrams().1.len() - before
    };
    assert_eq!(answers_after(Duration::ZERO), 0);
    // IDs are forgotten when the worker has its next turn.
    answers_after(Duration::from_secs(10));
    assert_eq!(answers_after(Duration::ZERO), 1, "it is never forgotten");
    assert_eq!(server.metric("edge_server_stateless_resets_total"), 1);
}

#[test]
fn unknown_version_is_answered_with_the_known_one() {
    let server = Server::start(&[]);
    let peer = server.lab().peer(CLIENT);
    // A long header of version 0x1a2a3a4a, from "AAAAAAAA" to "BBBBBBBB".
    let mut packet = vec![0xc0, 0x1a, 0x2a, 0x3a, 0x4a, 8];
    packet.extend_from_slice(b"BBBBBBBB");
    packet.push(8);
    packet.extend_from_slice(b"AAAAAAAA");
    // Too short for a first packet: no answer. Long enough: one.
    peer.send(&server, packet.clone());
    packet.resize(1200, 0);
    peer.send(&server, packet);
    server.lab().advance(Duration::from_secs(5));

    let [answer] = &peer.received()[..] else { panic!("{:?}", peer.received()) };
    assert_eq!(answer[1..5], [0; 4]);
    assert_eq!(answer[5..23], *b"\x08AAAAAAAA\x08BBBBBBBB");
    assert!(answer[23..].chunks(4).any(|version| version == [0, 0, 0, 1]));
}

#[test]
fn client_that_vanishes_is_given_up() {
    let server = Server::start(&["--speedtest"]);
    let limits = super::client::ClientLimits {
        idle_timeout: Duration::from_millis(500),
        ..Default::default()
    };
    let mut vanishing = server.client().granting(limits).connect();
    let stream = vanishing.request("GET", "/bytes/90000000");
    vanishing.receive(stream, 100_000);
    vanishing.vanish();
    let begun = server.lab().now();

    assert_eq!(server.connect().get("/").body, b"home");
    server.wait_for_metric("edge_server_connections_open", |open| open == 1);
    // Three probe timeouts at least (RFC 9000, 10.1).
    assert!(server.lab().now() - begun < Duration::from_secs(2));
    assert_eq!(server.connect().get("/").body, b"home");
}
