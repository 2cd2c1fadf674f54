//! Stall detector: finds requests and responses whose client makes hardly any progress, to
//! hold on to as much as possible for as long as possible (RFC 9000, 21.6).
//!
//! Compares a snapshot of the connection with that of an interval ago: streams that were
//! under way then and still are, while hardly a byte has moved. This costs nothing per
//! packet, and finds a client after one interval to two.
//!
//! A response is judged by its own progress, unless the whole connection makes enough: responses
//! share the path in an order that is not theirs to choose (RFC 9218). The least progress is a
//! thirtieth of what the slowest honest paths carry, and more if the server keeps much: of a
//! response up to a quarter, because the rate of its path can fall while much is kept, and of the
//! connection an eighth of what is kept. Acknowledged bytes count in any order: a lost packet may be
//! sent again behind a long queue.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::time::Duration;
use std::time::Instant;

/// The least progress in a second, in bytes.
const RATE_MIN: u64 = 256;

/// Part of the kept bytes that a client acknowledges in an interval at least.
const KEPT_DIVISOR: u64 = 8;

/// Progress of a response in a second that is enough however much is kept: a quarter of 64 kbit/s.
const OWN_RATE_MAX: u64 = 2048;

/// Bytes of a response, or of all of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseProgress {
    /// Acknowledged, in any order.
    pub acknowledged: u64,

    /// Kept until they are acknowledged.
    pub kept: u64,
}

/// Streams under way on a connection, and its progress since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgressSnapshot {
    /// Streams whose responses wait for the client.
    pub responses: BTreeMap<u64, ResponseProgress>,

    /// Streams without a whole header section.
    pub heads: BTreeSet<u64>,

    /// Streams whose content has not ended.
    pub contents: BTreeSet<u64>,

    /// All responses since the connection began.
    pub all: ResponseProgress,

    /// Bytes of content that have arrived.
    pub received: u64,
}

/// Streams without progress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StalledStreams {
    pub responses: Vec<u64>,
    pub heads: Vec<u64>,
    pub contents: Vec<u64>,
}

/// Detector of one connection.
pub struct StallDetector {
    interval: Duration,
    next: Option<Instant>,
    before: ProgressSnapshot,
}

impl StallDetector {
    /// Returns the detector of a connection that begins `now`. A stream may stall for
    /// `interval`.
    pub fn new(interval: Duration, now: Instant) -> Self {
        Self { interval, next: now.checked_add(interval), before: ProgressSnapshot::default() }
    }

    /// Returns when the next comparison is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.next
    }

    pub fn is_due(&self, now: Instant) -> bool {
        self.next.is_some_and(|next| next <= now)
    }

    /// Compares a snapshot with the one of an interval ago. Returns the streams that have
    /// stalled in between.
    pub fn compare(&mut self, snapshot: ProgressSnapshot, now: Instant) -> StalledStreams {
        let seconds = self.interval.as_secs();
        let least = RATE_MIN * seconds;
        let before = std::mem::replace(&mut self.before, snapshot);
        self.next = now.checked_add(self.interval);
        let snapshot = &self.before;
        let still =
            |before: &BTreeSet<u64>, now: &BTreeSet<u64>| (before & now).into_iter().collect();
        let is_uploading = snapshot.received - before.received >= least;
        StalledStreams {
            responses: stalled_responses(&before, snapshot, seconds),
            heads: still(&before.heads, &snapshot.heads),
            contents: match is_uploading {
                true => Vec::new(),
                false => still(&before.contents, &snapshot.contents),
            },
        }
    }
}

