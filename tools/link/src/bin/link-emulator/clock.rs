//! Clocks, which are read here alone.

use rustix::time::clock_gettime;
use rustix::time::ClockId;
use std::time::Duration;

/// The longest a packet is believed to have waited in a socket. The wall clock
/// may be set between the kernel's stamp and our look at it.
const SOCKET_WAIT_MAX: Duration = Duration::from_millis(500);

/// A moment, by the monotonic clock (what everything is scheduled by) and by
/// the wall clock (what the kernel stamps packets with).
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    monotonic: Duration,
    wall: Duration,
}

impl Moment {
    /// Reads both clocks.
    pub fn now() -> Self {
        Self { monotonic: read(ClockId::Monotonic), wall: read(ClockId::Realtime) }
    }

    /// Returns when a packet came, as a time of the monotonic clock. That this process
    /// read it late is not the link's delay.
    pub fn arrival(&self, kernel_stamp: Option<Duration>) -> Duration {
        let age = match kernel_stamp.and_then(|stamp| self.wall.checked_sub(stamp)) {
            Some(age) if age <= SOCKET_WAIT_MAX => age,
            _ => Duration::ZERO,
        };
        self.monotonic.saturating_sub(age)
    }
}

/// Returns the time of the monotonic clock.
pub fn now() -> Duration {
    read(ClockId::Monotonic)
}

fn read(clock: ClockId) -> Duration {
    // Both clocks count from an epoch that has passed.
    Duration::try_from(clock_gettime(clock)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn arrival_is_kernel_stamp_if_credible() {
        // Not above: a bench that takes this file in has no use for it there.
        use super::*;
        let (s, ms) = (Duration::from_secs(1), Duration::from_millis(1));
        let moment = Moment { monotonic: 5 * s, wall: 900 * s };
        assert_eq!(moment.arrival(Some(900 * s - 3 * ms)), 5 * s - 3 * ms);
        assert_eq!(moment.arrival(None), 5 * s);
        assert_eq!(moment.arrival(Some(900 * s + ms)), 5 * s);
        assert_eq!(moment.arrival(Some(900 * s - SOCKET_WAIT_MAX - ms)), 5 * s);
    }
}
