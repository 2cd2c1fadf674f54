//! Monotonic clock of the machine, which all its processes and containers share.

use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use rustix::time::clock_gettime;
use rustix::time::ClockId;

/// One moment by all three clocks.
pub struct MonotonicClock {
    ns: u64,
    now: Instant,
    wall_now: SystemTime,
}

impl MonotonicClock {
    pub fn new() -> Self {
        let time = clock_gettime(ClockId::Monotonic);
        let ns = time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs();
        Self { ns, now: quiche::clock::now(), wall_now: quiche::clock::wall_now() }
    }

    /// Returns the time of `at`, which is not before this clock was read.
    pub fn ns(&self, at: Instant) -> u64 {
        self.ns + nanos(at.duration_since(self.now))
    }

    /// Returns the time at which the wall clock was `at`, if nobody has set it since.
    pub fn ns_of_wall(&self, at: SystemTime) -> u64 {
        match self.wall_now.duration_since(at) {
            Ok(ago) => self.ns.saturating_sub(nanos(ago)),
            Err(ahead) => self.ns + nanos(ahead.duration()),
        }
    }
}

pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
