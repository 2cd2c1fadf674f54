//! Bound on the pieces of a stream that are kept and cannot be read yet.
//!
//! Each takes more than a hundred bytes besides its data: who sends single bytes
//! that do not touch fills much more memory than flow control allows (RFC 9000,
//! 21.6). What is beyond is not taken in, as if its packet were lost, and is sent
//! again when the gaps before it are filled.

/// Pieces that are kept in any case.
const PIECES_MIN: usize = 256;

/// Further ones have so many bytes, on average, of what they are spread over.
const PIECE_BYTES: u64 = 64;

/// The most pieces in a range of so many bytes.
pub(super) fn max(range_bytes: u64) -> usize {
    PIECES_MIN + (range_bytes / PIECE_BYTES) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range_buf::RangeBuf;
    use crate::stream::recv_buf::RecvBuf;
    use crate::Error;

    /// Writes single bytes two apart until one is refused. Returns its offset.
    fn fill(recv: &mut RecvBuf) -> u64 {
        let write = |at: u64| recv.write(<RangeBuf>::from(b"x", at, false));
        let mut offsets = (1..).step_by(2);
        let refused = offsets.by_ref().map(write).find(|done| done.is_err());
        assert_eq!(refused, Some(Err(Error::Done)));
        offsets.next().unwrap() - 2
    }

    #[test]
    fn no_more_pieces_are_kept_than_their_range_is_worth() {
        let mut recv = RecvBuf::new(u64::MAX, 0, 0);
        let refused = fill(&mut recv);
        assert_eq!(refused / 2, max(refused) as u64);
    }

    #[test]
    fn what_fills_the_first_gap_is_taken_and_makes_room() {
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
    fn pieces_of_packets_are_all_kept() {
        let mut recv = RecvBuf::new(u64::MAX, 0, 0);
        for n in 1..20_000 {
            let piece = <RangeBuf>::from(&[7; 100], 100 * n, false);
            assert_eq!(recv.write(piece), Ok(()));
        }
    }
}
