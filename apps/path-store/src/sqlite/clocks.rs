//! Clocks of a transaction, and the integers that SQLite stores for their times.

use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use crate::boot_clock::BootId;

/// Clocks at the start of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub wall: SystemTime,
    pub boot_id: BootId,
    pub since_boot: Duration,
}

/// Returns milliseconds since 1970.
pub fn unix_ms(time: SystemTime) -> i64 {
    signed(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis())
}

/// Returns microseconds.
pub fn micros(time: Duration) -> i64 {
    signed(time.as_micros())
}

fn signed(v: u128) -> i64 {
    i64::try_from(v).unwrap_or(i64::MAX)
}

/// Returns the inverse of [`micros()`].
pub fn from_micros(us: i64) -> Duration {
    Duration::from_micros(u64::try_from(us).unwrap_or(0))
}
