//! An acknowledgement for an endpoint that has not sent anything.

use super::*;
use crate::test_utils::encode_pkt;
use crate::test_utils::Pipe;

// RFC 9000, 13.1.
#[test]
fn ack_before_anything_was_sent_is_an_error() {
    let mut pipe = Pipe::new("cubic").unwrap();
    let mut ranges = ranges::RangeSet::default();
    ranges.insert(0..1);
    let frames = [
        frame::Frame::ACK {
            ack_delay: 0,
            ranges,
            ecn_counts: None,
        },
        frame::Frame::Padding { len: 20 },
    ];

    let mut packet = [0; 1500];
    let client = &mut pipe.client;
    let len = encode_pkt(client, Type::Initial, &frames, &mut packet).unwrap();
    let received = pipe.server_recv(&mut packet[..len]);
    assert_eq!(received, Err(Error::InvalidAckRange));
}
