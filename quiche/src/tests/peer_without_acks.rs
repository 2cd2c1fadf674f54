//! Peers that acknowledge little or nothing: what is kept of the packets that
//! only acknowledge theirs (RFC 9000, 13.2.1).

use super::*;
use crate::packet::Epoch;
use crate::test_utils::encode_pkt;
use crate::test_utils::Pipe;

/// Many times what may be kept.
const PACKETS: usize = 10_000;
const KEPT_MAX: usize = 1200;

/// What becomes of the server's packets.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Acks {
    None,

    /// Of the first packet with a PING alone, over and over.
    Oldest,

    /// Of one packet in ten.
    Some,
}

fn kept(pipe: &Pipe) -> usize {
    let path = pipe.server.paths.get_active().unwrap();
    path.recovery.sent_packets_len(Epoch::Application)
}

/// Sends a packet with these frames from the client. Returns what the server
/// answers.
fn exchange(pipe: &mut Pipe, frames: &[frame::Frame]) -> Option<Vec<u8>> {
    let mut packet = [0; 1500];
    let client = &mut pipe.client;
    let len = encode_pkt(client, Type::Short, frames, &mut packet).unwrap();
    // Otherwise the client would refuse an ACK of this packet.
    let space = &mut client.pkt_num_spaces[Epoch::Application];
    space.largest_tx_pkt_num = Some(client.next_pkt_num - 1);
    pipe.server_recv(&mut packet[..len]).unwrap();
    let (len, _) = pipe.server.send(&mut packet).ok()?;
    Some(packet[..len].to_vec())
}

#[rstest]
fn packets_that_only_acknowledge_are_kept_in_bounds(
    #[values("cubic", "bbr2_gcongestion")] cc_algorithm_name: &str,
    #[values(Acks::None, Acks::Oldest, Acks::Some)] acks: Acks,
) {
    let mut pipe = Pipe::new(cc_algorithm_name).unwrap();
    pipe.handshake().unwrap();
    let ping = frame::Frame::Ping { mtu_probe: None };
    let first = pipe.server.next_pkt_num;
    let mut oldest = ranges::RangeSet::default();
    oldest.insert(first..first + 1);
    let ack_oldest = frame::Frame::ACK {
        ack_delay: 0,
        ranges: oldest,
        ecn_counts: None,
    };

    for sent in 1..=PACKETS {
        let frames = match acks {
            Acks::Oldest if sent > 1 => vec![ping.clone(), ack_oldest.clone()],
            _ => vec![ping.clone()],
        };
        let answer = exchange(&mut pipe, &frames);

        if let (Some(mut answer), Acks::Some, 0) = (answer, acks, sent % 10) {
            pipe.client_recv(&mut answer).unwrap();
        }

        assert!(kept(&pipe) <= KEPT_MAX, "{} after {sent}", kept(&pipe));
    }

    assert_eq!(pipe.server.local_error(), None);
}

// What is dropped is no longer acknowledged, and what the peer acknowledges
// later still counts.
#[rstest]
fn connection_goes_on_after_packets_were_dropped(
    #[values("cubic", "bbr2_gcongestion")] cc_algorithm_name: &str,
) {
    let mut pipe = Pipe::new(cc_algorithm_name).unwrap();
    pipe.handshake().unwrap();
    let ping = [frame::Frame::Ping { mtu_probe: None }];
    let answers: Vec<_> = (0..2000)
        .filter_map(|_| exchange(&mut pipe, &ping))
        .collect();

    // The client acknowledges all of them, those that were dropped as well.
    for mut answer in answers {
        pipe.client_recv(&mut answer).unwrap();
    }
    pipe.advance().unwrap();
    assert_eq!(pipe.server.local_error(), None);
    assert!(kept(&pipe) <= 1, "{}", kept(&pipe));
    let space = &pipe.server.pkt_num_spaces[Epoch::Application];
    assert!(space.recv_pkt_need_ack.len() <= 1);

    assert_eq!(pipe.client.stream_send(0, b"data", true), Ok(4));
    pipe.advance().unwrap();
    let mut data = [0; 10];
    assert_eq!(pipe.server.stream_recv(0, &mut data), Ok((4, true)));
    assert_eq!(pipe.server.stream_send(0, b"answer", true), Ok(6));
    pipe.advance().unwrap();
    assert_eq!(pipe.client.stream_recv(0, &mut data), Ok((6, true)));
}

// RFC 9000, 13.2.4: the largest acknowledged packet is what counts when the peer
// acknowledges an ACK frame.
#[rstest]
fn kept_acks_have_one_range(
    #[values("cubic", "bbr2_gcongestion")] cc_algorithm_name: &str,
) {
    let mut pipe = Pipe::new(cc_algorithm_name).unwrap();
    pipe.handshake().unwrap();
    let first = pipe.server.next_pkt_num;
    for _ in 0..100 {
        // A number that the client skips.
        pipe.client.next_pkt_num += 1;
        exchange(&mut pipe, &[frame::Frame::Ping { mtu_probe: None }]);
    }
    let epoch = Epoch::Application;
    let received = &pipe.server.pkt_num_spaces[epoch].recv_pkt_need_ack;
    assert_eq!(received.len(), MAX_ACK_RANGES);

    let mut acked = ranges::RangeSet::default();
    acked.insert(first..pipe.server.next_pkt_num);
    let now = pipe.server.pkt_num_spaces[epoch].largest_rx_pkt_time;
    let recovery = &mut pipe.server.paths.get_active_mut().unwrap().recovery;
    let status = recovery::HandshakeStatus::default();
    recovery
        .on_ack_received(&acked, 0, epoch, status, now, None, "")
        .unwrap();
    let frames = std::iter::from_fn(|| recovery.next_acked_frame(epoch));
    let ranges: Vec<_> = frames
        .filter_map(|frame| match frame {
            frame::Frame::ACK { ranges, .. } => Some(ranges.len()),
            _ => None,
        })
        .collect();
    assert!(!ranges.is_empty() && ranges.iter().all(|len| *len == 1));
}
