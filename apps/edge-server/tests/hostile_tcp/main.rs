//! Hostile input over TCP, sent to a server process: each has its exact response, and the server then
//! serves a regular client.

mod http1_messages;
mod http2_frames;
#[path = "../process/support/mod.rs"]
#[expect(dead_code, reason = "the process tests use the rest")]
mod support;
mod tls;

use std::fs;
use std::net::SocketAddr;

use support::process::serve;
use support::process::Running;
use support::tcp_client::TcpClient;
use support::tcp_client::Version;

/// Starts a server with the files `/a` and `/smuggled`, short time-outs and these options.
fn start(more: &[&str]) -> (tempfile::TempDir, Running, SocketAddr) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a"), "a").unwrap();
    fs::write(dir.path().join("smuggled"), "smuggled").unwrap();
    let args = ["--tcp", "on", "--speedtest", "--stall-timeout", "3", "--idle-timeout", "3"];
    let (server, address) = serve(dir.path(), &[&args, more].concat());
    (dir, server, address)
}

/// Checks that a regular client is served.
#[track_caller]
fn assert_serves(address: SocketAddr) {
    for version in [Version::Http11, Version::Http2] {
        let mut client = TcpClient::connect(address, "localhost", version);
        assert_eq!(client.get("localhost", "/a", &[]).body(), "a", "{version:?}");
    }
}
