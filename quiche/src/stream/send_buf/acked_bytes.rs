//! Acknowledged bytes of a stream, in any order.

use super::SendBuf;
use crate::BufFactory;

impl<F: BufFactory> SendBuf<F> {
    /// Returns how many bytes the peer has acknowledged, also behind a gap.
    pub fn acked_bytes(&self) -> u64 {
        self.acked.iter().map(|range| range.end - range.start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DefaultBufFactory;

    #[test]
    fn acked_bytes_count_behind_a_gap() {
        let mut buf = SendBuf::<DefaultBufFactory>::new(u64::MAX);
        buf.write(&[0; 100], false).unwrap();
        buf.emit(&mut [0; 100]).unwrap();
        for (from, len, acked, contiguous) in [
            (20, 30, 30, 0),
            (40, 20, 40, 0),
            (0, 10, 50, 10),
            (10, 10, 60, 60),
        ] {
            buf.ack_and_drop(from, len);
            assert_eq!((buf.acked_bytes(), buf.ack_off()), (acked, contiguous));
        }
    }
}
