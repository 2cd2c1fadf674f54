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

#[test]
fn small_chunks_behind_one_gap_are_all_kept() {
    let mut recv = RecvBuf::new(u64::MAX, 0, 0);
    for at in 1..20_000 {
        let chunk = <RangeBuf>::from(&[at as u8], at, at == 19_999);
        assert_eq!(recv.write(chunk), Ok(()), "chunk {at}");
    }
    recv.write(<RangeBuf>::from(&[0], 0, false)).unwrap();

    let mut out = vec![0; 20_000];
    assert_eq!(recv.emit(&mut out), Ok((20_000, true)));
    let sent: Vec<u8> = (0..20_000).map(|at| at as u8).collect();
    assert_eq!(out, sent);
}

#[test]
fn overlapping_chunks_behind_one_gap_keep_the_first_data() {
    let mut recv = RecvBuf::new(u64::MAX, 0, 0);
    for at in 1..5_000 {
        let chunk = <RangeBuf>::from(&[at as u8; 2], at, false);
        assert_eq!(recv.write(chunk), Ok(()), "chunk {at}");
    }
    recv.write(<RangeBuf>::from(&[0], 0, false)).unwrap();

    let mut out = vec![0; 5_001];
    assert_eq!(recv.emit(&mut out), Ok((5_001, false)));
    let first = |at: u64| if at < 2 { at as u8 } else { (at - 1) as u8 };
    assert_eq!(out, (0..5_001).map(first).collect::<Vec<_>>());
}
