//! SIGTERM, as probes of its health and a second signal see it. What clients see is tested
//! in memory: `worker/tests/drain.rs`.

use crate::support::client::UdpClient;
use crate::support::client::H3_NO_ERROR;
use crate::support::metrics;
use crate::support::process::serve;
use crate::support::process::server_command;
use crate::support::process::Running;

/// More than the transport takes at once.
const LONG: &str = "/bytes/30000000";

#[test]
fn readiness_ends_with_the_drain_and_health_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--speedtest", "--workers", "3", "--metrics", "127.0.0.1:0"];
    let (mut server, address) = serve(dir.path(), &args);
    let pages = server.metrics_address();
    let status = |path| metrics::page(pages, path).split(' ').nth(1).map(str::to_owned);
    let statuses = || ["/healthz", "/readyz"].map(status).map(Option::unwrap);
    assert_eq!(statuses(), ["200", "200"]);

    let mut client = UdpClient::connect(address);
    let unfinished = client.open_request("/bytes/5");
    client.receive(unfinished, 5);
    assert_eq!(statuses(), ["200", "200"]);
    server.ask_to_drain();
    client.goaways(2);
    assert_eq!(statuses(), ["200", "503"]);
    assert!(metrics::page(pages, "/readyz").ends_with("draining\n"));
    client.end_with_trailers(unfinished);
    assert_eq!(client.closed(), H3_NO_ERROR);
    assert!(server.end().0.success());
}

#[test]
fn second_signal_ends_the_process_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(dir.path(), &["--speedtest", "--drain", "1000"]);
    let mut client = UdpClient::connect(address);
    let download = client.request("GET", LONG);
    client.receive(download, 1);
    server.ask_to_drain();
    client.goaways(1);
    server.ask_to_drain();
    assert_eq!(server.end().0.code(), Some(1));
}

#[test]
fn log_counts_connections_of_a_drain() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(dir.path(), &["--speedtest", "--drain", "3"]);
    let mut unfinished = UdpClient::connect(address);
    let stream = unfinished.open_request("/bytes/5");
    unfinished.receive(stream, 5);
    let mut idle: Vec<_> = (0..2).map(|_| UdpClient::connect(address)).collect();
    idle.iter_mut().for_each(|client| drop(client.get("/bytes/5")));
    server.ask_to_drain();
    for client in &mut idle {
        assert_eq!(client.closed(), H3_NO_ERROR);
    }
    let (status, said) = server.end();
    assert!(status.success());
    assert!(
        said.iter().any(|line| line.ends_with("the drain has timed out; closing connections: 1")),
        "{said:?}"
    );
    let last = said.last().unwrap();
    assert!(
        last.ends_with("stopped; connections that ended by themselves: 2, closed: 1"),
        "{last}"
    );
}

#[test]
fn log_counts_connections_of_a_stop() {
    let dir = tempfile::tempdir().unwrap();
    let (mut server, address) = serve(dir.path(), &["--speedtest", "--workers", "3"]);
    let mut clients: Vec<_> = (0..4).map(|_| UdpClient::connect(address)).collect();
    clients.iter_mut().for_each(|client| drop(client.get("/bytes/5")));
    server.ask_to_stop();
    let (status, said) = server.end();
    assert!(status.success());
    assert!(said.iter().any(|line| line.ends_with("stopping; closing connections: 4")), "{said:?}");
    let last = said.last().unwrap();
    assert!(
        last.ends_with("stopped; connections that ended by themselves: 0, closed: 4"),
        "{last}"
    );
}

// As under a supervisor whose log collector hangs.
#[test]
fn server_whose_messages_nobody_reads_serves_reloads_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--listen", "127.0.0.1:0", "--speedtest", "--root"];
    let mut command = server_command(&args);
    let mut server = Running::start(command.arg(dir.path()).env("RUST_LOG", "trace"));
    let address = server.address();
    server.stall();
    // More lines than two pipes take.
    for _ in 0..3 {
        let mut client = UdpClient::connect(address);
        assert_eq!(client.get("/bytes/300000").body.len(), 300_000);
        client.close();
        server.ask_to_reload();
    }
    server.ask_to_drain();
    assert!(server.end().0.success());
}
