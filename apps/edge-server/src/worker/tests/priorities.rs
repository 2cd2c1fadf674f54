//! Priorities of responses (RFC 9218), over a path that carries 10 Mbit/s and holds
//! 100 kB: progress is compared in bytes received.

use super::client::Client;
use super::harness::Server;
use super::path::Path;

const BULK: &str = "/bytes/2000000";
const BULK_BYTES: usize = 2_000_000;

/// What may come of others when they have to wait: what is under way.
const UNDER_WAY_BYTES: usize = 200_000;

/// With pacing and Careful Resume, or as upstream has it.
const RESUME: [&str; 2] = ["on", "off"];

fn connect(resume: &str) -> Client {
    let server = Server::start(&["--speedtest", "--resume", resume]);
    server.client().over(&Path::new(10.0, 40, 50_000)).connect()
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
fn priorities_unsaid_share_fairly() {
    for resume in RESUME {
        let mut client = connect(resume);
        let streams: Vec<_> = (0..3).map(|_| client.ask(BULK, &[])).collect();
        client.receive(streams[0], BULK_BYTES);
        for stream in &streams[1..] {
            let share = client.received_bytes(*stream);
            assert!(share > BULK_BYTES * 9 / 10, "{resume}: {share} of {BULK_BYTES}");
        }
    }
}

#[test]
fn priorities_incremental_of_one_urgency_share_fairly() {
    let mut client = connect(RESUME[0]);
    let streams: Vec<_> = (0..2).map(|_| client.ask(BULK, &[("priority", "u=5, i")])).collect();
    client.receive(streams[0], BULK_BYTES);
    let share = client.received_bytes(streams[1]);
    assert!(share > BULK_BYTES * 9 / 10, "{share} of {BULK_BYTES}");
}

// RFC 9218, 10: the sooner each can be used, the better.
#[test]
fn priorities_not_incremental_come_one_by_one() {
    let mut client = connect(RESUME[0]);
    let streams: Vec<_> = (0..2).map(|_| client.ask(BULK, &[("priority", "u=3")])).collect();
    assert!(overtaken(&mut client, streams[0], &streams[1..]) < UNDER_WAY_BYTES);
    // It does not starve.
    assert_eq!(client.response(streams[1]).body.len(), BULK_BYTES);
}

#[test]
fn priorities_urgent_overtakes_bulk() {
    for resume in RESUME {
        let mut client = connect(resume);
        let bulk: Vec<_> = (0..8).map(|_| client.ask(BULK, &[])).collect();
        client.receive(bulk[0], 50_000);
        // Its share alone would let eight times as much of the others by.
        let urgent = client.ask("/bytes/400000", &[("priority", "u=1")]);
        let came = overtaken(&mut client, urgent, &bulk);
        assert!(came < UNDER_WAY_BYTES, "{resume}: {came}");
    }
}

#[test]
fn priority_update_reorders_what_is_under_way() {
    let mut client = connect(RESUME[0]);
    let bulk: Vec<_> = (0..4).map(|_| client.ask(BULK, &[])).collect();
    client.receive(bulk[0], 50_000);
    client.prioritize(bulk[3], 0, false);
    // Each would get as much as it.
    let came = overtaken(&mut client, bulk[3], &bulk[..3]);
    assert!(came < UNDER_WAY_BYTES, "{came}");
}

// RFC 9218, 7.1: an update overrides the field, and may come first.
#[test]
fn priority_update_with_its_request_counts() {
    let mut client = connect(RESUME[0]);
    let bulk: Vec<_> = (0..4).map(|_| client.ask(BULK, &[])).collect();
    client.receive(bulk[0], 50_000);
    let late = client.ask("/bytes/400000", &[("priority", "u=7")]);
    client.prioritize(late, 0, false);
    let came = overtaken(&mut client, late, &bulk);
    assert!(came < UNDER_WAY_BYTES, "{came}");
}
