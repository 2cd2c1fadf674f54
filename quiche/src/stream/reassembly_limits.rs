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
