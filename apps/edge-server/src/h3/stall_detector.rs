//! Clients that are too slow, as an attacker is that holds on to as much as possible for
//! as long as possible (RFC 9000, 21.6).
//!
//! Looks at a connection once in a while, and compares: what was under way then and
//! still is, while hardly a byte has moved. Nothing is done for a packet, and a client is
//! found out after one interval to two.
//!
//! Bytes are those of the whole connection, as its requests and responses share the path
//! in an order that is not theirs to choose (RFC 9218). The least that has to move is
//! a thirtieth of what the slowest honest paths carry.

use std::collections::BTreeSet;
use std::time::Duration;
use std::time::Instant;

/// What has to move in a second, in bytes.
const RATE_MIN: u64 = 256;

/// What is under way on a connection, and what has moved since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgressSnapshot {
    /// Streams whose responses wait for the client.
    pub responses: BTreeSet<u64>,

    /// Streams without a whole header section.
    pub heads: BTreeSet<u64>,

    /// Streams whose content has not ended.
    pub contents: BTreeSet<u64>,

    /// Bytes of responses that the client has acknowledged, and all before them.
    pub taken: u64,

    /// Bytes of content that have come.
    pub received: u64,
}

/// Streams that are too slow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StalledStreams {
    pub responses: Vec<u64>,
    pub heads: Vec<u64>,
    pub contents: Vec<u64>,
}

/// The server's stall_detector with one connection.
pub struct StallDetector {
    interval: Duration,
    next: Option<Instant>,
    before: ProgressSnapshot,
}

impl StallDetector {
    /// With a connection that begins now. An interval is what may stall so long.
    pub fn new(interval: Duration, now: Instant) -> Self {
        Self { interval, next: now.checked_add(interval), before: ProgressSnapshot::default() }
    }

    /// When to look at the connection again.
    pub fn deadline(&self) -> Option<Instant> {
        self.next
    }

    pub fn is_due(&self, now: Instant) -> bool {
        self.next.is_some_and(|next| next <= now)
    }

    /// Compares what is there with what was there an interval ago.
    pub fn judge(&mut self, snapshot: ProgressSnapshot, now: Instant) -> StalledStreams {
        let least = RATE_MIN * self.interval.as_secs();
        let before = std::mem::replace(&mut self.before, snapshot);
        self.next = now.checked_add(self.interval);
        let snapshot = &self.before;
        let still = |before: &BTreeSet<u64>, now: &BTreeSet<u64>| before & now;
        let stuck = |moved: u64, before, now| match moved < least {
            true => still(before, now).into_iter().collect(),
            false => Vec::new(),
        };
        StalledStreams {
            responses: stuck(
                snapshot.taken.saturating_sub(before.taken),
                &before.responses,
                &snapshot.responses,
            ),
            heads: still(&before.heads, &snapshot.heads).into_iter().collect(),
            contents: stuck(
                snapshot.received - before.received,
                &before.contents,
                &snapshot.contents,
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);
    const LEAST: u64 = 2560;

    /// What is found slow in the second of two scenes, of these streams and bytes.
    fn slow(
        scenes: [(&[u64], u64); 2],
        snapshot: impl Fn(BTreeSet<u64>, u64) -> ProgressSnapshot,
    ) -> StalledStreams {
        let start = quiche::clock::now();
        let mut stall_detector = StallDetector::new(INTERVAL, start);
        let mut found = StalledStreams::default();
        for (n, (streams, bytes)) in (1..).zip(scenes) {
            assert_eq!(found, StalledStreams::default(), "there was nothing before");
            let at = start + n * INTERVAL;
            assert!(stall_detector.is_due(at) && stall_detector.deadline() == Some(at));
            found = stall_detector.judge(snapshot(streams.iter().copied().collect(), bytes), at);
            assert!(!stall_detector.is_due(at));
        }
        found
    }

    #[test]
    fn responses_wait_for_ever_only_while_bytes_are_taken() {
        let base = 1_000_000;
        for (before, now, taken, expected) in [
            (&[0, 4][..], &[4, 8][..], LEAST - 1, &[4][..]),
            (&[0, 4], &[4, 8], LEAST, &[]),
            (&[0], &[4], 0, &[]),
            (&[], &[4], 0, &[]),
        ] {
            let scenes = [(before, base), (now, base + taken)];
            let found = slow(scenes, |responses, taken| ProgressSnapshot {
                responses,
                taken,
                ..ProgressSnapshot::default()
            });
            assert_eq!(found.responses, expected, "{before:?} {now:?} {taken}");
            assert_eq!((found.heads, found.contents), (vec![], vec![]));
        }
    }

    #[test]
    fn content_takes_for_ever_only_while_it_comes() {
        for (received, expected) in [(LEAST - 1, &[4][..]), (LEAST, &[])] {
            let scenes = [(&[4][..], 7), (&[4, 8][..], 7 + received)];
            let found = slow(scenes, |contents, received| ProgressSnapshot {
                contents,
                received,
                ..ProgressSnapshot::default()
            });
            assert_eq!(found.contents, expected, "{received}");
            assert_eq!((found.heads, found.responses), (vec![], vec![]));
        }
    }

    #[test]
    fn a_header_section_has_its_time_whatever_moves() {
        let scenes = [(&[0, 4][..], 0), (&[4, 8][..], 1_000_000)];
        let found = slow(scenes, |heads, bytes| ProgressSnapshot {
            heads,
            taken: bytes,
            received: bytes,
            ..ProgressSnapshot::default()
        });
        assert_eq!(found, StalledStreams { heads: vec![4], ..StalledStreams::default() });
    }
}
