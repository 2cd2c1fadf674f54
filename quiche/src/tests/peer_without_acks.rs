//! Peers that acknowledge nothing (RFC 9000, 13.2.1).

use super::*;
use crate::test_utils::encode_pkt;
use crate::test_utils::Pipe;

/// More packets than may be sent without an ACK.
const PACKETS: usize = 2 * MAX_UNACKED_ACK_PACKETS;

#[test]
fn connection_of_a_peer_that_acknowledges_nothing_is_closed() {
    let mut pipe = Pipe::new("cubic").unwrap();
    pipe.handshake().unwrap();
    let (mut packet, mut answer) = ([0; 1500], [0; 1500]);
    let ping = [frame::Frame::Ping { mtu_probe: None }];

    let mut answers = 0;
    while pipe.server.local_error().is_none() && answers < PACKETS {
        let client = &mut pipe.client;
        let len = encode_pkt(client, Type::Short, &ping, &mut packet).unwrap();
        pipe.server_recv(&mut packet[..len]).unwrap();
        pipe.server.send(&mut answer).unwrap();
        answers += 1;
    }

    let error = pipe.server.local_error().map(|error| error.error_code);
    assert_eq!(error, Some(WireErrorCode::ProtocolViolation as u64));
    assert!(answers > MAX_UNACKED_ACK_PACKETS, "{answers}");
}

// Some of the ack-eliciting packets among them come through.
#[test]
fn rare_acks_keep_a_connection() {
    let mut pipe = Pipe::new("cubic").unwrap();
    pipe.handshake().unwrap();
    let (mut packet, mut answer) = ([0; 1500], [0; 1500]);

    for sent in 1..=PACKETS {
        pipe.client.send_ack_eliciting().unwrap();
        let (len, _) = pipe.client.send(&mut packet).unwrap();
        pipe.server_recv(&mut packet[..len]).unwrap();
        let (len, _) = pipe.server.send(&mut answer).unwrap();
        if sent % 7 == 0 {
            pipe.client_recv(&mut answer[..len]).unwrap();
        }
        assert_eq!(pipe.server.local_error(), None, "after {sent} packets");
    }
}
