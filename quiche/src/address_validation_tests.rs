//! A token reaches the client, is offered again, and lifts the limit that it is
//! for.

use super::*;
use crate::clock::Simulation;
use crate::test_utils::emit_flight;
use crate::test_utils::process_flight;
use crate::test_utils::Pipe;

const TOKEN: &[u8] = b"good for once";

/// INVALID_TOKEN (RFC 9000, 20.1).
const INVALID_TOKEN: u64 = 0xb;

fn established() -> Pipe {
    let mut pipe = Pipe::new("cubic").unwrap();
    pipe.handshake().unwrap();
    pipe.advance().unwrap();
    pipe
}

fn is_nothing_to_send(server: &mut Connection) -> bool {
    emit_flight(server) == Err(Error::Done)
}

#[test]
fn a_token_reaches_the_client_once() {
    let mut pipe = established();
    assert_eq!(pipe.client.new_token(), None);
    pipe.server.send_new_token(TOKEN.to_vec()).unwrap();
    pipe.advance().unwrap();
    assert_eq!(pipe.client.new_token(), Some(TOKEN));
    assert_eq!(pipe.server.new_token.unacked, None);
    assert!(is_nothing_to_send(&mut pipe.server));
}

#[test]
fn a_token_waits_for_the_handshake() {
    let mut pipe = Pipe::new("cubic").unwrap();
    pipe.server.send_new_token(TOKEN.to_vec()).unwrap();
    pipe.handshake().unwrap();
    pipe.advance().unwrap();
    assert_eq!(pipe.client.new_token(), Some(TOKEN));
}

#[test]
fn lost_token_is_sent_again_until_acknowledged() {
    let time = Simulation::start(1, Duration::from_secs(1_000_000));
    let mut pipe = established();
    pipe.server.send_new_token(TOKEN.to_vec()).unwrap();
    drop(emit_flight(&mut pipe.server).unwrap());
    assert!(is_nothing_to_send(&mut pipe.server));

    // A probe, whose acknowledgement tells of the loss.
    time.advance_to(time.elapsed() + pipe.server.timeout().unwrap());
    pipe.server.on_timeout();
    pipe.advance().unwrap();
    assert_eq!(pipe.client.new_token(), Some(TOKEN));
    assert_eq!(pipe.server.new_token.unacked, None);
}

#[test]
fn only_the_newest_unacked_token_is_sent_again() {
    let mut pipe = established();
    let server = &mut pipe.server;
    server.send_new_token(b"older".to_vec()).unwrap();
    server.new_token.on_sent();
    server.send_new_token(TOKEN.to_vec()).unwrap();
    server.new_token.on_sent();

    server.new_token.on_lost(b"older");
    assert!(!server.new_token.is_due());
    server.new_token.on_lost(TOKEN);
    assert!(server.new_token.is_due());
    server.new_token.on_acked(b"older");
    assert!(server.new_token.is_due());
    server.new_token.on_acked(TOKEN);
    assert!(!server.new_token.is_due());
    server.new_token.on_lost(TOKEN);
    assert!(!server.new_token.is_due());
}

#[test]
fn a_client_offers_a_token_from_its_first_packet_on() {
    let mut pipe = Pipe::new("cubic").unwrap();
    pipe.client.set_token(TOKEN).unwrap();
    let mut buf = [0; 1500];
    let (len, _) = pipe.client.send(&mut buf).unwrap();
    let hdr = Header::from_slice(&mut buf[..len], MAX_CONN_ID_LEN).unwrap();
    assert_eq!(hdr.token.as_deref(), Some(TOKEN));

    assert_eq!(pipe.client.set_token(b"late"), Err(Error::InvalidState));
}

#[test]
fn token_calls_of_the_other_side_are_refused() {
    let mut pipe = Pipe::new("cubic").unwrap();
    let refused = Err(Error::InvalidState);
    assert_eq!(pipe.server.set_token(TOKEN), refused);
    assert_eq!(pipe.client.send_new_token(TOKEN.to_vec()), refused);
    assert_eq!(pipe.server.send_new_token(Vec::new()), refused);
    assert_eq!(pipe.client.set_peer_address_validated(), refused);
}

