//! Stream data that a connection keeps.
//!
//! A sender keeps everything after the first byte that its peer has not
//! acknowledged, however much of it the peer has received. A receiver keeps what
//! the application has not read.

use crate::*;

impl<F: BufFactory> Connection<F> {
    /// Returns the bytes of a stream that are kept: from the first one that the
    /// peer has not acknowledged to the last one that was written. 0 for a
    /// stream that is over.
    pub fn stream_unacknowledged(&self, stream_id: u64) -> u64 {
        let kept = |stream: &stream::Stream<F>| {
            stream.send.off_back().saturating_sub(stream.send.ack_off())
        };
        self.streams.get(stream_id).map_or(0, kept)
    }

    /// Returns the bytes of a stream that were written and that the peer has not
    /// acknowledged: what is kept, without what was acknowledged behind a gap. 0
    /// for a stream that is over.
    pub fn stream_missing(&self, stream_id: u64) -> u64 {
        let missing = |stream: &stream::Stream<F>| {
            stream
                .send
                .off_back()
                .saturating_sub(stream.send.acked_bytes())
        };
        self.streams.get(stream_id).map_or(0, missing)
    }

    /// Returns the bytes of all streams that wait to be sent: written and not
    /// sent, or lost.
    pub fn stream_bytes_unsent(&self) -> usize {
        self.streams.tx_buffered()
    }

    /// Returns the number of packets whose records are kept: they were sent,
    /// and neither acknowledged nor lost, or only a short time ago. A small
    /// packet takes as much as a large one.
    pub fn packets_kept(&self) -> usize {
        let epochs = packet::Epoch::epochs(
            packet::Epoch::Initial..=packet::Epoch::Application,
        );
        let kept = |(_, path): (usize, &path::Path)| {
            let kept = epochs.iter().map(|e| path.recovery.sent_packets_len(*e));
            kept.sum::<usize>()
        };
        self.paths.iter().map(kept).sum()
    }

    /// Returns the number of chunks in which data of all streams waits to be
    /// read. Each takes memory besides its data, for a single byte behind a gap,
    /// too.
    pub fn stream_chunks_unread(&self) -> usize {
        self.streams.kept_chunks()
    }

    /// Returns the bytes of all streams that the application has not read,
    /// including those before them that have not arrived.
    pub fn stream_bytes_unread(&self) -> u64 {
        let consumed =
            self.flow_control.max_data_next() - self.flow_control.window();
        self.rx_data.saturating_sub(consumed)
    }
}
