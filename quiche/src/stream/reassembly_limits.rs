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
