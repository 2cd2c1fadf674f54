//! A token bucket, as the time at which it will be full again (the generic cell rate
//! algorithm): each token taken moves that time on.

use std::time::Duration;
use std::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// Tokens of one second, which come back evenly.
#[derive(Debug)]
pub struct TokenBucket {
    full_at: Instant,
}

impl TokenBucket {
    /// A full one.
    pub fn new(now: Instant) -> Self {
        Self { full_at: now }
    }

    /// Takes a token, of `per_second` that there are of a full bucket, unless only this
    /// `reserve` of a second's tokens is left.
    pub fn take(&mut self, per_second: u32, reserve: Duration, now: Instant) -> bool {
        let full_at = self.full_at.max(now) + SECOND / per_second;
        let is_there = full_at <= now + SECOND.saturating_sub(reserve);
        if is_there {
            self.full_at = full_at;
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Duration = Duration::ZERO;
    const HALF: Duration = Duration::from_millis(500);

    fn taken(bucket: &mut TokenBucket, reserve: Duration, now: Instant) -> usize {
        (0..1000).filter(|_| bucket.take(100, reserve, now)).count()
    }

    #[test]
    fn a_seconds_tokens_are_there_at_once_and_come_back_evenly() {
        let start = quiche::clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut bucket = TokenBucket::new(start);
        for (ms, expected) in [(0, 100), (0, 0), (9, 0), (10, 1), (110, 10), (5000, 100)] {
            assert_eq!(taken(&mut bucket, NONE, at(ms)), expected, "{ms} ms");
        }
    }

    #[test]
    fn whoever_leaves_a_reserve_cannot_use_it_up() {
        let start = quiche::clock::now();
        let mut bucket = TokenBucket::new(start);
        assert_eq!(taken(&mut bucket, HALF, start), 50);
        assert_eq!(taken(&mut bucket, NONE, start), 50);
        let later = start + HALF;
        assert_eq!(taken(&mut bucket, HALF, later), 0);
        assert_eq!(taken(&mut bucket, NONE, later), 50);
    }

    #[test]
    fn one_a_second_is_one_a_second() {
        let start = quiche::clock::now();
        let mut bucket = TokenBucket::new(start);
        assert!(bucket.take(1, NONE, start) && !bucket.take(1, NONE, start));
        assert!(bucket.take(1, NONE, start + SECOND));
    }
}
