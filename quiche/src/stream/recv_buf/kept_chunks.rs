//! Chunks of reassembly buffers: each takes memory besides its data.

use super::RecvBuf;
use crate::stream::StreamMap;
use crate::BufFactory;

impl RecvBuf {
    /// Returns the number of chunks that are kept.
    pub fn kept_chunks(&self) -> usize {
        self.data.len()
    }
}

impl<F: BufFactory> StreamMap<F> {
    /// Returns the number of chunks that all streams keep.
    pub fn kept_chunks(&self) -> usize {
        self.streams
            .values()
            .map(|stream| stream.recv.kept_chunks())
            .sum()
    }
}
