//! Content of transfers: each byte follows from the sender, the stream and the offset, so
//! that data which is swapped, repeated or left out shows, in the datagrams and to the reader.

use crate::determinism::Generator;
use crate::scenario::Endpoint;

const BLOCK: u64 = 8;

/// Returns `len` bytes of what `from` sends on a stream, from `offset` on.
pub fn bytes(from: Endpoint, stream: u64, offset: u64, len: usize) -> Vec<u8> {
    let first_block = offset / BLOCK;
    let skipped = (offset - first_block * BLOCK) as usize;
    let mut bytes = Vec::with_capacity(skipped + len + BLOCK as usize);
    for number in first_block..(offset + len as u64).div_ceil(BLOCK) {
        bytes.extend_from_slice(&block(from, stream, number));
    }
    bytes.truncate(skipped + len);
    bytes.drain(..skipped);
    bytes
}

/// Returns the offset of the first byte that `from` did not send there, if there is one.
pub fn first_wrong(from: Endpoint, stream: u64, offset: u64, read: &[u8]) -> Option<u64> {
    let sent = bytes(from, stream, offset, read.len());
    if read == sent {
        return None;
    }
    let position = read.iter().zip(&sent).position(|(read, sent)| read != sent)?;
    Some(offset + position as u64)
}

fn block(from: Endpoint, stream: u64, number: u64) -> [u8; BLOCK as usize] {
    let mut of_stream = Generator(stream * 2 + from as u64);
    Generator(of_stream.next() ^ number).next().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Endpoint::Client;
    use Endpoint::Server;

    #[test]
    fn content_in_parts_is_the_same() {
        let whole = bytes(Client, 4, 0, 100);
        for (from, to) in [(0, 1), (3, 8), (8, 17), (99, 100), (50, 50)] {
            assert_eq!(bytes(Client, 4, from as u64, to - from), whole[from..to]);
        }
    }

    #[test]
    fn content_at_another_place_is_wrong() {
        let read = bytes(Client, 4, 10, 30);
        assert_eq!(first_wrong(Client, 4, 10, &read), None);
        for (from, stream, offset) in [(Server, 4, 10), (Client, 8, 10), (Client, 4, 18)] {
            assert!(
                first_wrong(from, stream, offset, &read).is_some(),
                "{from:?} {stream} {offset}"
            );
        }
        let mut changed = read;
        changed[20] ^= 1;
        assert_eq!(first_wrong(Client, 4, 10, &changed), Some(30));
    }
}
