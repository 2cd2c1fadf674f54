//! Unacknowledged data that a sender keeps until its peer has it.
//!
//! A peer need not lack much for a sender to keep much: all that follows the first
//! byte which it has not acknowledged is kept, however much of it the peer has.

use crate::*;

impl<F: BufFactory> Connection<F> {
    /// How much of a stream is kept for the peer, in bytes: from the first one
    /// that it has not acknowledged to the last one that was written. Nothing
    /// is of a stream that is over.
    pub fn stream_unacknowledged(&self, stream_id: u64) -> u64 {
        let kept = |stream: &stream::Stream<F>| {
            stream.send.off_back().saturating_sub(stream.send.ack_off())
        };
        self.streams.get(stream_id).map_or(0, kept)
    }

    /// How much of all streams waits to be sent, in bytes: what was written and has
    /// not left, and what was lost.
    pub fn stream_bytes_unsent(&self) -> usize {
        self.streams.tx_buffered()
    }
}
