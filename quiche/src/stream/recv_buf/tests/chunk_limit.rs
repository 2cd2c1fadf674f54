//! Limit on the chunks that wait for earlier data (RFC 9000, 21.6).

use super::*;

/// Writes single bytes two apart until one is refused. Returns its offset.
fn fill(recv: &mut RecvBuf) -> u64 {
    let write = |at: u64| recv.write(<RangeBuf>::from(b"x", at, false));
    let mut offsets = (1..10_000).step_by(2);
    let refused = offsets.by_ref().map(write).find(|done| done.is_err());
    assert_eq!(refused, Some(Err(Error::Done)));
    offsets.next().unwrap() - 2
}

#[test]
fn chunks_beyond_the_limit_are_refused() {
    let mut recv = RecvBuf::new(u64::MAX, 0, 0);
    let refused = fill(&mut recv);
    assert_eq!(refused / 2, 256 + refused / 64);
}

#[test]
fn chunk_in_the_first_gap_makes_room() {
    let mut recv = RecvBuf::new(u64::MAX, 0, 0);
    let refused = fill(&mut recv);
    let mut out = [0; 10];
    for at in (0..refused).step_by(2) {
        recv.write(<RangeBuf>::from(b"y", at, false)).unwrap();
        assert!(recv.emit(&mut out).unwrap().0 > 0);
    }
    recv.write(<RangeBuf>::from(b"x", refused, true)).unwrap();
    assert_eq!(recv.emit(&mut out), Ok((1, true)));
}

#[test]
fn chunks_of_packet_size_are_all_kept() {
    let mut recv = RecvBuf::new(u64::MAX, 0, 0);
    for n in 1..20_000 {
        let chunk = <RangeBuf>::from(&[7; 100], 100 * n, false);
        assert_eq!(recv.write(chunk), Ok(()));
    }
}
