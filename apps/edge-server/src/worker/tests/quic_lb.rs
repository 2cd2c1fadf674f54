//! Connection IDs of QUIC-LB, and what a reload changes in them.

use std::time::Duration;

use super::client::Client;
use super::client::ClientLimits;
use super::harness::Lab;
use super::harness::Server;
use super::harness::CLIENT;
use super::path::Path;
use crate::quic::connection_id;
use crate::quic::connection_id::Cid;
use crate::quic::quic_lb;

/// Configuration in the clear.
fn plain(config_id: u8) -> String {
    format!("[[quic-lb]]\nconfig-id = {config_id}\nserver-id = '0a'\nnonce-length = 15\n")
}

/// Configuration with one of two keys.
fn encrypted(config_id: u8, key: u8) -> String {
    plain(config_id) + &format!("key = 'DIR/key-{key}'\n")
}

/// Writes the configuration file. Returns the arguments that name it.
fn configure(lab: &Lab, toml: &str) -> [&'static str; 3] {
    for key in 1..=2_u8 {
        lab.write(&format!("key-{key}"), format!("{key:032x}"));
    }
    lab.write("edge.toml", lab.fill(toml));
    ["--config", "DIR/edge.toml", "--speedtest"]
}

fn start(toml: &str) -> Server {
    let lab = Lab::new();
    let args = configure(&lab, toml);
    lab.serve(&args)
}

/// Returns an ID of a configuration, which names another server.
fn foreign_id(config_id: u8) -> Vec<u8> {
    let mut id = vec![0x5e; connection_id::LEN];
    id[0] = quic_lb::first_octet(config_id, connection_id::LEN);
    id
}

#[test]
fn packet_of_an_unknown_configuration_is_counted() {
    const DROPPED: &str = "edge_server_node_datagrams_dropped_total{reason=\"unknown_config\"}";
    let short = |id: &[u8]| [&[0x40], id, &[0x57; 60]].concat();
    // Its length is not that of the server's IDs, so that nothing is known of it.
    let undescribed = [&[0x35], &foreign_id(1)[1..]].concat();
    let long = [&[0xc0, 0, 0, 0, 1, 20], &foreign_id(1)[..], &[0; 1200]].concat();
    for (tables, datagram, counted) in [
        (plain(0), short(&foreign_id(1)), 1),
        (String::new(), short(&foreign_id(1)), 1),
        (plain(0), short(&foreign_id(0)), 0),
        (plain(0), short(&foreign_id(quic_lb::UNROUTABLE)), 0),
        (plain(0), short(&undescribed), 0),
        (plain(0), short(&foreign_id(1)[..10])[..12].to_vec(), 0),
        (plain(0), long, 0),
        (plain(0) + &plain(1).replace("0a", "0b"), short(&foreign_id(1)), 0),
    ] {
        let server = start(&tables);
        server.lab().peer(CLIENT).send(&server, datagram.clone());
        server.lab().advance(Duration::from_secs(1));
        assert_eq!(server.metric(DROPPED), counted, "{tables} {datagram:02x?}");
    }
}

/// Connects a client that allows for so many connection IDs.
fn connect(server: &Server, connection_ids: u64) -> Client {
    let limits = ClientLimits { connection_ids, ..ClientLimits::default() };
    server.client().over(&Path::new(20.0, 50, 250_000)).granting(limits).connect()
}

fn reload(server: &Server, toml: &str) {
    server.reload(&configure(server.lab(), toml));
}

/// Returns how many connection IDs the only client has been issued and has not retired, and how many of them
/// are of the configuration in use, which has this ID.
fn count_ids(server: &Server, config_id: u8) -> (usize, usize) {
    let mut counts = None;
    server.with_worker(|worker| {
        let is_of_config = |id: &Cid| {
            let id = id.as_quic();
            let is_own = worker.names_of(&id).is_some_and(|names| names.origin.is_some());
            id.len() == connection_id::LEN && is_own && quic_lb::config_id(id[0]) == config_id
        };
        let (_, connection) = worker.connections.iter().next().unwrap();
        let ids = &connection.ids;
        counts = Some((ids.iter().count() - 1, ids.iter().filter(|id| is_of_config(id)).count()));
    });
    counts.unwrap()
}

