//! Token bucket, kept as the time at which it will be full again: each token taken moves that
//! time on (the generic cell rate algorithm).

use std::time::Duration;
use std::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// Tokens of one second, which are refilled evenly.
#[derive(Debug)]
pub struct TokenBucket {
    full_at: Instant,
}

impl TokenBucket {
    /// Returns a full bucket.
    pub fn new(now: Instant) -> Self {
        Self { full_at: now }
    }

    /// Takes a token from a bucket that holds `per_second`, unless only the tokens of
    /// `reserve` are left. Returns whether it did.
    pub fn take(&mut self, per_second: u32, reserve: Duration, now: Instant) -> bool {
        let full_at = self.full_at.max(now) + SECOND / per_second;
        let is_available = full_at <= now + SECOND.saturating_sub(reserve);
        if is_available {
            self.full_at = full_at;
        }
        is_available
    }

    /// Takes a token from a bucket that holds `burst` and gets `per_second`. Returns whether there
    /// was one.
    pub fn take_of(&mut self, burst: u32, per_second: u32, now: Instant) -> bool {
        let is_available = self.has_of(burst, per_second, now);
        if is_available {
            self.full_at = self.full_at.max(now) + SECOND / per_second;
        }
        is_available
    }

    /// Returns whether there is a token in a bucket that holds `burst` and gets `per_second`.
    fn has_of(&self, burst: u32, per_second: u32, now: Instant) -> bool {
        let interval = SECOND / per_second;
        self.full_at.max(now) + interval <= now + interval * burst
    }

    /// Returns whether it is as one that is new.
    pub fn is_full(&self, now: Instant) -> bool {
        self.full_at <= now
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
    fn bucket_is_full_at_first_and_is_refilled_evenly() {
        let start = quiche::clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut bucket = TokenBucket::new(start);
        for (ms, expected) in [(0, 100), (0, 0), (9, 0), (10, 1), (110, 10), (5000, 100)] {
            assert_eq!(taken(&mut bucket, NONE, at(ms)), expected, "{ms} ms");
        }
    }

    #[test]
    fn reserve_is_left_by_those_that_keep_it() {
        let start = quiche::clock::now();
        let mut bucket = TokenBucket::new(start);
        assert_eq!(taken(&mut bucket, HALF, start), 50);
        assert_eq!(taken(&mut bucket, NONE, start), 50);
        let later = start + HALF;
        assert_eq!(taken(&mut bucket, HALF, later), 0);
        assert_eq!(taken(&mut bucket, NONE, later), 50);
    }

    #[test]
    fn bucket_of_one_token_gives_one_a_second() {
        let start = quiche::clock::now();
        let mut bucket = TokenBucket::new(start);
        assert!(bucket.take(1, NONE, start) && !bucket.take(1, NONE, start));
        assert!(bucket.take(1, NONE, start + SECOND));
    }
}
