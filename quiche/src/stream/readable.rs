//! Readable streams, one by one: a caller that takes one event at a time mostly
//! needs the first alone, without a list of all.

use super::StreamIter;
use super::StreamMap;
use crate::BufFactory;

/// Iterator over the streams that are readable now.
#[derive(Default)]
pub struct Readable {
    first: Option<u64>,
    all: Option<StreamIter>,
}

impl Readable {
    /// Returns the next stream.
    pub fn next<F: BufFactory>(&mut self, streams: &StreamMap<F>) -> Option<u64> {
        if self.first.is_none() {
            self.first = streams.readable.front().get().map(|key| key.id);
            return self.first;
        }
        let all = self.all.get_or_insert_with(|| streams.readable());
        all.find(|id| Some(*id) != self.first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_utils::Pipe;

    #[test]
    fn readable_streams_are_found_once_in_order() {
        for count in 0..4 {
            let mut pipe = Pipe::new("cubic").unwrap();
            pipe.handshake().unwrap();
            for stream in 0..count {
                pipe.client.stream_send(4 * stream, b"abc", false).unwrap();
            }
            pipe.advance().unwrap();

            let listed: Vec<_> = pipe.server.readable().collect();
            let mut readable = Readable::default();
            let mut found = Vec::new();
            while let Some(id) = readable.next(&pipe.server.streams) {
                found.push(id);
                // It goes to the end of the queue meanwhile.
                pipe.server.stream_recv(id, &mut [0]).unwrap();
            }
            assert_eq!(found.len(), count as usize);
            assert_eq!(found, listed);
        }
    }
}
