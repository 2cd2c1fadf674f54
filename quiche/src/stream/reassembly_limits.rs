//! Limits on the reassembly buffer of a stream.
//!
//! A chunk that cannot be read yet takes more than a hundred bytes besides its
//! data: a peer that sends single bytes with gaps between them fills much more
//! memory than flow control allows (RFC 9000, 21.6). A chunk beyond the limit
//! is dropped, as if its packet were lost; the peer sends it again, and it fits
//! once the gaps before it are filled.

/// Chunks that are kept in any case.
const CHUNKS_MIN: usize = 256;

/// Bytes of the range that allow one further chunk.
const BYTES_PER_CHUNK: u64 = 64;

/// Returns the most chunks that are kept in a range of `range_bytes`.
pub(super) fn max_chunks(range_bytes: u64) -> usize {
    CHUNKS_MIN + (range_bytes / BYTES_PER_CHUNK) as usize
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
        let mut offsets = (1..10_000).step_by(2);
        let refused = offsets.by_ref().map(write).find(|done| done.is_err());
        assert_eq!(refused, Some(Err(Error::Done)));
        offsets.next().unwrap() - 2
    }

    #[test]
    fn chunks_beyond_the_limit_are_refused() {
        let mut recv = RecvBuf::new(u64::MAX, 0, 0);
        let refused = fill(&mut recv);
        assert_eq!(refused / 2, max_chunks(refused) as u64);
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
}
