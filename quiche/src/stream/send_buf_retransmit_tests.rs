//! Losses that lie side by side do not cut a buffer into pieces.

use super::*;

const PACKET: usize = 10;
const PACKETS: usize = 100;

/// One buffer, of which all was sent.
fn sent() -> SendBuf<crate::data_packets::tests::Given> {
    let mut buf = SendBuf::new(u64::MAX);
    let data = bytes::Bytes::from_iter((0..PACKET * PACKETS).map(|n| n as u8));
    buf.append_buf(data, PACKET * PACKETS, true).unwrap();
    for _ in 0..PACKETS {
        buf.emit(&mut [0; PACKET]).unwrap();
    }
    buf
}

/// Loses the packets, sends what is to be sent again, and checks that it is that.
fn assert_sent_again(lost: impl Iterator<Item = usize>, pieces: usize) {
    let mut buf = sent();
    let mut left = vec![];
    for packet in lost {
        let start = packet * PACKET;
        assert_eq!(buf.retransmit(start as u64, PACKET), PACKET);
        left.extend(start..start + PACKET);
    }
    assert_eq!(buf.data.len(), pieces);

    left.sort();
    while !left.is_empty() {
        let (mut out, offset) = ([0; 7], buf.off_front());
        let (len, fin) = buf.emit(&mut out).unwrap();
        assert_eq!(fin, offset as usize + len == PACKET * PACKETS);
        let expected = Vec::from_iter(left.drain(..len));
        assert_eq!(expected[0], offset as usize);
        let expected = Vec::from_iter(expected.iter().map(|n| *n as u8));
        assert_eq!(out[..len], expected);
    }
    assert_eq!(buf.emit(&mut [0; 7]), Ok((0, true)));
}

#[test]
fn neighbours_are_one_piece_from_the_last_to_the_first() {
    // What comes before, what was lost, what comes after.
    assert_sent_again((20..80).rev(), 2);
    assert_sent_again((0..PACKETS).rev(), 1);
    assert_sent_again((50..PACKETS).rev(), 1);
}

#[test]
fn what_was_not_lost_is_not_sent_again() {
    assert_sent_again([90, 50, 10].into_iter(), 4);
    assert_sent_again(20..23, 4);
    assert_sent_again([50, 49, 51].into_iter(), 3);
}
