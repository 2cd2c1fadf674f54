//! Priorities of responses (RFC 9218), over a path that carries 10 Mbit/s and holds
//! 100 kB: progress is compared in bytes received, not in time.

use crate::support::client::Client;
use crate::support::lab::emulate;
use crate::support::process::serve;
use crate::support::process::Running;

const PATH: &str = "--rate 10 --rtt 40 --buffer 50000";
const BULK: &str = "/bytes/2000000";
const BULK_BYTES: usize = 2_000_000;

/// What may come of others when they have to wait: what is under way, and what a busy
/// machine lets by before the server hears of it.
const UNDER_WAY_BYTES: usize = 1_000_000;

struct Path {
    client: Client,
    _processes: (Running, Running),
    _dir: tempfile::TempDir,
}

/// With pacing and Careful Resume, or as upstream has it.
const RESUME: [&str; 2] = ["on", "off"];

fn path(resume: &str) -> Path {
    let dir = tempfile::tempdir().unwrap();
    let (server, address) = serve(dir.path(), &["--speedtest", "--resume", resume]);
    let mut emulator = emulate(address, PATH);
    let client = Client::connect(emulator.address());
    Path { client, _processes: (server, emulator), _dir: dir }
}

/// Bytes of the others that came while a stream's response was being received.
fn overtaken(client: &mut Client, stream: u64, others: &[u64]) -> usize {
    let received = |client: &Client| -> usize {
        others.iter().map(|other| client.received_bytes(*other)).sum()
    };
    let before = received(client);
    assert_eq!(client.response(stream).status(), "200");
    received(client) - before
}

#[test]
fn downloads_without_a_priority_share_fairly() {
    for resume in RESUME {
        let mut path = path(resume);
        let client = &mut path.client;
        let streams: Vec<_> = (0..3).map(|_| client.ask(BULK, &[])).collect();
        client.receive(streams[0], BULK_BYTES);
        for stream in &streams[1..] {
            let share = client.received_bytes(*stream);
            assert!(share > BULK_BYTES * 3 / 4, "{resume}: {share} of {BULK_BYTES}");
        }
    }
}

#[test]
fn incremental_downloads_of_one_urgency_share_fairly() {
    let mut path = path(RESUME[0]);
    let client = &mut path.client;
    let streams: Vec<_> = (0..2).map(|_| client.ask(BULK, &[("priority", "u=5, i")])).collect();
    client.receive(streams[0], BULK_BYTES);
    let share = client.received_bytes(streams[1]);
    assert!(share > BULK_BYTES * 3 / 4, "{share} of {BULK_BYTES}");
}

// RFC 9218, 10: the sooner each can be used, the better.
#[test]
fn downloads_that_are_not_incremental_come_one_by_one() {
    let mut path = path(RESUME[0]);
    let client = &mut path.client;
    let streams: Vec<_> = (0..2).map(|_| client.ask(BULK, &[("priority", "u=3")])).collect();
    assert!(overtaken(client, streams[0], &streams[1..]) < UNDER_WAY_BYTES);
    // It does not starve.
    assert_eq!(client.response(streams[1]).body.len(), BULK_BYTES);
}

#[test]
fn an_urgent_object_overtakes_bulk_ones() {
    for resume in RESUME {
        let mut path = path(resume);
        let client = &mut path.client;
        let bulk: Vec<_> = (0..8).map(|_| client.ask(BULK, &[])).collect();
        client.receive(bulk[0], 50_000);
        // Its share alone would let eight times as much of the others by.
        let urgent = client.ask("/bytes/400000", &[("priority", "u=1")]);
        assert!(overtaken(client, urgent, &bulk) < UNDER_WAY_BYTES, "{resume}");
    }
}

#[test]
fn an_update_changes_the_order_of_what_is_under_way() {
    let mut path = path(RESUME[0]);
    let client = &mut path.client;
    let bulk: Vec<_> = (0..4).map(|_| client.ask(BULK, &[])).collect();
    client.receive(bulk[0], 50_000);
    client.prioritize(bulk[3], 0, false);
    // Each would get as much as it.
    assert!(overtaken(client, bulk[3], &bulk[..3]) < UNDER_WAY_BYTES);
}

// RFC 9218, 7.1: an update overrides the field, and may come first.
#[test]
fn an_update_that_comes_with_its_request_counts() {
    let mut path = path(RESUME[0]);
    let client = &mut path.client;
    let bulk: Vec<_> = (0..4).map(|_| client.ask(BULK, &[])).collect();
    client.receive(bulk[0], 50_000);
    let late = client.ask("/bytes/400000", &[("priority", "u=7")]);
    client.prioritize(late, 0, false);
    assert!(overtaken(client, late, &bulk) < UNDER_WAY_BYTES);
}
