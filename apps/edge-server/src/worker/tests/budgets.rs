//! Budgets of all connections: the largest keeper makes room, the others are served on.

use super::client::Client;
use super::client::ClientLimits;
use super::codes::H3_EXCESSIVE_LOAD;
use super::harness::Server;
use super::path::Path;

const KEPT: &str = "edge_server_kept_bytes{what=\"responses\"}";
const EVICTIONS: &str = "edge_server_evictions_total{what=\"responses\"}";

const SMALL_BYTES: usize = 200_000;

/// A client that takes some of a response, and then neither reads nor acknowledges.
#[track_caller]
fn keeper(server: &Server, bytes: usize, taken: usize) -> (Client, u64) {
    let mut client = server.connect();
    let stream = client.request("GET", &format!("/bytes/{bytes}"));
    client.receive(stream, taken);
    client.fall_silent();
    server.lab().advance(std::time::Duration::from_millis(100));
    (client, stream)
}

#[test]
fn largest_keeper_makes_room_for_all() {
    let server = Server::start(&["--speedtest", "--responses-memory-max", "2000000"]);
    let mut small = keeper(&server, SMALL_BYTES, 10_000);
    let small_kept = server.metric(KEPT);
    let mut large = keeper(&server, 5_000_000, 600_000);
    let large_kept = server.metric(KEPT) - small_kept;
    assert!(large_kept > 2 * small_kept, "{small_kept} {large_kept}");
    assert_eq!(server.metric(EVICTIONS), 0);

    let mut others = Vec::new();
    while server.metric(EVICTIONS) == 0 {
        others.push(keeper(&server, SMALL_BYTES, 10_000));
        assert!(others.len() < 20, "{}", server.metric(KEPT));
    }
    assert_eq!(server.metric(EVICTIONS), 1);
    assert!(server.metric(KEPT) <= 2_000_000);
    // One that came later, and one that was there before.
    let (last, stream) = others.last_mut().unwrap();
    last.wake_up();
    small.0.wake_up();
    assert_eq!(last.response(*stream).body.len(), SMALL_BYTES);
    assert_eq!(small.0.response(small.1).body.len(), SMALL_BYTES);
    assert!(large.0.is_closed_by(H3_EXCESSIVE_LOAD));
}

// The client that had them opened leaves, and the one that stays sends nothing.
#[test]
fn files_left_to_a_silent_client_count_for_it() {
    const FILES: &str = "edge_server_files_open ";
    let server = Server::start(&[]);
    (0..5).for_each(|n| server.lab().write(&format!("www/{n}"), vec![7; 3_000_000]));
    let hold = |from: [u8; 4]| {
        let limits = ClientLimits { window_bytes: 100_000, ..ClientLimits::default() };
        let mut client = server.client().from(from).granting(limits).connect();
        for n in 0..5 {
            client.request("GET", &format!("/{n}"));
        }
        server.lab().advance(std::time::Duration::from_millis(100));
        client
    };
    let mut first = hold([203, 0, 113, 1]);
    let mut silent = hold([203, 0, 114, 1]);
    assert_eq!(server.metric(FILES), 5);
    silent.fall_silent();
    first.close();
    server.wait_for_metric("edge_server_connections_open", |open| open == 1);
    assert_eq!(server.metric(FILES), 5);
}

#[test]
fn kept_bytes_return_to_zero_once_acknowledged() {
    let server = Server::start(&["--speedtest"]);
    let mut client = server.client().over(&Path::new(20.0, 100, 250_000)).connect();
    let stream = client.request("GET", "/bytes/3000000");
    client.receive(stream, 1_000_000);
    let kept = server.metric(KEPT);
    assert!((100_000..1_000_000).contains(&kept), "{kept}");
    client.response(stream);
    server.wait_for_metric(KEPT, |kept| kept == 0);
    client.close();
}

#[test]
fn limit_of_kept_bytes_follows_a_reload() {
    let server = Server::start(&["--speedtest"]);
    let (mut client, _) = keeper(&server, 5_000_000, 1_500_000);
    assert_eq!(server.metric(EVICTIONS), 0);
    server.reload(&["--speedtest", "--responses-memory-max", "1048576"]);
    let (mut other, _) = keeper(&server, SMALL_BYTES, 10_000);
    server.lab().advance(std::time::Duration::from_secs(1));
    assert_eq!(server.metric(EVICTIONS), 1);
    assert!(client.is_closed_by(H3_EXCESSIVE_LOAD));
    other.wake_up();
    assert_eq!(other.get("/").body, b"home");
}
