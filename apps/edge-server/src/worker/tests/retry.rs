//! Retry and tokens: clients that prove their addresses before, or after, they have a
//! connection.

use super::client::first_packet;
use super::client::ResumptionData;
use super::harness::Lab;
use super::harness::Server;
use super::harness::CLIENT;

/// INVALID_TOKEN (RFC 9000, 20.1).
const INVALID_TOKEN: u64 = 0xb;

/// A client begins with so many packets, each of which is judged and answered.
const PACKETS: u64 = 2;

const RETRIES: &str = "edge_server_retries_total";

fn tokens(server: &Server, kind: &str, outcome: &str) -> u64 {
    let name = format!("edge_server_tokens_total{{kind=\"{kind}\",outcome=\"{outcome}\"}}");
    server.metric(&name)
}

fn with_token(token: &[u8]) -> ResumptionData {
    ResumptionData { token: Some(token.to_vec()), session: None }
}

#[test]
fn retry_brings_a_new_client_back_with_its_token() {
    let server = Server::start(&["--retry-above", "0"]);
    assert_eq!(server.connect().get("/").body, b"home");
    assert_eq!(server.metric(RETRIES), PACKETS);
    assert_eq!(tokens(&server, "retry", "accepted"), 1);
}

#[test]
fn retry_is_not_sent_while_few_come() {
    let server = Server::start(&[]);
    assert_eq!(server.connect().get("/").body, b"home");
    assert_eq!(server.metric(RETRIES), 0);
}

#[test]
fn retry_counts_only_handshakes_under_way() {
    const OPEN: &str = "edge_server_connections_open";
    let server = Server::start(&["--retry-above", "1"]);

    // One is complete, one has failed: what came cannot be decrypted.
    let mut first = server.connect();
    assert_eq!(first.get("/").body, b"home");
    let junk = [&[0xc0, 0, 0, 0, 1, 8][..], b"original", &[0, 0, 0x44, 0], &[7; 1200]].concat();
    server.lab().peer(CLIENT).send(&server, junk);
    server.wait_for_metric("edge_server_connections_total", |accepted| accepted == 2);
    server.wait_for_metric(OPEN, |open| open == 1);
    let mut second = server.connect();
    assert_eq!(second.get("/").body, b"home");
    assert_eq!(server.metric(RETRIES), 0);

    let forger = server.lab().peer(CLIENT);
    forger.send(&server, first_packet(forger.address, server.address()));
    server.wait_for_metric(OPEN, |open| open == 3);
    let _third = server.connect();
    assert_eq!(server.metric(RETRIES), PACKETS);
}

// RFC 9000, 8.1.3.
#[test]
fn token_of_an_earlier_connection_spares_retry_once() {
    let server = Server::start(&["--retry-above", "0"]);
    let memory = ResumptionData { session: None, ..server.connect().resumption_data() };
    for (retries, replayed) in [(PACKETS, 0), (2 * PACKETS, PACKETS)] {
        let mut client = server.client().with(&memory).connect();
        assert_eq!(client.get("/").body, b"home");
        assert_eq!(server.metric(RETRIES), retries);
        assert_eq!(tokens(&server, "new_token", "accepted"), 1);
        assert_eq!(tokens(&server, "new_token", "replayed"), replayed);
    }
}

// RFC 9000, 8.1.2.
#[test]
fn token_that_may_be_of_a_retry_is_refused() {
    let server = Server::start(&[]);
    let forged = [&b"R"[..], &[7; 60]].concat();
    assert_eq!(server.client().with(&with_token(&forged)).refused(), INVALID_TOKEN);
}

// RFC 9000, 8.1.3.
#[test]
fn token_of_another_server_counts_as_none() {
    let server = Server::start(&[]);
    let mut client = server.client().with(&with_token(b"of another server")).connect();
    assert_eq!(client.get("/").body, b"home");
    assert_eq!(tokens(&server, "unknown", "unknown"), 1);
}

// Servers without a file of secrets know nothing of each other's tokens.
#[test]
fn token_is_of_no_use_at_a_server_with_other_secrets() {
    let lab = Lab::new();
    let [one, other] = [(); 2].map(|()| lab.serve(&["--retry-above", "0"]));
    let memory = ResumptionData { session: None, ..one.connect().resumption_data() };
    assert_eq!(other.client().with(&memory).connect().get("/").body, b"home");
    assert_eq!(other.metric(RETRIES), PACKETS);
}
