//! Clients that mean no download keep nobody from a jump.

use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::net::UdpSocket;

use crate::support::client::Client;
use crate::support::client::Limits;
use crate::support::flood::client_config;
use crate::support::flood::first_packet;
use crate::support::lab::emulate;
use crate::support::lab::fetch;
use crate::support::lab::Lab;
use crate::support::lab::Planted;
use crate::support::metrics;

/// A path that holds 250 kB, and the set that says so.
const PATH: &str = "--rate 20 --rtt 100 --buffer 250000";
const SET: Planted = Planted::new(250_000, 100);
const OBJECT_BYTES: u64 = 600_000;

/// Limits that keep nobody out, so that the store is all that does.
const OPEN_TO_ALL: [&str; 6] = [
    "--retry-above",
    "100000",
    "--connections-max",
    "1000000",
    "--handshakes-per-second",
    "1000000",
];

const CLAIMS: &str = "path_store_claims_total";
const GRANTED: &str = "path_store_claims_granted_total";
const RELEASED: &str = "path_store_releases_total";
const JUMPS: &str = "edge_server_resume_phases_total{phase=\"unvalidated\"";

/// Sends the first packet of a handshake from an address that no answer is read
/// at. Every one is of another subnet.
pub fn forge_initial(server: SocketAddr, n: u32, config: &mut quiche::Config) {
    forge_initial_from(Ipv4Addr::from_bits(0x7f01_0001 + (n << 8)), server, config);
}

/// The same from an address of loopback.
pub fn forge_initial_from(from: Ipv4Addr, server: SocketAddr, config: &mut quiche::Config) {
    let socket = UdpSocket::bind((from, 0)).unwrap();
    let local = socket.local_addr().unwrap();
    let packet = first_packet(local, server, config);
    // A full socket buffer loses it, as a network may.
    let _ = socket.send_to(&packet, server);
}

fn assert_abuse_is_in_vain(initials: u32) {
    let lab = Lab::new();
    lab.plant(SET);
    let mut args = vec!["--metrics", "127.0.0.1:0"];
    args.extend(OPEN_TO_ALL);
    let (mut server, address) = lab.serve("run", &args);
    let metrics_at = server.metrics_address();

    let mut config = client_config();
    for n in 0..initials {
        forge_initial(address, n, &mut config);
        if n % 50 == 0 {
            metrics::wait_until(metrics_at, "path_store_queued", |queued| queued < 1000);
        }
    }
    let limits = Limits { idle_timeout_ms: 30_000, ..Limits::default() };
    let mut silent: Vec<Client> = (0..100).map(|_| Client::connect_with(address, limits)).collect();

    // Most came, and each asked whether there is a set.
    let some = u64::from(initials / 2);
    let read = metrics::wait_until(metrics_at, "path_store_gets_total", |gets| gets > some);
    assert_eq!(metrics::read(metrics_at, CLAIMS), 0, "of {read} connections");

    // Those that ask for a download, and then fall silent, hold the set for half of
    // its lease: half a second.
    let mut greedy: Vec<Client> = (0..20).map(|_| Client::connect_with(address, limits)).collect();
    for client in &mut greedy {
        let stream = client.request("GET", &format!("/bytes/{OBJECT_BYTES}"));
        client.receive(stream, 1);
    }
    let granted = metrics::wait_until(metrics_at, GRANTED, |granted| granted > 0);
    metrics::wait_until(metrics_at, RELEASED, |released| released >= granted);
    let jumps = metrics::read(metrics_at, JUMPS);

    let mut emulator = emulate(address, PATH);
    assert!(fetch(emulator.address(), OBJECT_BYTES).end().0.success());
    assert_eq!(metrics::read(metrics_at, JUMPS), jumps + 1);
    silent.iter_mut().chain(&mut greedy).for_each(Client::close);
}

#[test]
fn forged_and_silent_clients_keep_nobody_from_a_jump() {
    assert_abuse_is_in_vain(500);
}

#[test]
#[ignore = "half a minute: make check-long"]
fn ten_thousand_forged_clients_keep_nobody_from_a_jump() {
    assert_abuse_is_in_vain(10_000);
}
