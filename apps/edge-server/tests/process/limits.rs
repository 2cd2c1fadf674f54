//! Limits on clients, and that the server serves the others well.

use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::process::Command;

use crate::abuse::forge_initial_from;
use crate::admission::serve_measured;
use crate::support::client::Client;
use crate::support::client::Limits;
use crate::support::client::Memory;
use crate::support::codes::CONNECTION_REFUSED;
use crate::support::codes::H3_EXCESSIVE_LOAD;
use crate::support::codes::H3_NO_ERROR;
use crate::support::flood::client_config;
use crate::support::lab::emulate;
use crate::support::metrics;
use crate::support::process::sibling;

const OPEN: &str = "edge_server_connections_open";

fn refusals(metrics_at: SocketAddr, reason: &str) -> u64 {
    metrics::read(metrics_at, &format!("edge_server_refusals_total{{reason=\"{reason}\"}}"))
}

fn retries(metrics_at: SocketAddr, reason: &str) -> u64 {
    metrics::read(metrics_at, &format!("edge_server_retries_total{{reason=\"{reason}\"}}"))
}

/// A client that has a connection and was served on it.
fn served(address: SocketAddr) -> Client {
    let mut client = Client::connect(address);
    assert_eq!(client.get("/").body, b"home");
    client
}

#[test]
fn whoever_comes_when_there_is_no_room_is_refused_until_somebody_goes() {
    for (limit, reason) in
        [("--connections-max", "connections"), ("--connections-per-subnet", "subnet")]
    {
        let dir = tempfile::tempdir().unwrap();
        let (_server, address, metrics_at) =
            serve_measured(dir.path(), &[limit, "2", "--workers", "2"]);
        let mut inside = [(); 2].map(|()| served(address));
        assert_eq!(Client::refused(address, &Memory::default()), CONNECTION_REFUSED);
        assert!(refusals(metrics_at, reason) > 0, "{limit}");
        for client in &mut inside {
            assert_eq!(client.get("/").body, b"home");
        }
        inside[0].close();
        metrics::wait_until(metrics_at, OPEN, |open| open == 1);
        let mut next = served(address);
        inside[1].close();
        next.close();
    }
}

#[test]
fn a_full_subnet_leaves_others_alone() {
    let elsewhere = Ipv4Addr::new(127, 0, 1, 1);
    let dir = tempfile::tempdir().unwrap();
    let (_server, address, _) = serve_measured(dir.path(), &["--connections-per-subnet", "1"]);
    let _inside = served(address);
    assert_eq!(Client::refused(address, &Memory::default()), CONNECTION_REFUSED);
    let mut other = Client::connect_from(elsewhere, address, Limits::default());
    assert_eq!(other.get("/").body, b"home");
}

#[test]
fn whoever_forges_a_subnets_addresses_does_not_lock_its_clients_out() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--connections-per-subnet", "16", "--handshake-timeout", "1000"];
    let (_server, address, metrics_at) = serve_measured(dir.path(), &args);
    let mut config = client_config();
    for host in 0..100 {
        forge_initial_from(Ipv4Addr::new(127, 0, 0, 2 + host), address, &mut config);
    }
    // An eighth got in, and every other had an answer that takes no memory.
    metrics::wait_until(metrics_at, OPEN, |open| open == 2);
    metrics::wait_until(metrics_at, "edge_server_retries_total", |retries| retries == 98);

    let mut clients: Vec<_> = (0..16).map(|_| served(address)).collect();
    assert!(retries(metrics_at, "subnet") > 98);
    assert_eq!(Client::refused(address, &Memory::default()), CONNECTION_REFUSED);
    clients.iter_mut().for_each(Client::close);
}

#[test]
fn a_handshake_that_is_complete_when_its_subnet_is_full_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--connections-per-subnet", "16", "--handshake-timeout", "1000"];
    let (_server, address, metrics_at) = serve_measured(dir.path(), &args);
    // It has the server's handshake and has not sent the end of its own.
    let mut late = Client::connect(address);
    let mut clients: Vec<_> = (0..16).map(|_| served(address)).collect();
    assert_eq!(late.closed(), CONNECTION_REFUSED);
    assert_eq!(refusals(metrics_at, "subnet"), 1);
    clients.iter_mut().for_each(Client::close);
}

