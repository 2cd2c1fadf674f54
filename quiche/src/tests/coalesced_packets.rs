//! Coalesced packets of which the first is dropped (RFC 9000, 12.2).

use super::*;
use crate::test_utils::emit_flight;
use crate::test_utils::encode_pkt;
use crate::test_utils::process_flight;
use crate::test_utils::Pipe;

/// Returns a pipe whose client has no keys of Initial packets any more.
fn without_initial_keys() -> Pipe {
    let mut pipe = Pipe::new("cubic").unwrap();
    let flight = emit_flight(&mut pipe.client).unwrap();
    process_flight(&mut pipe.server, flight).unwrap();
    let flight = emit_flight(&mut pipe.server).unwrap();
    process_flight(&mut pipe.client, flight).unwrap();
    emit_flight(&mut pipe.client).unwrap();
    assert!(!pipe.client.crypto_ctx[packet::Epoch::Initial].has_keys());
    pipe
}

/// Returns a packet of the server that is an error once it is processed.
fn fatal_packet(server: &mut Connection, ty: Type) -> Vec<u8> {
    let mut packet = vec![0; 1500];
    let frames = [
        frame::Frame::HandshakeDone,
        frame::Frame::Padding { len: 50 },
    ];
    let len = encode_pkt(server, ty, &frames, &mut packet).unwrap();
    packet.truncate(len);
    packet
}

/// Returns what a client without keys of Initial packets says to an Initial
/// packet, as changed, and a Handshake packet in one datagram.
fn received(change: impl Fn(&mut Vec<u8>)) -> Result<usize> {
    let mut pipe = without_initial_keys();
    let mut datagram = fatal_packet(&mut pipe.server, Type::Initial);
    change(&mut datagram);
    datagram.extend(fatal_packet(&mut pipe.server, Type::Handshake));
    pipe.client_recv(&mut datagram)
}

#[test]
fn packet_after_one_that_cannot_be_decrypted_is_processed() {
    assert_eq!(received(|_| ()), Err(Error::InvalidPacket));
}

#[test]
fn packet_after_one_of_another_version_is_not_looked_for() {
    let all = received(|packet| packet[4] ^= 0x80);
    assert!(all.is_ok(), "{all:?}");
}

#[test]
fn packet_with_another_connection_id_is_not_processed() {
    // The first byte of the first packet's ID.
    let all = received(|packet| packet[6] ^= 1);
    assert!(all.is_ok(), "{all:?}");
}

#[test]
fn packets_are_skipped_to_the_end_of_the_datagram_at_most() {
    let mut pipe = without_initial_keys();
    let mut datagram = fatal_packet(&mut pipe.server, Type::Initial);
    let len = datagram.len();
    for cut in 1..len {
        let _ = pipe.client_recv(&mut datagram[..cut]);
        assert_eq!(pipe.client.local_error(), None, "{cut} of {len} bytes");
    }
}
