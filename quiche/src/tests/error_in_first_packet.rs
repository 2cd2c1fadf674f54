//! Errors before the handshake is complete, of which the client is told
//! (RFC 9000, 10.2.3).

use super::*;
use crate::test_utils::emit_flight;
use crate::test_utils::encode_pkt;
use crate::test_utils::process_flight;
use crate::test_utils::Pipe;

/// Delivers the server's packets. Returns the error that the client receives.
fn error_at_client(pipe: &mut Pipe) -> Option<u64> {
    let flight = emit_flight(&mut pipe.server).unwrap_or_default();
    let _ = process_flight(&mut pipe.client, flight);
    pipe.client.peer_error().map(|error| error.error_code)
}

/// Returns a pipe that has lost the server's first flight.
fn without_servers_flight() -> Pipe {
    let mut pipe = Pipe::new("cubic").unwrap();
    let flight = emit_flight(&mut pipe.client).unwrap();
    process_flight(&mut pipe.server, flight).unwrap();
    assert!(!emit_flight(&mut pipe.server).unwrap().is_empty());
    pipe
}

/// The server receives an Initial packet of the client, which is an error.
fn receive_wrong_packet(pipe: &mut Pipe) {
    let mut packet = [0; 1500];
    let frames = [
        frame::Frame::HandshakeDone,
        frame::Frame::Padding { len: 50 },
    ];
    let client = &mut pipe.client;
    let len = encode_pkt(client, Type::Initial, &frames, &mut packet).unwrap();
    let received = pipe.server_recv(&mut packet[..len]);
    assert_eq!(received, Err(Error::InvalidPacket));
}

#[test]
fn client_is_told_of_an_error_in_its_first_packet() {
    let mut pipe = Pipe::new("cubic").unwrap();
    receive_wrong_packet(&mut pipe);
    assert!(!pipe.server.is_closed());
    let violation = WireErrorCode::ProtocolViolation as u64;
    assert_eq!(error_at_client(&mut pipe), Some(violation));
}

// The server has all keys then, and the client those of Initial packets only.
#[test]
fn client_is_told_of_an_error_in_its_hello() {
    let mut pipe = Pipe::new("cubic").unwrap();
    pipe.client
        .local_transport_params
        .initial_source_connection_id = None;
    pipe.client.encode_transport_params().unwrap();

    let flight = emit_flight(&mut pipe.client).unwrap();
    let received = process_flight(&mut pipe.server, flight);
    assert_eq!(received, Err(Error::InvalidTransportParam));
    let invalid = WireErrorCode::TransportParameterError as u64;
    assert_eq!(error_at_client(&mut pipe), Some(invalid));
}

// The client has lost the packets with which it could read others than Initial.
#[test]
fn client_that_lost_the_servers_flight_is_told_of_an_error() {
    let mut pipe = without_servers_flight();
    receive_wrong_packet(&mut pipe);
    let violation = WireErrorCode::ProtocolViolation as u64;
    assert_eq!(error_at_client(&mut pipe), Some(violation));
}

// Three times what the client has sent has no room for two datagrams.
#[test]
fn server_without_room_for_two_datagrams_drains() {
    let mut pipe = without_servers_flight();
    let path = pipe.server.paths.get_active_mut().unwrap();
    path.max_send_bytes = MIN_CLIENT_INITIAL_LEN;

    let code = WireErrorCode::ProtocolViolation as u64;
    pipe.server.close(false, code, b"").unwrap();
    emit_flight(&mut pipe.server).unwrap();
    assert!(pipe.server.is_draining());
}
