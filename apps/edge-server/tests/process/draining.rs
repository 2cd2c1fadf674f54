//! SIGTERM: clients are told, what they asked is finished, and nobody else is let in.

use crate::support::client::Client;
use crate::support::client::Memory;
use crate::support::codes::CONNECTION_REFUSED;
use crate::support::codes::H3_NO_ERROR;
use crate::support::codes::H3_REQUEST_REJECTED;
use crate::support::metrics;
use crate::support::process::serve;

/// RFC 9114, 5.2: requests may still come, and will not soon.
const ALL_STREAMS: u64 = (1 << 62) - 4;

/// More than the transport takes at once.
const LONG: &str = "/bytes/30000000";
const LONG_BYTES: usize = 30_000_000;

#[test]
fn what_was_asked_is_finished_and_nobody_new_is_let_in() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(dir.path(), &["--speedtest", "--workers", "2"]);
    let mut client = Client::connect(address);
    let download = client.request("GET", LONG);
    client.receive(download, 1);
    server.ask_to_drain();
    // On its way when the server begins to drain: GOAWAY is not read yet.
    let on_its_way = client.request("GET", "/bytes/5");
    assert_eq!(client.response(on_its_way).body.len(), 5);
    assert_eq!(client.goaways(1), [ALL_STREAMS]);
    assert_eq!(Client::refused(address, &Memory::default()), CONNECTION_REFUSED);

    server.wait_for("GoingAway(Final");
    assert_eq!(Client::refused(address, &Memory::default()), CONNECTION_REFUSED);
    assert_eq!(client.goaways(2), [ALL_STREAMS, on_its_way + 4]);
    assert_eq!(client.response(download).body.len(), LONG_BYTES);
    assert_eq!(client.closed(), H3_NO_ERROR);
    assert!(server.end().0.success());
}

#[test]
fn whoever_asks_after_the_last_word_may_ask_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(dir.path(), &["--speedtest", "--workers", "1"]);
    let mut client = Client::connect(address);
    let unfinished = client.open_request("/bytes/5");
    client.receive(unfinished, 5);
    server.ask_to_drain();
    server.wait_for("GoingAway(Final");
    // It has not read that it should not ask.
    let late = client.request("GET", "/bytes/5");
    let rejected = client.response(late);
    assert_eq!((rejected.reset, rejected.body.len()), (Some(H3_REQUEST_REJECTED), 0));
    client.end_with_trailers(unfinished);
    assert_eq!(client.closed(), H3_NO_ERROR);
    assert!(server.end().0.success());
}

#[test]
fn a_server_is_ready_until_it_drains_and_healthy_to_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--speedtest", "--workers", "3", "--metrics", "127.0.0.1:0"];
    let (mut server, address) = serve(dir.path(), &args);
    let pages = server.metrics_address();
    let status = |path| metrics::page(pages, path).split(' ').nth(1).map(str::to_owned);
    let statuses = || ["/healthz", "/readyz"].map(status).map(Option::unwrap);
    assert_eq!(statuses(), ["200", "200"]);

    let mut client = Client::connect(address);
    let unfinished = client.open_request("/bytes/5");
    client.receive(unfinished, 5);
    assert_eq!(statuses(), ["200", "200"]);
    server.ask_to_drain();
    server.wait_for("GoingAway(Final");
    assert_eq!(statuses(), ["200", "503"]);
    assert!(metrics::page(pages, "/readyz").ends_with("draining\n"));
    client.end_with_trailers(unfinished);
    assert_eq!(client.closed(), H3_NO_ERROR);
    assert!(server.end().0.success());
}

#[test]
fn connections_without_requests_do_not_keep_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(dir.path(), &["--drain", "1000"]);
    let mut idle = Client::connect(address);
    idle.get("/");
    server.ask_to_drain();
    assert_eq!(idle.closed(), H3_NO_ERROR);
    assert!(server.end().0.success());

    let (mut server, _) = serve(dir.path(), &["--drain", "1000"]);
    server.ask_to_drain();
    assert!(server.end().0.success());
    assert_eq!(server.count("GoingAway("), 0, "there was nobody to wait for");
}

#[test]
fn it_is_waited_for_whoever_has_not_heard_the_last_word() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(dir.path(), &["--drain", "1000"]);
    let mut deaf = Client::connect(address);
    deaf.get("/");
    server.ask_to_drain();
    server.wait_for("GoingAway(TimedOut");
    assert_eq!(deaf.closed(), H3_NO_ERROR);
    assert!(server.end().0.success());
}

#[test]
fn after_the_time_for_it_connections_are_closed() {
    let dir = tempfile::tempdir().unwrap();
    for patience in ["0", "2"] {
        let (mut server, address) = serve(dir.path(), &["--speedtest", "--drain", patience]);
        let mut client = Client::connect(address);
        let unfinished = client.open_request("/bytes/5");
        client.receive(unfinished, 5);
        server.ask_to_drain();
        assert_eq!(client.closed(), H3_NO_ERROR);
        assert!(server.end().0.success());
        assert_eq!(server.count("Closing, 1"), 1);
    }
}

#[test]
fn a_second_signal_ends_everything() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(dir.path(), &["--speedtest", "--drain", "1000"]);
    let mut client = Client::connect(address);
    let download = client.request("GET", LONG);
    client.receive(download, 1);
    server.ask_to_drain();
    server.wait_for("GoingAway(Announced");
    server.ask_to_drain();
    assert_eq!(server.end().0.code(), Some(1));
}
