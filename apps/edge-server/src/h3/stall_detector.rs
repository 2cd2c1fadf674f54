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
pub struct Scene {
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
pub struct Slow {
    pub responses: Vec<u64>,
    pub heads: Vec<u64>,
    pub contents: Vec<u64>,
}

/// The server's patience with one connection.
pub struct Patience {
    interval: Duration,
    next: Option<Instant>,
    before: Scene,
}

impl Patience {
    /// With a connection that begins now. An interval is what may stall so long.
    pub fn new(interval: Duration, now: Instant) -> Self {
        Self { interval, next: now.checked_add(interval), before: Scene::default() }
    }

    /// When to look at the connection again.
    pub fn deadline(&self) -> Option<Instant> {
        self.next
    }

    pub fn is_due(&self, now: Instant) -> bool {
        self.next.is_some_and(|next| next <= now)
    }

    /// Compares what is there with what was there an interval ago.
    pub fn judge(&mut self, scene: Scene, now: Instant) -> Slow {
        let least = RATE_MIN * self.interval.as_secs();
        let before = std::mem::replace(&mut self.before, scene);
        self.next = now.checked_add(self.interval);
        let scene = &self.before;
        let still = |before: &BTreeSet<u64>, now: &BTreeSet<u64>| before & now;
        let stuck = |moved: u64, before, now| match moved < least {
            true => still(before, now).into_iter().collect(),
            false => Vec::new(),
        };
        Slow {
            responses: stuck(
                scene.taken.saturating_sub(before.taken),
                &before.responses,
                &scene.responses,
            ),
            heads: still(&before.heads, &scene.heads).into_iter().collect(),
            contents: stuck(scene.received - before.received, &before.contents, &scene.contents),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);
    const LEAST: u64 = 2560;

    /// What is found slow in the second of two scenes, of these streams and bytes.
    fn slow(scenes: [(&[u64], u64); 2], scene: impl Fn(BTreeSet<u64>, u64) -> Scene) -> Slow {
        let start = quiche::clock::now();
        let mut patience = Patience::new(INTERVAL, start);
        let mut found = Slow::default();
        for (n, (streams, bytes)) in (1..).zip(scenes) {
            assert_eq!(found, Slow::default(), "there was nothing before");
            let at = start + n * INTERVAL;
            assert!(patience.is_due(at) && patience.deadline() == Some(at));
            found = patience.judge(scene(streams.iter().copied().collect(), bytes), at);
            assert!(!patience.is_due(at));
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
            let found =
                slow(scenes, |responses, taken| Scene { responses, taken, ..Scene::default() });
            assert_eq!(found.responses, expected, "{before:?} {now:?} {taken}");
            assert_eq!((found.heads, found.contents), (vec![], vec![]));
        }
    }

    #[test]
    fn content_takes_for_ever_only_while_it_comes() {
        for (received, expected) in [(LEAST - 1, &[4][..]), (LEAST, &[])] {
            let scenes = [(&[4][..], 7), (&[4, 8][..], 7 + received)];
            let found =
                slow(scenes, |contents, received| Scene { contents, received, ..Scene::default() });
            assert_eq!(found.contents, expected, "{received}");
            assert_eq!((found.heads, found.responses), (vec![], vec![]));
        }
    }

    #[test]
    fn a_header_section_has_its_time_whatever_moves() {
        let scenes = [(&[0, 4][..], 0), (&[4, 8][..], 1_000_000)];
        let found = slow(scenes, |heads, bytes| Scene {
            heads,
            taken: bytes,
            received: bytes,
            ..Scene::default()
        });
        assert_eq!(found, Slow { heads: vec![4], ..Slow::default() });
    }
}
