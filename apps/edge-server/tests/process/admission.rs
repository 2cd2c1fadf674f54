//! Clients that prove their addresses before, or after, they have a connection.

use std::net::SocketAddr;
use std::net::UdpSocket;
use std::path::Path;

use crate::abuse::forge_initial;
use crate::support::client::Client;
use crate::support::client::Memory;
use crate::support::flood::client_config;
use crate::support::metrics;
use crate::support::process::serve;
use crate::support::process::Running;

/// INVALID_TOKEN (RFC 9000, 20.1).
const INVALID_TOKEN: u64 = 0xb;

/// A client begins with so many packets, each of which is judged and answered.
const PACKETS: u64 = 2;

const RETRIES: &str = "edge_server_retries_total";

/// A server with metrics, and where both are.
pub fn serve_measured(root: &Path, more: &[&str]) -> (Running, SocketAddr, SocketAddr) {
    std::fs::write(root.join("index.html"), "home").unwrap();
    let (mut server, address) = serve(root, &[&["--metrics", "127.0.0.1:0"], more].concat());
    let metrics_at = server.metrics_address();
    (server, address, metrics_at)
}

fn tokens(metrics_at: SocketAddr, kind: &str, outcome: &str) -> u64 {
    let name = format!("edge_server_tokens_total{{kind=\"{kind}\",outcome=\"{outcome}\"}}");
    metrics::read(metrics_at, &name)
}

fn with_token(token: &[u8]) -> Memory {
    Memory { token: Some(token.to_vec()), session: None }
}

#[test]
fn a_new_client_comes_back_with_the_token_of_a_retry() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address, metrics_at) = serve_measured(dir.path(), &["--retry-above", "0"]);
    assert_eq!(Client::connect(address).get("/").body, b"home");
    assert_eq!(metrics::read(metrics_at, RETRIES), PACKETS);
    assert_eq!(tokens(metrics_at, "retry", "accepted"), 1);
}

#[test]
fn nobody_is_sent_back_while_few_come() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address, metrics_at) = serve_measured(dir.path(), &[]);
    assert_eq!(Client::connect(address).get("/").body, b"home");
    assert_eq!(metrics::read(metrics_at, RETRIES), 0);
}

#[test]
fn only_handshakes_under_way_have_others_prove_their_addresses() {
    const OPEN: &str = "edge_server_connections_open";
    let dir = tempfile::tempdir().unwrap();
    let args = ["--retry-above", "1", "--workers", "1"];
    let (_server, address, metrics_at) = serve_measured(dir.path(), &args);

    // One is complete, one has failed: what came cannot be decrypted.
    let mut first = Client::connect(address);
    assert_eq!(first.get("/").body, b"home");
    let junk = [&[0xc0, 0, 0, 0, 1, 8][..], b"original", &[0, 0, 0x44, 0], &[7; 1200]].concat();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(&junk, address).unwrap();
    metrics::wait_until(metrics_at, "edge_server_connections_total", |accepted| accepted == 2);
    metrics::wait_until(metrics_at, OPEN, |open| open == 1);
    let mut second = Client::connect(address);
    assert_eq!(second.get("/").body, b"home");
    assert_eq!(metrics::read(metrics_at, RETRIES), 0);

    forge_initial(address, 0, &mut client_config());
    metrics::wait_until(metrics_at, OPEN, |open| open == 3);
    let mut third = Client::connect(address);
    assert_eq!(metrics::read(metrics_at, RETRIES), PACKETS);
    [&mut first, &mut second, &mut third].into_iter().for_each(Client::close);
}

// RFC 9000, 8.1.3.
#[test]
fn the_token_of_an_earlier_connection_spares_the_retry_once() {
    let dir = tempfile::tempdir().unwrap();
    // Another worker would take the token once, too.
    let args = ["--retry-above", "0", "--workers", "1"];
    let (_server, address, metrics_at) = serve_measured(dir.path(), &args);
    let memory = Memory { session: None, ..Client::connect(address).memory() };
    for (retries, replayed) in [(PACKETS, 0), (2 * PACKETS, PACKETS)] {
        let mut client = Client::connect_again(address, &memory);
        assert_eq!(client.get("/").body, b"home");
        assert_eq!(metrics::read(metrics_at, RETRIES), retries);
        assert_eq!(tokens(metrics_at, "new_token", "accepted"), 1);
        assert_eq!(tokens(metrics_at, "new_token", "replayed"), replayed);
    }
}

// RFC 9000, 8.1.2 and 8.1.3.
#[test]
fn a_token_that_may_be_of_a_retry_is_refused_and_any_other_is_as_none() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, address, metrics_at) = serve_measured(dir.path(), &[]);
    let forged = [&b"R"[..], &[7; 60]].concat();
    assert_eq!(Client::refused(address, &with_token(&forged)), INVALID_TOKEN);

    let mut client = Client::connect_again(address, &with_token(b"of another server"));
    assert_eq!(client.get("/").body, b"home");
    assert_eq!(tokens(metrics_at, "unknown", "unknown"), 1);
}
