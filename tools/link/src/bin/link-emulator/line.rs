//! Delay line: packets on their way through one direction of the link, in order.
//!
//! Owns the payloads between the model's verdict and the send. Bounded by the
//! link: what is here waits in its buffer or travels at its rate for its delay.

use crate::lateness::Lateness;
use link::Ecn;
use std::collections::VecDeque;
use std::time::Duration;

/// Most bytes in one send: the largest UDP payload over IPv4.
const BATCH_BYTES_MAX: usize = 65_507;

/// A first-in, first-out line of packets that are due at known times.
#[derive(Debug)]
pub struct DelayLine {
    entries: VecDeque<Entry>,
    /// The payloads, one after the other.
    bytes: VecDeque<u8>,
    /// By how much the packets that have left were late.
    pub lateness: Lateness,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    due: Duration,
    client: usize,
    size_bytes: usize,
    ecn: Ecn,
}

/// Packets that leave with one send: all of one client, with one ECN codepoint and
/// one size, except that the last may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    pub client: usize,
    pub ecn: Ecn,
    pub packets: u32,
    /// Size of each payload but the last, in bytes.
    pub segment_bytes: usize,
}

impl DelayLine {
    /// Creates an empty line, of whose packets 1 % may be later than `late_limit`.
    pub fn new(late_limit: Duration) -> Self {
        let lateness = Lateness::new(late_limit);
        Self { entries: VecDeque::new(), bytes: VecDeque::new(), lateness }
    }

    /// Appends a packet, which must not be due before the one in front of it.
    pub fn push(&mut self, due: Duration, client: usize, ecn: Ecn, payload: &[u8]) {
        debug_assert!(self.entries.back().is_none_or(|last| last.due <= due));
        self.entries.push_back(Entry { due, client, size_bytes: payload.len(), ecn });
        self.bytes.extend(payload);
    }