/// Returns the responses that have stalled, unless the connection moves all the same.
fn stalled_responses(
    before: &ProgressSnapshot,
    snapshot: &ProgressSnapshot,
    seconds: u64,
) -> Vec<u64> {
    let moves = |before: ResponseProgress, now: ResponseProgress, enough: u64| {
        let progress = now.acknowledged.saturating_sub(before.acknowledged);
        progress >= (before.kept / KEPT_DIVISOR).clamp(RATE_MIN * seconds, enough)
    };
    if moves(before.all, snapshot.all, u64::MAX) {
        return Vec::new();
    }
    let both = before
        .responses
        .iter()
        .filter_map(|(stream, before)| Some((*stream, *before, *snapshot.responses.get(stream)?)));
    both.filter(|(_, before, now)| !moves(*before, *now, OWN_RATE_MAX * seconds))
        .map(|(stream, ..)| stream)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn default<T: Default>() -> T {
        T::default()
    }

    const INTERVAL: Duration = Duration::from_secs(10);
    const LEAST: u64 = 2560;

    /// Returns what has stalled in the second of two snapshots, of these streams and bytes.
    fn stalled(
        snapshots: [(&[u64], u64); 2],
        snapshot: impl Fn(BTreeSet<u64>, u64) -> ProgressSnapshot,
    ) -> StalledStreams {
        let start = quiche::clock::now();
        let mut stall_detector = StallDetector::new(INTERVAL, start);
        let mut found = StalledStreams::default();
        for (n, (streams, bytes)) in (1..).zip(snapshots) {
            assert_eq!(found, StalledStreams::default(), "there was nothing before");
            let at = start + n * INTERVAL;
            assert!(stall_detector.is_due(at) && stall_detector.deadline() == Some(at));
            found = stall_detector.compare(snapshot(streams.iter().copied().collect(), bytes), at);
            assert!(!stall_detector.is_due(at));
        }
        found
    }

    #[test]
    fn response_stalls_unless_bytes_are_acknowledged() {
        let base = 1_000_000;
        for (before, now, acknowledged, expected) in [
            (&[0, 4][..], &[4, 8][..], LEAST - 1, &[4][..]),
            (&[0, 4], &[4, 8], LEAST, &[]),
            (&[0], &[4], 0, &[]),
            (&[], &[4], 0, &[]),
        ] {
            let snapshots = [(before, base), (now, base + acknowledged)];
            let found = stalled(snapshots, |responses, acknowledged| ProgressSnapshot {
                responses: responses.into_iter().map(|stream| (stream, default())).collect(),
                all: ResponseProgress { acknowledged, kept: 0 },
                ..ProgressSnapshot::default()
            });
            assert_eq!(found.responses, expected, "{before:?} {now:?} {acknowledged}");
            assert_eq!((found.heads, found.contents), (vec![], vec![]));
        }
    }

    #[test]
    fn response_stalls_by_its_own_progress_and_what_is_kept() {
        const KEPT: u64 = 800_000;
        const SHARE: u64 = KEPT / 8;
        const ENOUGH: u64 = 20_480;
        // Bytes kept of each response before, and acknowledged of it since.
        for (responses, expected) in [
            (&[(KEPT, ENOUGH)][..], &[][..]),
            (&[(KEPT, ENOUGH - 1)], &[0]),
            (&[(KEPT / 10, SHARE / 10)], &[]),
            (&[(KEPT / 10, SHARE / 10 - 1)], &[0]),
            // Another response of the connection trickles, and another one moves enough.
            (&[(KEPT, 0), (0, LEAST)], &[0]),
            (&[(KEPT, 0), (KEPT, SHARE)], &[0]),
            (&[(KEPT, 0), (KEPT, 2 * SHARE)], &[]),
            // One waits for its turn, on a path that carries little.
            (&[(10_000, LEAST), (0, 0)], &[]),
        ] {
            let now = quiche::clock::now();
            let mut stall_detector = StallDetector::new(INTERVAL, now);
            let snapshot = |acknowledged: fn(u64) -> u64| {
                let progress = responses.iter().map(|(kept, progress)| ResponseProgress {
                    acknowledged: acknowledged(*progress),
                    kept: *kept,
                });
                let all = progress.clone().fold(default(), |all: ResponseProgress, one| {
                    let acknowledged = all.acknowledged + one.acknowledged;
                    ResponseProgress { acknowledged, kept: all.kept + one.kept }
                });
                let responses = (0..).step_by(4).zip(progress).collect();
                ProgressSnapshot { responses, all, ..default() }
            };
            stall_detector.compare(snapshot(|_| 0), now);
            let found = stall_detector.compare(snapshot(|progress| progress), now);
            assert_eq!(found.responses, expected, "{responses:?}");
        }
    }

    #[test]
    fn content_stalls_unless_bytes_arrive() {
        for (received, expected) in [(LEAST - 1, &[4][..]), (LEAST, &[])] {
            let snapshots = [(&[4][..], 7), (&[4, 8][..], 7 + received)];
            let found = stalled(snapshots, |contents, received| ProgressSnapshot {
                contents,
                received,
                ..ProgressSnapshot::default()
            });
            assert_eq!(found.contents, expected, "{received}");
            assert_eq!((found.heads, found.responses), (vec![], vec![]));
        }
    }

    #[test]
    fn header_section_stalls_whatever_else_moves() {
        let snapshots = [(&[0, 4][..], 0), (&[4, 8][..], 1_000_000)];
        let found = stalled(snapshots, |heads, bytes| ProgressSnapshot {
            heads,
            all: ResponseProgress { acknowledged: bytes, kept: 0 },
            received: bytes,
            ..ProgressSnapshot::default()
        });
        assert_eq!(found, StalledStreams { heads: vec![4], ..StalledStreams::default() });
    }
}
