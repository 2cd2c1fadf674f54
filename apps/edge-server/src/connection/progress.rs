//! Progress of one connection: from when on another may take its place, if the server is full.

use std::time::Duration;
use std::time::Instant;

/// How long a connection is idle before another may take its place: a client has asked for a page,
/// and may ask for what belongs to it.
pub const IDLE_MIN: Duration = Duration::from_secs(1);

/// How long a request under way makes hardly any progress before that. The outages of most paths
/// are shorter.
pub const STUCK_MIN: Duration = Duration::from_secs(10);

/// Bytes that are progress in that time, as for
/// [stalled responses](crate::h3::stall_detector): 256 a second.
const PROGRESS_BYTES: u64 = 2560;

/// How often progress is noted at most.
const INTERVAL: Duration = Duration::from_secs(1);

/// Meter of one connection.
#[derive(Debug)]
pub struct ProgressMeter {
    /// Whether no request was under way.
    is_idle: bool,

    /// When that began, or the request moved for the last time.
    since: Instant,

    /// Bytes at that time, if a request was under way.
    bytes: u64,
}

impl ProgressMeter {
    /// Returns the meter of a connection that begins.
    pub fn new(now: Instant) -> Self {
        Self { is_idle: false, since: now, bytes: 0 }
    }

    /// Notes that a response waits until then because the server limits its rate. A client with so many
    /// responses that each hardly moves gets no place for that.
    pub fn on_wait(&mut self, until: Instant, now: Instant) {
        if until.saturating_duration_since(now) <= STUCK_MIN {
            self.since = self.since.max(until);
        }
    }

    /// Notes whether no request is under way, and how many `bytes` were received and acknowledged
    /// since the connection began. Returns from when on another may take its place.
    pub fn on_turn(&mut self, is_idle: bool, bytes: impl FnOnce() -> u64, now: Instant) -> Instant {
        let has_changed = is_idle != self.is_idle;
        let is_due = has_changed || now.saturating_duration_since(self.since) >= INTERVAL;
        if is_idle && has_changed {
            *self = Self { is_idle, since: now, ..*self };
        } else if !is_idle && is_due {
            let bytes = bytes();
            if has_changed || bytes - self.bytes >= PROGRESS_BYTES {
                *self = Self { is_idle, since: now, bytes };
            }
        }
        self.since + if is_idle { IDLE_MIN } else { STUCK_MIN }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_is_replaceable_when_idle_or_stuck() {
        let start = quiche::clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut meter = ProgressMeter::new(start);
        for (ms, is_idle, bytes, expected) in [
            (10, true, 0, 1010),
            // Packets without a request are no progress.
            (900, true, 90_000, 1010),
            (2000, false, 90_000, 12_000),
            (2999, false, 99_999, 12_000),
            (3000, false, 99_999, 13_000),
            // Pings of a client that reads nothing.
            (12_000, false, 99_999 + PROGRESS_BYTES - 1, 13_000),
            (12_500, false, 99_999 + PROGRESS_BYTES, 22_500),
            (12_600, true, 110_000, 13_600),
        ] {
            assert_eq!(meter.on_turn(is_idle, || bytes, at(ms)), at(expected), "{ms}");
        }
    }

    #[test]
    fn connection_that_waits_for_its_rate_is_not_stuck() {
        let start = quiche::clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut meter = ProgressMeter::new(start);
        meter.on_wait(at(9_000), at(10));
        assert_eq!(meter.on_turn(false, || 0, at(20)), at(19_000));
        meter.on_wait(at(8_000), at(20));
        assert_eq!(meter.on_turn(false, || 0, at(9_000)), at(19_000), "it has not moved since");
        meter.on_wait(at(20_000), at(9_500));
        assert_eq!(meter.on_turn(false, || 0, at(9_500)), at(19_000), "it waits for many others");
        assert_eq!(meter.on_turn(true, || 0, at(10_500)), at(11_500));
    }
}