#[test]
fn beyond_the_rate_of_handshakes_clients_prove_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address, metrics_at) =
        serve_measured(dir.path(), &["--handshakes-per-second", "1"]);
    served(address);
    assert!(retries(metrics_at, "rate") > 0);
}

#[test]
fn a_connection_has_its_time_and_its_client_what_it_asked() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--speedtest", "--connection-time-max", "3"];
    let (_server, address, metrics_at) = serve_measured(dir.path(), &args);
    let mut client = Client::connect(address);
    let unfinished = client.open_request("/bytes/5");
    client.receive(unfinished, 5);
    let told = client.goaways(2);
    assert_eq!(told.last(), Some(&(unfinished + 4)));
    client.end_with_trailers(unfinished);
    assert_eq!(client.closed(), H3_NO_ERROR);
    assert_eq!(metrics::read(metrics_at, "edge_server_drops_total{what=\"connection\"}"), 1);
    served(address);
}

#[test]
fn a_connection_without_packets_ends() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address, metrics_at) = serve_measured(dir.path(), &["--idle-timeout", "3"]);
    let mut client = Client::connect(address);
    assert_eq!(client.get("/").body, b"home");
    metrics::wait_until(metrics_at, OPEN, |open| open == 0);
    served(address);
}

#[test]
fn requests_are_as_many_and_as_long_as_they_may_be() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--requests-max", "7", "--header-bytes-max", "2000"];
    let (_server, address, _) = serve_measured(dir.path(), &args);
    let mut client = Client::connect(address);
    assert_eq!(client.requests_left(), 7);
    for (bytes, status) in [(1000, "200"), (2000, "431")] {
        let response = client.get_with("/", &[("cookie", &"x".repeat(bytes))]);
        assert_eq!(response.status(), status, "{bytes}");
    }
    client.ask("/", &[("cookie", &"x".repeat(4000))]);
    assert_eq!(client.closed(), H3_EXCESSIVE_LOAD);
    served(address);
}

// Many files at a time, of which the client acknowledges nothing.
#[test]
fn a_connection_holds_no_more_than_its_client_grants() {
    const WINDOW_BYTES: u64 = 1 << 20;
    const CLIENTS: usize = 20;
    const KIB_MAX: usize = (WINDOW_BYTES as usize >> 10) + 200;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), vec![7; 3_000_000]).unwrap();
    let (server, address, _) = serve_measured(dir.path(), &["--workers", "1"]);
    let limits = Limits { window_bytes: WINDOW_BYTES, ..Limits::default() };
    let hold = || {
        let mut client = Client::connect_with(address, limits);
        // Opens the congestion window.
        client.get("/file");
        for _ in 0..client.requests_left() {
            client.request("GET", "/file");
        }
        client.await_unanswered();
        client
    };
    let _first = hold();
    let before_kib = server.memory_kib("VmHWM");
    let _others: Vec<_> = (0..CLIENTS).map(|_| hold()).collect();
    let growth_kib = server.memory_kib("VmHWM") - before_kib;
    println!("{} KiB a connection", growth_kib / CLIENTS);
    assert!(growth_kib < CLIENTS * KIB_MAX, "{growth_kib} KiB");
}

#[test]
fn a_send_buffer_that_limits_jumps_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    for (send_buffer, warnings) in [("79999999", 1), ("80000000", 0)] {
        let args = ["--max-jump", "40000000", "--send-buffer-max", send_buffer];
        let (server, ..) = serve_measured(dir.path(), &args);
        let warning = format!("--send-buffer-max {send_buffer} limits what --max-jump 40000000");
        assert_eq!(server.count(&warning), warnings);
    }
}

// A GEO path of 64 kbit/s is slow, and honest.
#[test]
fn a_slow_path_is_no_slow_client() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--speedtest", "--stall-timeout", "5", "--resume", "off"];
    let (_server, address, metrics_at) = serve_measured(dir.path(), &args);
    let mut emulator = emulate(address, "--rate 0.064 --rtt 600 --buffer 10000");
    let url = format!("https://{}/bytes/100000", emulator.address());
    let client = Command::new(sibling("edge-client")).args([&url, "--insecure"]).output().unwrap();
    assert!(client.status.success(), "{}", String::from_utf8_lossy(&client.stderr));
    assert_eq!(metrics::read(metrics_at, "edge_server_drops_total"), 0);
}
