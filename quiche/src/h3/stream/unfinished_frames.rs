//! Memory of HTTP/3 frames that have not arrived whole.

use crate::h3::Connection;

impl Connection {
    /// Returns the bytes that are kept for frames whose end has not arrived, as
    /// a rule HEADERS. Flow control does not limit them: they have been read.
    pub fn unfinished_frame_bytes(&self) -> usize {
        self.streams
            .values()
            .map(|stream| stream.state_buf.capacity())
            .sum()
    }
}
