//! Connection IDs of the packets of a handshake (RFC 9000, 7.2 and 12.2).

use super::*;
use crate::test_utils::emit_flight;
use crate::test_utils::encode_pkt;
use crate::test_utils::process_flight;
use crate::test_utils::Pipe;

/// Returns a client and a server that has answered its first flight.
fn answered() -> Pipe {
    let mut pipe = Pipe::new("cubic").unwrap();
    let flight = emit_flight(&mut pipe.client).unwrap();
    process_flight(&mut pipe.server, flight).unwrap();
    let flight = emit_flight(&mut pipe.server).unwrap();
    process_flight(&mut pipe.client, flight).unwrap();
    pipe
}

/// Returns a packet that closes a connection if it is processed.
fn fatal_packet(client: &mut Connection, ty: Type) -> Vec<u8> {
    let mut packet = vec![0; 1500];
    let frames = [
        frame::Frame::HandshakeDone,
        frame::Frame::Padding { len: 50 },
    ];
    let len = encode_pkt(client, ty, &frames, &mut packet).unwrap();
    packet.truncate(len);
    packet
}

#[test]
fn another_source_connection_id_is_ignored() {
    for ty in [Type::Initial, Type::Handshake] {
        let mut pipe = answered();
        let path = pipe.client.paths.get_active_mut().unwrap();
        path.active_scid_seq = Some(0);
        let (scid, token) = test_utils::create_cid_and_reset_token(16);
        pipe.client
            .ids
            .new_scid(scid, Some(token), false, None, false)
            .unwrap();
        pipe.client.paths.get_active_mut().unwrap().active_scid_seq = Some(1);

        let mut packet = fatal_packet(&mut pipe.client, ty);
        assert_eq!(pipe.server_recv(&mut packet), Ok(packet.len()), "{ty:?}");
        assert_eq!(pipe.server.local_error(), None, "{ty:?}");
    }
}

#[test]
fn coalesced_packet_of_another_connection_is_ignored() {
    let mut pipe = answered();
    let other = ConnectionId::from_vec(vec![9; 16]);
    pipe.client.set_initial_dcid(other, None, 0).unwrap();

    let mut packet = fatal_packet(&mut pipe.client, Type::Handshake);
    assert_eq!(pipe.server_recv(&mut packet), Ok(packet.len()));
    assert_eq!(pipe.server.local_error(), None);
}

// The server has its first connection ID retired before it has confirmed the
// handshake.
#[test]
fn retired_source_connection_id_stays_for_the_handshake() {
    let mut pipe = answered();
    assert!(pipe.client.is_established());
    let (scid, token) = test_utils::create_cid_and_reset_token(16);
    let new_id = frame::Frame::NewConnectionId {
        seq_num: 1,
        retire_prior_to: 1,
        conn_id: scid.to_vec(),
        reset_token: token.to_be_bytes(),
    };
    let mut packet = [0; 1500];
    let server = &mut pipe.server;
    let len = encode_pkt(server, Type::Short, &[new_id], &mut packet).unwrap();
    pipe.client_recv(&mut packet[..len]).unwrap();
    assert_eq!(pipe.client.destination_id(), scid);

    let mut packet = fatal_packet(&mut pipe.server, Type::Handshake);
    let received = pipe.client_recv(&mut packet);
    assert_eq!(received, Err(Error::InvalidPacket));
}
