//! Limits on the reassembly buffer of a stream.
//!
//! A chunk that cannot be read yet takes more than a hundred bytes besides its
//! data: a peer that sends single bytes with gaps between them fills much more
//! memory than flow control allows (RFC 9000, 21.6). A chunk beyond the limit
//! joins the one that it continues, so that small writes behind a loss are kept.
//! Behind a gap of its own it is dropped, as if its packet were lost; the peer
//! sends it again, and it fits once the gaps before it are filled.

use crate::range_buf::RangeBuf;
use std::collections::BTreeMap;

/// Chunks that are kept in any case.
const CHUNKS_MIN: usize = 256;

/// Bytes of the range that allow one further chunk.
const BYTES_PER_CHUNK: u64 = 64;

/// Most bytes of joined chunks: each byte that joins copies those before.
const JOINED_BYTES_MAX: usize = 1024;

/// Returns the most chunks that are kept in a range of `range_bytes`.
pub(super) fn max_chunks(range_bytes: u64) -> usize {
    CHUNKS_MIN + (range_bytes / BYTES_PER_CHUNK) as usize
}

/// Takes the chunk that `buf` continues out of `chunks`, which have their ends
/// as keys, and joins it with `buf`. Returns false if there is none, or if both
/// are too long.
pub(super) fn join(
    chunks: &mut BTreeMap<u64, RangeBuf>, buf: &mut RangeBuf,
) -> bool {
    let Some(before) = chunks.get(&buf.off()) else {
        return false;
    };
    if before.len() + buf.len() > JOINED_BYTES_MAX {
        return false;
    }

    let joined = [&before[..], &buf[..]].concat();
    let start = before.off();
    chunks.remove(&buf.off());
    *buf = RangeBuf::from(&joined, start, buf.fin());
    true
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn chunks_of_packet_size_are_all_kept() {
        let mut recv = RecvBuf::new(u64::MAX, 0, 0);
        for n in 1..20_000 {
            let chunk = <RangeBuf>::from(&[7; 100], 100 * n, false);
            assert_eq!(recv.write(chunk), Ok(()));
        }
    }
}