    /// Returns when the next packet is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.entries.front().map(|entry| entry.due)
    }

    /// Returns how many packets are on their way.
    pub fn packets(&self) -> usize {
        self.entries.len()
    }

    /// Takes the longest batch of at most `packets_max` that is due at `now`, and
    /// puts its payloads into `contents`, in place of what was there.
    pub fn take_due(
        &mut self,
        now: Duration,
        packets_max: usize,
        contents: &mut Vec<u8>,
    ) -> Option<Batch> {
        let first = *self.entries.front().filter(|entry| entry.due <= now)?;
        let mut batch = Batch {
            client: first.client,
            ecn: first.ecn,
            packets: 0,
            segment_bytes: first.size_bytes,
        };
        let mut batch_bytes = 0;
        while let Some(&entry) = self.entries.front() {
            let alike = entry.client == first.client && entry.ecn == first.ecn;
            let fits = batch_bytes + entry.size_bytes <= BATCH_BYTES_MAX
                && entry.size_bytes <= first.size_bytes
                && entry.size_bytes > 0;
            let joins = alike && fits && entry.due <= now && (batch.packets as usize) < packets_max;
            if batch.packets > 0 && !joins {
                break;
            }
            batch.packets += 1;
            self.lateness.record(now - entry.due);
            batch_bytes += entry.size_bytes;
            self.entries.pop_front();
            if entry.size_bytes < first.size_bytes || entry.size_bytes == 0 {
                break;
            }
        }
        self.move_bytes(batch_bytes, contents);
        Some(batch)
    }

    /// Slices are copied whole; an iterator would go byte by byte.
    fn move_bytes(&mut self, count: usize, to: &mut Vec<u8>) {
        let (head, tail) = self.bytes.as_slices();
        let from_head = count.min(head.len());
        to.clear();
        to.extend_from_slice(&head[..from_head]);
        to.extend_from_slice(&tail[..count - from_head]);
        self.bytes.drain(..count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1);

    fn line(packets: &[(usize, &str)]) -> DelayLine {
        let mut line = DelayLine::new(NOW);
        for (client, payload) in packets {
            line.push(NOW, *client, Ecn::NotEct, payload.as_bytes());
        }
        line
    }

    /// Takes everything that is due, as (client, payloads of a batch).
    fn take_all(line: &mut DelayLine, packets_max: usize) -> Vec<(usize, Vec<String>)> {
        let mut contents = Vec::new();
        let mut batches = Vec::new();
        while let Some(batch) = line.take_due(NOW, packets_max, &mut contents) {
            let text = String::from_utf8(contents.clone()).unwrap();
            let chars: Vec<char> = text.chars().collect();
            let segments = chars.chunks(batch.segment_bytes.max(1)).map(|c| c.iter().collect());
            let segments: Vec<String> = segments.collect();
            assert_eq!(segments.len().max(1), batch.packets as usize);
            batches.push((batch.client, segments));
        }
        batches
    }

    fn batches(expected: &[(usize, &[&str])]) -> Vec<(usize, Vec<String>)> {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        expected.iter().map(|(client, texts)| (*client, owned(texts))).collect()
    }

    #[test]
    fn batch_has_equal_packets_and_a_shorter_last() {
        let mut line = line(&[(1, "aa"), (1, "bb"), (1, "c"), (1, "d"), (1, "ee")]);
        let expected = batches(&[(1, &["aa", "bb", "c"]), (1, &["d"]), (1, &["ee"])]);
        assert_eq!(take_all(&mut line, 64), expected);
        assert_eq!((line.packets(), line.bytes.len()), (0, 0));
    }

    #[test]
    fn batches_keep_clients_apart_in_order() {
        let mut line = line(&[(1, "aa"), (2, "bb"), (2, "cc"), (1, "dd")]);
        let expected = batches(&[(1, &["aa"]), (2, &["bb", "cc"]), (1, &["dd"])]);
        assert_eq!(take_all(&mut line, 64), expected);
    }

    #[test]
    fn empty_packet_leaves_alone() {
        let mut line = line(&[(1, "a"), (1, ""), (1, ""), (1, "b")]);
        assert_eq!(
            take_all(&mut line, 64),
            batches(&[(1, &["a"]), (1, &[]), (1, &[]), (1, &["b"])])
        );
    }

    #[test]
    fn batches_are_bounded_in_packets_and_bytes() {
        let mut by_count = line(&[(1, "aa"), (1, "bb"), (1, "cc")]);
        assert_eq!(take_all(&mut by_count, 2), batches(&[(1, &["aa", "bb"]), (1, &["cc"])]));
        let large = "x".repeat(40_000);
        let mut by_bytes = line(&[(1, &large), (1, &large)]);
        assert_eq!(take_all(&mut by_bytes, 64).len(), 2);
    }

    #[test]
    fn batch_has_one_ecn_codepoint() {
        let mut line = DelayLine::new(NOW);
        for ecn in [Ecn::Ect0, Ecn::Ect0, Ecn::Ce, Ecn::Ect0, Ecn::NotEct, Ecn::Ect1] {
            line.push(NOW, 1, ecn, b"a");
        }
        let mut contents = Vec::new();
        let batches = [(); 5].map(|()| line.take_due(NOW, 64, &mut contents).unwrap());
        let expected =
            [(Ecn::Ect0, 2), (Ecn::Ce, 1), (Ecn::Ect0, 1), (Ecn::NotEct, 1), (Ecn::Ect1, 1)];
        assert_eq!(batches.map(|batch| (batch.ecn, batch.packets)), expected);
    }

    #[test]
    fn packet_leaves_when_it_is_due() {
        let ns = Duration::from_nanos(1);
        let mut line = DelayLine::new(NOW);
        let mut contents = Vec::new();
        line.push(NOW, 1, Ecn::NotEct, b"a");
        line.push(NOW + 10 * ns, 1, Ecn::NotEct, b"b");
        assert_eq!(line.take_due(NOW - ns, 64, &mut contents), None);
        let batch = line.take_due(NOW + 4 * ns, 64, &mut contents).unwrap();
        let late = (line.lateness.mean(), line.lateness.max());
        assert_eq!((batch.packets, late), (1, (4 * ns, 4 * ns)));
        assert_eq!(line.next_due(), Some(NOW + 10 * ns));
    }
}
