//! A frame that ends with its packet (RFC 9000, 12.4 and 20.1).

use super::*;
use crate::test_utils::Pipe;

/// Returns a packet of the client with this payload.
fn packet_of(client: &mut Connection, payload: &[u8]) -> Vec<u8> {
    const PKT_NUM_LEN: usize = 4;

    let header = Header {
        ty: Type::Short,
        version: client.version,
        dcid: client.destination_id().into_owned(),
        scid: ConnectionId::default(),
        pkt_num: client.next_pkt_num,
        pkt_num_len: PKT_NUM_LEN,
        token: None,
        versions: None,
        key_phase: client.key_phase,
    };
    let mut packet = vec![0; 200];
    let mut b = octets::OctetsMut::with_slice(&mut packet);
    header.to_bytes(&mut b).unwrap();
    b.put_u32(client.next_pkt_num as u32).unwrap();
    let payload_offset = b.off();
    b.put_bytes(payload).unwrap();

    let crypto_ctx = &mut client.crypto_ctx[packet::Epoch::Application];
    let written = packet::encrypt_pkt(
        &mut b,
        client.next_pkt_num,
        PKT_NUM_LEN,
        payload.len(),
        payload_offset,
        None,
        crypto_ctx.crypto_seal.as_mut().unwrap(),
    )
    .unwrap();
    packet.truncate(written);
    packet
}

#[test]
fn truncated_frame_is_a_frame_encoding_error() {
    // A type alone, a type of which half is missing, and data.
    let truncated: [&[u8]; 4] = [
        &[1, 1, 1, 1, 0x04],
        &[1, 1, 1, 1, 0x40],
        &[1, 1, 1, 0x06, 0, 9, 7],
        &[1, 1, 1, 1, 0x10],
    ];
    for payload in truncated {
        let mut pipe = Pipe::new("cubic").unwrap();
        pipe.handshake().unwrap();

        let mut packet = packet_of(&mut pipe.client, payload);
        let received = pipe.server_recv(&mut packet);
        assert_eq!(received, Err(Error::InvalidFrame), "{payload:?}");
        let error = pipe.server.local_error().unwrap();
        let encoding = WireErrorCode::FrameEncodingError as u64;
        assert_eq!(error.error_code, encoding, "{payload:?}");
    }
}
