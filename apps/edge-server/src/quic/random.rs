//! Random bytes, buffered per thread: a connection needs a few bytes several times, and a system
//! call each time is costly.

use std::cell::RefCell;

use ring::rand::SecureRandom;
use ring::rand::SystemRandom;

/// Size of the buffer, in bytes.
const BUFFER_BYTES: usize = 1 << 10;

thread_local! {
    static BUFFER: RefCell<RandomBuffer> = RefCell::new(RandomBuffer::new());
}

/// Fills `bytes` with random bytes. Returns `None` if the system has no randomness.
pub fn fill(bytes: &mut [u8]) -> Option<()> {
    BUFFER.with_borrow_mut(|buffer| buffer.fill(bytes))
}

/// Buffer of one thread. Each byte is handed out once and erased.
struct RandomBuffer {
    fetched: [u8; BUFFER_BYTES],

    /// How many bytes at the front have been handed out.
    used: usize,
}

impl RandomBuffer {
    fn new() -> Self {
        Self { fetched: [0; BUFFER_BYTES], used: BUFFER_BYTES }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Option<()> {
        if bytes.len() > BUFFER_BYTES - self.used {
            let system = SystemRandom::new();
            if bytes.len() > BUFFER_BYTES {
                return system.fill(bytes).ok();
            }
            system.fill(&mut self.fetched).ok()?;
            self.used = 0;
        }
        let used_bytes = &mut self.fetched[self.used..][..bytes.len()];
        bytes.copy_from_slice(used_bytes);
        used_bytes.fill(0);
        self.used += bytes.len();
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn filled_bytes_are_never_repeated() {
        let mut seen = HashSet::new();
        for length in (0..200).map(|n| 16 + n % 7).chain([BUFFER_BYTES, 3 * BUFFER_BYTES, 16]) {
            let mut bytes = vec![0; length];
            fill(&mut bytes).unwrap();
            for eight in bytes.chunks_exact(8) {
                assert!(seen.insert(eight.to_vec()), "{length}");
            }
        }
    }

    #[test]
    fn filled_bytes_are_erased_from_buffer() {
        let mut buffer = RandomBuffer::new();
        let mut bytes = [0; 100];
        buffer.fill(&mut bytes).unwrap();
        assert_eq!(buffer.used, 100);
        assert_eq!(buffer.fetched[..100], [0; 100]);
        assert_ne!(buffer.fetched[100..200], [0; 100]);
    }
}