#[test]
fn longest_token_leaves_room_for_a_handshake() {
    let mut pipe = established();
    let (longest, longer) = (vec![7; TOKEN_LEN_MAX], vec![7; TOKEN_LEN_MAX + 1]);
    let refused = Err(Error::InvalidState);
    assert_eq!(pipe.server.send_new_token(longer.clone()), refused);
    pipe.server.send_new_token(longest.clone()).unwrap();
    pipe.advance().unwrap();
    assert_eq!(pipe.client.new_token(), Some(&longest[..]));

    let mut next = Pipe::new("cubic").unwrap();
    assert_eq!(next.client.set_token(&longer), refused);
    next.client.set_token(&longest).unwrap();
    next.handshake().unwrap();
}

/// Returns the bytes that the server sends after the client's first packet, if
/// it may send no more than it received.
fn first_flight_bytes(validated: bool) -> usize {
    let mut config = Pipe::default_config_no_pq("cubic").unwrap();
    config.set_max_amplification_factor(1);
    let mut pipe = Pipe::with_config(&mut config).unwrap();
    if validated {
        pipe.server.set_peer_address_validated().unwrap();
    }
    let flight = emit_flight(&mut pipe.client).unwrap();
    process_flight(&mut pipe.server, flight).unwrap();
    let flight = emit_flight(&mut pipe.server).unwrap();
    flight.iter().map(|(packet, _)| packet.len()).sum()
}

// RFC 9000, 8.1: the limit is for clients whose address is not validated.
#[test]
fn validated_address_gets_more_than_it_sent() {
    assert_eq!(first_flight_bytes(false), MIN_CLIENT_INITIAL_LEN);
    assert!(first_flight_bytes(true) > MIN_CLIENT_INITIAL_LEN);
}

// RFC 9000, 8.1.2: a client does not wait for another Retry packet.
#[test]
fn refused_client_gets_the_error_code() {
    let mut pipe = Pipe::new("cubic").unwrap();
    let mut buf = [0; 1500];
    let (len, _) = pipe.client.send(&mut buf).unwrap();
    let hdr = Header::from_slice(&mut buf[..len], MAX_CONN_ID_LEN).unwrap();

    let mut out = [0; 1500];
    let len = refuse(&hdr.scid, &hdr.dcid, hdr.version, INVALID_TOKEN, &mut out)
        .unwrap();
    assert_eq!(pipe.client_recv(&mut out[..len]), Ok(len));
    let error = pipe.client.peer_error().unwrap();
    assert_eq!((error.is_app, error.error_code), (false, INVALID_TOKEN));

    let unknown = refuse(&hdr.scid, &hdr.dcid, 0xbabababa, 0, &mut out);
    assert_eq!(unknown, Err(Error::UnknownVersion));
}

#[test]
fn impossible_refusal_is_an_error() {
    let (version, mut out) = (PROTOCOL_VERSION, [0; 1500]);
    let (id, long) = (vec![1; MAX_CONN_ID_LEN], vec![1; MAX_CONN_ID_LEN + 1]);
    let [id, long] = [id, long].map(ConnectionId::from_vec);
    let len = refuse(&id, &id, version, octets::MAX_VAR_INT, &mut out).unwrap();

    for room in 0..len {
        let code = octets::MAX_VAR_INT;
        let refused = refuse(&id, &id, version, code, &mut out[..room]);
        assert_eq!(refused, Err(Error::BufferTooShort), "{room}");
    }
    for (scid, dcid, code) in
        [(&long, &id, 0), (&id, &long, 0), (&id, &id, u64::MAX)]
    {
        let refused = refuse(scid, dcid, version, code, &mut out);
        assert_eq!(refused, Err(Error::InvalidState));
    }
}
