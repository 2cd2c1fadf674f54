//! Reserved bits of a packet's first byte (RFC 9000, 17.2 and 17.3.1).

use super::*;
use crate::test_utils::Pipe;

/// Returns a packet of the client with `bits` in its first byte, before header
/// protection.
fn packet_with(client: &mut Connection, ty: Type, bits: u8) -> Vec<u8> {
    const PKT_NUM_LEN: usize = 4;
    let payload = [1; 30];

    let header = Header {
        ty,
        version: client.version,
        dcid: client.destination_id().into_owned(),
        scid: client.source_id().into_owned(),
        pkt_num: client.next_pkt_num,
        pkt_num_len: PKT_NUM_LEN,
        token: None,
        versions: None,
        key_phase: client.key_phase,
    };
    let mut packet = vec![0; 200];
    let mut b = octets::OctetsMut::with_slice(&mut packet);
    header.to_bytes(&mut b).unwrap();

    let epoch = ty.to_epoch().unwrap();
    let overhead = client.crypto_ctx[epoch].crypto_overhead().unwrap();
    if ty != Type::Short {
        let len = PKT_NUM_LEN + payload.len() + overhead;
        b.put_varint(len as u64).unwrap();
    }
    b.put_u32(client.next_pkt_num as u32).unwrap();
    let payload_offset = b.off();
    b.put_bytes(&payload).unwrap();

    packet[0] |= bits;
    let mut b = octets::OctetsMut::with_slice(&mut packet);
    b.skip(payload_offset + payload.len()).unwrap();

    let aead = client.crypto_ctx[epoch].crypto_seal.as_mut().unwrap();
    let written = packet::encrypt_pkt(
        &mut b,
        client.next_pkt_num,
        PKT_NUM_LEN,
        payload.len(),
        payload_offset,
        None,
        aead,
    )
    .unwrap();
    client.next_pkt_num += 1;
    packet.truncate(written);
    packet
}

/// Asserts that the server refuses a packet with reserved bits, and no other.
fn assert_refused(pipe: &mut Pipe, ty: Type, bits: u8) {
    let mut packet = packet_with(&mut pipe.client, ty, bits);
    let received = pipe.server_recv(&mut packet);
    let code = pipe.server.local_error().map(|error| error.error_code);
    if bits == 0 {
        assert_eq!((received, code), (Ok(packet.len()), None), "{ty:?}");
    } else {
        let violation = WireErrorCode::ProtocolViolation as u64;
        let refused = (Err(Error::InvalidPacket), Some(violation));
        assert_eq!((received, code), refused, "{ty:?} {bits:#x}");
    }
}

#[test]
fn short_header_with_reserved_bits_is_an_error() {
    for bits in [0, 0x08, 0x10, 0x18] {
        let mut pipe = Pipe::new("cubic").unwrap();
        pipe.handshake().unwrap();
        assert_refused(&mut pipe, Type::Short, bits);
    }
}

#[test]
fn long_header_with_reserved_bits_is_an_error() {
    for bits in [0, 0x04, 0x08, 0x0c] {
        let mut pipe = Pipe::new("cubic").unwrap();
        assert_refused(&mut pipe, Type::Initial, bits);
    }
}
