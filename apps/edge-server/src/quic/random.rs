//! Random bytes, fetched from the system many at a time: a connection needs them several
//! times, and a system call each time costs more than they are used for.

use std::cell::RefCell;

use ring::rand::SecureRandom;
use ring::rand::SystemRandom;

/// How many bytes are fetched at a time.
const FETCH_BYTES: usize = 1 << 10;

thread_local! {
    static RANDOMNESS: RefCell<Randomness> = RefCell::new(Randomness::new());
}

/// Fills `bytes` with unpredictable ones. `None` when the system has no randomness.
pub fn fill(bytes: &mut [u8]) -> Option<()> {
    RANDOMNESS.with_borrow_mut(|randomness| randomness.fill(bytes))
}

/// A thread's. No bytes are given out twice, nor kept.
struct Randomness {
    fetched: [u8; FETCH_BYTES],

    /// How many of the bytes at the front have been given out.
    used: usize,
}

impl Randomness {
    fn new() -> Self {
        Self { fetched: [0; FETCH_BYTES], used: FETCH_BYTES }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Option<()> {
        if bytes.len() > FETCH_BYTES - self.used {
            let system = SystemRandom::new();
            if bytes.len() > FETCH_BYTES {
                return system.fill(bytes).ok();
            }
            system.fill(&mut self.fetched).ok()?;
            self.used = 0;
        }
        let given = &mut self.fetched[self.used..][..bytes.len()];
        bytes.copy_from_slice(given);
        given.fill(0);
        self.used += bytes.len();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_bytes_are_given_twice_whatever_is_asked_for() {
        let mut seen = HashSet::new();
        for length in (0..200).map(|n| 16 + n % 7).chain([FETCH_BYTES, 3 * FETCH_BYTES, 16]) {
            let mut bytes = vec![0; length];
            fill(&mut bytes).unwrap();
            for eight in bytes.chunks_exact(8) {
                assert!(seen.insert(eight.to_vec()), "{length}");
            }
        }
    }

    #[test]
    fn what_has_been_given_is_not_kept() {
        let mut randomness = Randomness::new();
        let mut bytes = [0; 100];
        randomness.fill(&mut bytes).unwrap();
        assert_eq!(randomness.used, 100);
        assert_eq!(randomness.fetched[..100], [0; 100]);
        assert_ne!(randomness.fetched[100..200], [0; 100]);
    }
}
