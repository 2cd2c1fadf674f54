//! Tail of a full packet: data that is sealed from the application's buffer,
//! and not copied into the packet first.

use std::ops::Range;

use super::SendBuf;
use crate::BufFactory;

/// Data at the end of a packet.
pub struct Tail<B> {
    buffer: B,
    range: Range<usize>,
}

impl<B: AsRef<[u8]>> Tail<B> {
    pub fn as_slice(&self) -> &[u8] {
        &self.buffer.as_ref()[self.range.clone()]
    }

    /// Copies the beginning of the data, as much as fits, and keeps the rest.
    pub fn copy_front(&mut self, out: &mut [u8]) {
        out.copy_from_slice(&self.as_slice()[..out.len()]);
        self.range.start += out.len();
    }
}

impl<F: BufFactory> SendBuf<F> {
    /// Does as `emit()` of `len` bytes, if they are in one buffer. Returns
    /// them, and whether the stream ends with them.
    pub fn emit_tail(&mut self, len: usize) -> Option<(Tail<F::Buf>, bool)> {
        self.skip_empty();
        let next = self.data.get_mut(self.pos)?;
        let offset = next.off();
        if len == 0 || next.len() < len || offset >= self.max_data {
            return None;
        }

        let buffer = next.data.clone();
        let range = next.pos..next.pos + len;
        next.consume(len);
        self.skip_empty();
        let end = offset + len as u64;
        self.buffered_bytes -= len as u64;
        self.emit_off = self.emit_off.max(end);
        Some((Tail { buffer, range }, self.fin_off == Some(end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::Algorithm;
    use crate::crypto::Seal;
    use crate::data_packets::tests::Given;
    use bytes::Bytes;

    /// Two buffers of 100 and 50 bytes, and the end.
    fn filled() -> SendBuf<Given> {
        let first = Bytes::from_iter(0..150);
        let second = first.slice(100..);
        let mut buf = SendBuf::new(1000);
        assert_eq!(
            buf.append_buf(first.slice(..100), 100, false),
            Ok((100, None))
        );
        assert_eq!(buf.append_buf(second, 50, true), Ok((50, None)));
        buf
    }

    #[test]
    fn tail_equals_copied_data() {
        for lens in [&[100, 50][..], &[40, 60, 50], &[99, 1, 49, 1]] {
            let (mut one, mut other) = (filled(), filled());
            for len in lens {
                let mut copy = vec![0; *len];
                let (emitted, fin) = one.emit(&mut copy).unwrap();
                let (tail, tail_fin) = other.emit_tail(*len).unwrap();
                assert_eq!(emitted, *len);
                assert_eq!((tail.as_slice(), tail_fin), (&copy[..], fin));
                assert_eq!(one.off_front(), other.off_front());
            }
        }
    }

    #[test]
    fn tail_refers_to_the_buffer() {
        let mut buf = filled();
        let held = buf.data[0].data.as_ref().as_ptr();
        let (first, _) = buf.emit_tail(10).unwrap();
        let (second, _) = buf.emit_tail(10).unwrap();
        assert_eq!(first.as_slice().as_ptr(), held);
        assert_eq!(second.as_slice().as_ptr(), held.wrapping_add(10));
    }

    #[test]
    fn tail_lacks_what_was_copied() {
        let (mut tail, _) = filled().emit_tail(40).unwrap();
        let mut copy = [0; 16];
        tail.copy_front(&mut copy);
        assert_eq!(copy[..], Vec::from_iter(0..16));
        assert_eq!(tail.as_slice(), Vec::from_iter(16..40));
        tail.copy_front(&mut [0; 24]);
        assert!(tail.as_slice().is_empty());
    }

    #[test]
    fn tail_needs_one_buffer() {
        let mut buf = filled();
        assert!(buf.emit_tail(0).is_none());
        assert!(buf.emit_tail(101).is_none());
        assert!(buf.emit_tail(60).is_some());
        assert!(buf.emit_tail(41).is_none());
        assert_eq!(buf.emit(&mut [0; 200]), Ok((90, true)));
        assert!(buf.emit_tail(1).is_none());
    }

    #[test]
    fn lost_tail_is_emitted_again() {
        let mut buf = filled();
        buf.emit_tail(100).unwrap();
        buf.emit_tail(50).unwrap();
        buf.retransmit(20, 30);
        assert!(buf.emit_tail(31).is_none());
        let (tail, fin) = buf.emit_tail(30).unwrap();
        assert_eq!((tail.as_slice()[0], fin), (20, false));
    }

    #[test]
    fn tail_is_sealed_as_copied_data() {
        for alg in [
            Algorithm::AES128_GCM,
            Algorithm::AES256_GCM,
            Algorithm::ChaCha20_Poly1305,
        ] {
            let secret = [7; 32];
            let plain: Vec<u8> = (0..1300u32).map(|i| i as u8).collect();
            for (head, len) in
                [(1, 1), (9, 40), (16, 64), (23, 1277), (100, 1200)]
            {
                let mut one = Seal::from_secret(alg, &secret).unwrap();
                let mut other = Seal::from_secret(alg, &secret).unwrap();
                let mut copied = vec![0; head + len + alg.tag_len()];
                copied[..head + len].copy_from_slice(&plain[..head + len]);
                let mut sealed = vec![0; copied.len()];
                sealed[..head].copy_from_slice(&plain[..head]);

                let ad = b"header";
                let whole = one
                    .seal_with_u64_counter(5, ad, &mut copied, head + len, None)
                    .unwrap();
                let tail = Some(&plain[head..head + len]);
                let length = other
                    .seal_with_u64_counter(5, ad, &mut sealed, head, tail)
                    .unwrap();
                assert_eq!(
                    (whole, &copied),
                    (length, &sealed),
                    "{alg:?} {head} {len}"
                );
            }
        }
    }
}
