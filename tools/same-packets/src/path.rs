//! Path between the endpoints: delay, bottleneck, loss, reordering, duplicates.
//!
//! Its decisions depend on the seed, and on the number, time and size of the datagrams,
//! not on their content. The crate `link` has none of reordering, duplicates and delayed reads:
//! its packets keep their order and arrive once.

use crate::determinism::Generator;
use crate::scenario::Path;

const MS: u64 = 1_000_000;

/// One direction of a path.
pub struct Direction {
    path: Path,
    random: Generator,
    count: u64,
    free_at: u64,
}

impl Direction {
    pub fn new(path: &Path, seed: u64) -> Self {
        Self { path: path.clone(), random: Generator(seed), count: 0, free_at: 0 }
    }

    /// Returns when a datagram that leaves at `at` arrives, in ns: never, once or twice.
    pub fn arrivals(&mut self, at: u64, bytes: usize) -> Vec<u64> {
        let number = self.count;
        self.count += 1;
        let [is_lost, is_late, is_twice] =
            [self.path.loss_permille, self.path.late_permille, self.path.twice_permille]
                .map(|p| self.random.happens(p));
        let lateness = self.random.below(self.path.delay_ms.max(5) * MS / 5);
        let Some(sent) = self.pass_bottleneck(at, bytes) else {
            return Vec::new();
        };
        if is_lost || bytes > self.path.mtu || self.path.lost.contains(&number) {
            return Vec::new();
        }
        let first = sent + self.path.delay_ms * MS + if is_late { lateness } else { 0 };
        let mut arrivals = vec![self.next_read(first)];
        if is_twice {
            arrivals.push(self.next_read(first + lateness));
        }
        arrivals
    }

    /// Returns when the bottleneck has sent a datagram, or nothing if its queue is full.
    fn pass_bottleneck(&mut self, at: u64, bytes: usize) -> Option<u64> {
        if self.path.kbit_per_s == 0 {
            return Some(at);
        }
        let ns_of = |bytes: u64| bytes * 8 * MS / self.path.kbit_per_s;
        let start = self.free_at.max(at);
        if start - at > ns_of(self.path.queue_bytes) {
            return None;
        }
        self.free_at = start + ns_of(bytes as u64);
        Some(self.free_at)
    }

    fn next_read(&self, at: u64) -> u64 {
        match self.path.read_interval_us * 1000 {
            0 => at,
            interval => at.div_ceil(interval) * interval,
        }
    }
}
