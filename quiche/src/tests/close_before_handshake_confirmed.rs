//! Close by the application of a client whose handshake is complete and not yet
//! confirmed (RFC 9000, 10.2.3).

use super::*;
use crate::test_utils::emit_flight;
use crate::test_utils::process_flight;
use crate::test_utils::Pipe;

/// More than a client sends at once here.
const PACKETS_MAX: usize = 20;

/// Returns a pipe whose client has received the server's whole handshake.
fn handshake_at_client() -> Pipe {
    let mut pipe = Pipe::new("cubic").unwrap();
    let flight = emit_flight(&mut pipe.client).unwrap();
    process_flight(&mut pipe.server, flight).unwrap();
    let flight = emit_flight(&mut pipe.server).unwrap();
    process_flight(&mut pipe.client, flight).unwrap();
    assert!(pipe.client.is_established());
    pipe
}

/// Returns a pipe whose client has sent its first flight with early data.
fn early_data() -> Pipe {
    let mut config = Pipe::default_config("cubic").unwrap();
    config.enable_early_data();
    let mut pipe = Pipe::with_config(&mut config).unwrap();
    pipe.handshake().unwrap();
    let session = pipe.client.session().unwrap().to_vec();

    let mut pipe = Pipe::with_config(&mut config).unwrap();
    pipe.client.set_session(&session).unwrap();
    let flight = emit_flight(&mut pipe.client).unwrap();
    process_flight(&mut pipe.server, flight).unwrap();
    assert!(pipe.client.is_in_early_data());
    pipe
}

/// Sends until nothing is left. Returns the datagrams.
fn send_all(client: &mut Connection) -> Vec<Vec<u8>> {
    let mut datagrams = Vec::new();
    let mut out = [0; 1500];

    while let Ok((len, _)) = client.send(&mut out) {
        datagrams.push(out[..len].to_vec());
        assert!(datagrams.len() < PACKETS_MAX, "send() does not end");
    }

    datagrams
}

/// Delivers datagrams to the server. Returns the application's error code that it
/// receives.
fn error_at_server(pipe: &mut Pipe, datagrams: Vec<Vec<u8>>) -> Option<u64> {
    for mut datagram in datagrams {
        let _ = pipe.server_recv(&mut datagram);
    }

    let error = pipe.server.peer_error().filter(|error| error.is_app);
    error.map(|error| error.error_code)
}

// The client's last handshake message is lost, and due again as a probe.
#[test]
fn probe_of_a_closing_client_ends() {
    let mut pipe = handshake_at_client();
    let lost = send_all(&mut pipe.client);
    assert!(!lost.is_empty());
    pipe.client.close(true, 7, b"").unwrap();
    std::thread::sleep(pipe.client.timeout().unwrap());
    pipe.client.on_timeout();
    send_all(&mut pipe.client);
    assert!(pipe.client.is_draining(), "the close was sent");
}

// Before the client has acknowledged anything.
#[test]
fn close_at_once_is_sent() {
    let mut pipe = handshake_at_client();
    pipe.client.close(true, 7, b"").unwrap();
    send_all(&mut pipe.client);
    assert!(pipe.client.is_draining(), "the close was sent");
}

// The message arrives, and HANDSHAKE_DONE does not.
#[test]
fn server_is_told_of_a_close_before_confirmation() {
    let mut pipe = handshake_at_client();
    let flight = emit_flight(&mut pipe.client).unwrap();
    process_flight(&mut pipe.server, flight).unwrap();
    assert!(pipe.server.is_established());
    std::thread::sleep(pipe.client.timeout().unwrap());
    pipe.client.close(true, 7, b"").unwrap();
    pipe.client.on_timeout();
    let sent = send_all(&mut pipe.client);
    assert_eq!(error_at_server(&mut pipe, sent), Some(7));
}

// A client with early data closes before it has the whole answer.
#[test]
fn close_in_early_data_is_sent() {
    let mut pipe = early_data();
    let mut flight = emit_flight(&mut pipe.server).unwrap();
    flight.truncate(1);
    process_flight(&mut pipe.client, flight).unwrap();
    assert!(pipe.client.is_in_early_data());

    pipe.client.close(true, 7, b"").unwrap();
    let sent = send_all(&mut pipe.client);
    assert!(pipe.client.is_draining(), "the close was sent");
    assert_eq!(error_at_server(&mut pipe, sent), Some(7));
}

// A server may close in answer to early data, before the handshake is complete.
#[test]
fn close_by_a_server_in_early_data_is_sent() {
    let mut pipe = early_data();
    assert!(pipe.server.is_in_early_data());
    pipe.server.close(true, 7, b"").unwrap();
    send_all(&mut pipe.server);
    assert!(pipe.server.is_draining(), "the close was sent");
}