#[test]
fn reload_gives_clients_ids_of_the_new_configuration() {
    let both = plain(1) + &plain(0);
    for (before, after, config_id) in [
        (plain(0), both, 1),
        (plain(0), plain(1), 1),
        (encrypted(2, 1), encrypted(2, 2), 2),
        (String::new(), encrypted(2, 1), 2),
        (encrypted(2, 1), String::new(), quic_lb::UNROUTABLE),
    ] {
        for (allowed, issued) in [(2, 2), (3, 3), (4, 4), (8, 8), (16, 16)] {
            let server = start(&before);
            let mut client = connect(&server, allowed);
            let stream = client.request("GET", "/bytes/2000000");
            client.receive(stream, 200_000);
            let old = client.destination_id();
            reload(&server, &after);
            assert_eq!(client.destination_id(), old);
            client.receive(stream, 1_500_000);
            let shown = format!("{before} {after} {allowed}");
            assert_eq!(count_ids(&server, config_id), (issued, issued), "{shown}");
            assert_eq!(quic_lb::config_id(client.destination_id()[0]), config_id, "{shown}");
            assert_ne!(client.destination_id(), old, "{shown}");
            assert_eq!(client.response(stream).body.len(), 2_000_000, "{shown}");
            assert_eq!(server.metric("edge_server_stateless_resets_total"), 0, "{shown}");
        }
    }
}

// Frames that announce IDs are lost, and sent again when others have taken their place.
#[test]
fn many_reloads_over_a_path_that_loses_packets_do_no_harm() {
    for seed in 0..4 {
        let lab = Lab::with_seed(seed);
        let server = lab.serve(&configure(&lab, &plain(0)));
        let limits = ClientLimits { connection_ids: 4, ..ClientLimits::default() };
        let path = Path::new(20.0, 50, 250_000).losing(0.2);
        let mut client = server.client().over(&path).granting(limits).connect();
        let stream = client.request("GET", "/bytes/500000");
        for reloads in 1..=20 {
            client.receive(stream, reloads * 20_000);
            reload(&server, &plain(reloads as u8 % 7));
        }
        assert_eq!(client.response(stream).body.len(), 500_000, "{seed}");
    }
}

#[test]
fn reload_to_the_same_configuration_leaves_ids() {
    let server = start(&plain(0));
    let mut client = connect(&server, 4);
    client.get("/");
    let old = client.destination_id();
    reload(&server, &(plain(0) + &plain(1)));
    client.get("/");
    assert_eq!(client.destination_id(), old);
}

#[test]
fn idle_client_gets_its_ids_when_it_is_back() {
    let server = start(&plain(0));
    let mut client = connect(&server, 2);
    client.get("/");
    for config_id in 1..=3 {
        reload(&server, &plain(config_id));
        server.lab().advance(Duration::from_secs(5));
    }
    assert_eq!(count_ids(&server, 3), (2, 0));
    for _ in 0..3 {
        assert_eq!(client.get("/").body, b"home");
    }
    server.lab().advance(Duration::from_secs(1));
    assert_eq!(count_ids(&server, 3), (2, 2));
}

#[test]
fn packets_to_old_ids_are_taken_until_the_client_retires_them() {
    let server = start(&plain(0));
    let mut client = connect(&server, 2);
    client.get("/");
    let early = client.request("GET", "/bytes/1000");
    let on_time = client.hold_back();
    let late = client.request("GET", "/bytes/2000");
    let too_late = client.hold_back();
    reload(&server, &plain(1));
    on_time.into_iter().for_each(|datagram| client.send_raw(datagram));
    assert_eq!(client.response(early).body.len(), 1000);
    client.get("/");
    server.lab().advance(Duration::from_millis(100));
    assert_eq!(count_ids(&server, 1), (2, 2));
    // The client sends the request again, too.
    too_late.into_iter().for_each(|datagram| client.send_raw(datagram));
    assert_eq!(client.response(late).body.len(), 2000);
    assert_eq!(client.get("/").body, b"home");
    assert_eq!(server.metric("edge_server_stateless_resets_total"), 0);
}

// A late one that arrives together with the one that it was overtaken by.
#[test]
fn packet_to_an_id_retired_a_moment_ago_does_no_harm() {
    let server = start(&plain(0));
    let mut client = connect(&server, 4);
    client.get("/");
    client.fall_mute();
    client.request("GET", "/bytes/1000");
    let overtaken = client.hold_back();
    reload(&server, &plain(1));
    let old = client.destination_id();
    let other = client.request("GET", "/");
    client.hold_back().into_iter().for_each(|datagram| client.send_raw(datagram));
    client.run_until(|client| *client.quic.destination_id() != old[..]);
    let retiring = client.hold_back();
    server.receive_at_once(client.address(), [retiring, overtaken].concat());
    client.wake_up();
    assert_eq!(client.response(other).body, b"home");
    assert_eq!(client.get("/").body, b"home");
    assert_eq!(count_ids(&server, 1), (4, 4));
}

// The transport cannot have it retire IDs.
#[test]
fn client_that_allows_for_many_ids_keeps_the_old_ones() {
    let server = start(&plain(0));
    let mut client = connect(&server, 17);
    client.get("/");
    let old = client.destination_id();
    reload(&server, &plain(1));
    for _ in 0..3 {
        assert_eq!(client.get("/").body, b"home");
    }
    assert_eq!(client.destination_id(), old);
}
