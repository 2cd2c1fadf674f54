//! Drain: clients are told, what they asked is finished, and nobody else is let in.

use std::time::Duration;

use super::codes::CONNECTION_REFUSED;
use super::codes::H3_NO_ERROR;
use super::codes::H3_REQUEST_REJECTED;
use super::harness::Server;

/// RFC 9114, 5.2: requests may still come, and will not soon.
const ALL_STREAMS: u64 = (1 << 62) - 4;

/// More than the transport takes at once.
const LONG: &str = "/bytes/30000000";
const LONG_BYTES: usize = 30_000_000;

/// From the first GOAWAY to the final one.
const ANNOUNCEMENT: Duration = Duration::from_secs(1);

/// How long the final one may take to be acknowledged.
const HEARING: Duration = Duration::from_secs(3);

/// How long clients may take to hear that their connections are closed.
const CLOSING: Duration = Duration::from_secs(1);

#[test]
fn drain_finishes_what_was_asked_and_refuses_others() {
    let server = Server::start(&["--speedtest"]);
    let slow = super::path::Path::new(40.0, 20, 10_000_000);
    let mut client = server.client().over(&slow).connect();
    let download = client.request("GET", LONG);
    client.receive(download, 1);
    server.drain();
    // On its way when the server begins to drain: GOAWAY has not been read yet.
    let on_its_way = client.request("GET", "/bytes/5");
    assert_eq!(client.response(on_its_way).body.len(), 5);
    assert_eq!(client.goaways(1), [ALL_STREAMS]);
    assert_eq!(server.client().refused(), CONNECTION_REFUSED);

    assert_eq!(client.goaways(2), [ALL_STREAMS, on_its_way + 4]);
    assert!(client.received_bytes(download) < LONG_BYTES);
    assert_eq!(server.client().refused(), CONNECTION_REFUSED);
    assert_eq!(client.response(download).body.len(), LONG_BYTES);
    assert_eq!(client.closed(), H3_NO_ERROR);
    server.end();
}

#[test]
fn goaway_final_rejects_later_requests() {
    let server = Server::start(&["--speedtest"]);
    let mut client = server.connect();
    let unfinished = client.open_request("/bytes/5");
    client.receive(unfinished, 5);
    // It reads nothing of what it is told meanwhile.
    client.fall_silent();
    server.drain();
    server.lab().advance(ANNOUNCEMENT + Duration::from_millis(10));
    client.wake_up();
    let late = client.request("GET", "/bytes/5");
    let rejected = client.response(late);
    assert_eq!((rejected.reset, rejected.body.len()), (Some(H3_REQUEST_REJECTED), 0));
    client.end_with_trailers(unfinished);
    assert_eq!(client.closed(), H3_NO_ERROR);
    server.end();
}

#[test]
fn drain_without_clients_ends_at_once() {
    let server = Server::start(&["--drain", "1000"]);
    server.drain();
    assert!(server.is_over());
    assert_eq!(server.lab().now(), Duration::ZERO);
}

#[test]
fn drain_does_not_wait_for_idle_connections() {
    let server = Server::start(&["--drain", "1000"]);
    let mut idle = server.connect();
    idle.get("/");
    let begun = server.lab().now();
    server.drain();
    assert_eq!(idle.closed(), H3_NO_ERROR);
    server.end();
    let taken = server.lab().now() - begun;
    assert!((ANNOUNCEMENT..2 * ANNOUNCEMENT).contains(&taken), "{taken:?}");
}

#[test]
fn goaway_unacknowledged_is_waited_for_three_seconds() {
    let server = Server::start(&["--drain", "1000"]);
    let mut deaf = server.connect();
    deaf.get("/");
    deaf.fall_silent();
    let begun = server.lab().now();
    server.drain();
    server.lab().advance(ANNOUNCEMENT + HEARING - Duration::from_millis(1));
    assert!(!server.is_over());
    server.lab().advance(Duration::from_millis(1));
    deaf.wake_up();
    assert_eq!(deaf.closed(), H3_NO_ERROR);
    server.end();
    assert!(server.lab().now() - begun < ANNOUNCEMENT + HEARING + CLOSING);
}

#[test]
fn drain_closes_connections_when_its_time_is_over() {
    for patience in [0, 2] {
        let server = Server::start(&["--speedtest", "--drain", &patience.to_string()]);
        let mut client = server.connect();
        let unfinished = client.open_request("/bytes/5");
        client.receive(unfinished, 5);
        let begun = server.lab().now();
        server.drain();
        assert_eq!(client.closed(), H3_NO_ERROR);
        server.end();
        let taken = server.lab().now() - begun;
        let patience = Duration::from_secs(patience);
        assert!((patience..patience + CLOSING).contains(&taken), "{taken:?}");
    }
}

#[test]
fn stop_closes_connections_at_once() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    client.get("/");
    let begun = server.lab().now();
    server.stop();
    assert_eq!(client.closed(), H3_NO_ERROR);
    server.end();
    assert!(server.lab().now() - begun < Duration::from_millis(50));
}

// The congestion window also holds CONNECTION_CLOSE back: the server stays until it is sent.
#[test]
fn stop_reaches_a_client_whose_window_is_full() {
    let server = Server::start(&["--speedtest"]);
    let mut client = server.connect();
    let stream = client.request("GET", "/bytes/90000000");
    client.receive(stream, 100_000);
    client.fall_silent();
    server.lab().advance(Duration::from_millis(100));
    server.stop();
    server.lab().advance(Duration::from_millis(100));
    client.wake_up();
    assert_eq!(client.closed(), H3_NO_ERROR);
    server.end();
}

#[test]
fn stop_does_not_wait_for_a_silent_client() {
    let server = Server::start(&["--speedtest"]);
    let mut client = server.connect();
    let stream = client.request("GET", "/bytes/90000000");
    client.receive(stream, 100_000);
    client.fall_silent();
    server.lab().advance(Duration::from_millis(100));
    let begun = server.lab().now();
    server.stop();
    server.end();
    assert!(server.lab().now() - begun <= CLOSING);
}

// RFC 9000, 10.2.3: whichever packets the client can read then.
#[test]
fn client_is_told_of_a_stop_at_any_moment_of_its_handshake() {
    let path = super::path::Path::new(40.0, 100, 10_000_000);
    // After half a round trip the server knows of the client.
    for after_ms in (60..360).step_by(10) {
        let server = Server::start(&["--speedtest"]);
        let mut client = server.client().over(&path).begin();
        server.lab().advance(Duration::from_millis(after_ms));
        server.stop();
        assert!(client.is_reset(), "after {after_ms} ms");
        server.end();
    }
}
