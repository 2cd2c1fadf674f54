//! Front of a receive buffer, which can be read without taking it.

use super::RecvBuf;

impl RecvBuf {
    /// Returns the first chunk that can be read.
    pub fn front(&self) -> Option<&[u8]> {
        let (_, piece) = self.data.first_key_value()?;
        let is_next = piece.off() == self.off && self.error.is_none();
        is_next.then_some(&piece[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range_buf::RangeBuf;

    #[test]
    fn front_is_the_data_read_next() {
        let mut buf = RecvBuf::new(100, 100, 100);
        assert_eq!(buf.front(), None);
        buf.write(RangeBuf::from(b"world", 5, false)).unwrap();
        assert_eq!(buf.front(), None);
        buf.write(RangeBuf::from(b"hello", 0, false)).unwrap();
        assert_eq!(buf.front(), Some(&b"hello"[..]));
        buf.emit(&mut [0; 2]).unwrap();
        assert_eq!(buf.front(), Some(&b"llo"[..]));
        buf.emit(&mut [0; 4]).unwrap();
        assert_eq!(buf.front(), Some(&b"orld"[..]));
        buf.reset(7, 20).unwrap();
        assert_eq!(buf.front(), None);
    }
}
