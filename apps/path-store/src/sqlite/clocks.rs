//! Clocks of a transaction, and their times as SQLite can hold them.

use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use crate::boot_clock::BootId;

/// The clocks at the start of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub wall: SystemTime,
    pub boot_id: BootId,
    pub since_boot: Duration,
}

/// Returns milliseconds since 1970, as SQLite can hold them.
pub fn unix_ms(time: SystemTime) -> i64 {
    signed(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis())
}

/// Returns microseconds, as SQLite can hold them.
pub fn micros(time: Duration) -> i64 {
    signed(time.as_micros())
}

fn signed(v: u128) -> i64 {
    i64::try_from(v).unwrap_or(i64::MAX)
}

/// Reads what [`micros()`] wrote.
pub fn from_micros(us: i64) -> Duration {
    Duration::from_micros(u64::try_from(us).unwrap_or(0))
}
