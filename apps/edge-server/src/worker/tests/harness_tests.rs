//! Tests of the harness itself.

use std::time::Duration;

use super::harness::Lab;
use super::harness::Server;
use super::path::Path;

/// Every datagram of a lossy download, with its time.
fn lossy_download(seed: u64) -> Vec<(Duration, usize, bool)> {
    let lab = Lab::with_seed(seed);
    let server = lab.serve(&["--speedtest"]);
    let path = Path::new(20.0, 50, 50_000).losing(0.02);
    let mut client = server.client().over(&path).connect();
    assert_eq!(client.get("/bytes/300000").body.len(), 300_000);
    let (up, down) = client.datagrams();
    [up, down].concat().iter().map(|sent| (sent.at, sent.bytes, sent.arrives)).collect()
}

#[test]
fn harness_same_seed_repeats_every_packet() {
    let once = lossy_download(1);
    assert!(once.iter().any(|(.., arrives)| !arrives), "nothing is lost");
    assert_eq!(once, lossy_download(1));
    assert_ne!(once, lossy_download(2));
}

#[test]
fn harness_time_is_that_of_the_path() {
    let server = Server::start(&[]);
    let mut client = server.client().over(&Path::new(1000.0, 200, 1_000_000)).connect();
    let begun = server.lab().now();
    assert_eq!(client.get("/").body, b"home");
    let taken = server.lab().now() - begun;
    assert!((200..=202).contains(&taken.as_millis()), "{taken:?}");
}

// What waits for a socket that is full goes out when it has room.
#[test]
fn socket_without_room_delays_packets() {
    let server = Server::start(&["--speedtest"]);
    let mut client = server.connect();
    let stream = client.request("GET", "/bytes/1000000");
    server.limit_socket(Some(20_000));
    server.lab().advance(Duration::from_millis(50));
    assert!(client.received_bytes(stream) < 20_000);
    server.limit_socket(None);
    assert_eq!(client.response(stream).body.len(), 1_000_000);
}
