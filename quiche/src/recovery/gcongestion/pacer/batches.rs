//! Batches of packets that BBR releases together, as those of Reno and CUBIC.
//!
//! All packets of a batch have one release time, and the next batch is due after
//! the time that the rate needs for this one. Otherwise each packet has a release
//! time of its own.

use super::Pacer;
use super::LUMPY_PACING_CWND_FRACTION;
use super::LUMPY_PACING_MIN_BANDWIDTH_KBPS;
use crate::recovery::gcongestion::Bandwidth;
use crate::recovery::gcongestion::CongestionControl;
use crate::recovery::pacing::batch_bytes;
use crate::recovery::ReleaseTime;
use crate::Config;

/// Batches are smaller than those of Reno and CUBIC by this: Startup sends at more
/// than twice the rate of the path, so that a batch queues for longer.
const RATE_DIVISOR: u64 = 2;

/// The batch that is being released.
#[derive(Debug)]
pub(super) struct Batches {
    is_on: bool,
    release: ReleaseTime,

    /// Bytes that may still join it.
    left: usize,
}

impl Default for Batches {
    fn default() -> Self {
        Batches {
            is_on: false,
            release: ReleaseTime::Immediate,
            left: 0,
        }
    }
}

impl Pacer {
    /// Sets whether packets are released in batches.
    pub(in crate::recovery::gcongestion) fn with_batches(
        mut self, v: bool,
    ) -> Self {
        self.batches.is_on = v;
        self
    }

    /// Returns the release time of the next packet.
    pub(super) fn next_release(&self) -> ReleaseTime {
        match self.batches.left > 0 {
            true => self.batches.release,
            false => self.ideal_next_packet_send_time,
        }
    }

    /// Takes a packet of `bytes` before the schedule does. It begins a batch after
    /// a complete one, or after a pause.
    pub(super) fn count_in_batch(
        &mut self, rate: Bandwidth, bytes_in_flight: usize, bytes: usize,
    ) {
        // Unvalidated packets are spread evenly (RFC 9959, 3.3).
        let is_unvalidated = self.sender.unvalidated_catch_up().is_some();
        if !self.batches.is_on || is_unvalidated {
            self.batches.left = 0;
            return;
        }

        if self.batches.left == 0 || !self.pacing_limited {
            self.batches.release = self.ideal_next_packet_send_time;
            self.batches.left = self.next_batch(rate, bytes_in_flight, bytes);
        }

        // Only full packets join.
        let left = self.batches.left.saturating_sub(bytes);
        self.batches.left = if left < bytes { 0 } else { left };
    }

    /// Returns the bytes of a batch that begins with a packet of `bytes`.
    fn next_batch(
        &self, rate: Bandwidth, bytes_in_flight: usize, bytes: usize,
    ) -> usize {
        let window = self.sender.get_congestion_window();
        let is_slow = rate < LUMPY_PACING_MIN_BANDWIDTH_KBPS;

        if is_slow || bytes_in_flight + bytes >= window {
            return 0;
        }

        let most = (window as f64 * LUMPY_PACING_CWND_FRACTION) as usize;
        batch_bytes(rate.to_bytes_per_second() / RATE_DIVISOR, bytes).min(most)
    }
}

impl Config {
    /// Configures whether the packets of BBR2 are released in batches of half a
    /// millisecond, as those of Reno and CUBIC are in larger ones: fewer timers
    /// and system calls. Otherwise, and in a jump of Careful Resume, each packet
    /// has a release time of its own.
    ///
    /// The default value is `false`.
    pub fn set_bbr2_batches(&mut self, v: bool) {
        self.bbr2_batches = v;
    }
}
