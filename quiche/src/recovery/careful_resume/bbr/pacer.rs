//! Careful Resume in BBR's pacer (RFC 9959, 3.3).

use super::Pacer;
use super::CATCH_UP_RTT_DIVISOR;
use crate::recovery::gcongestion::bbr2::BBRv2;
use crate::recovery::ReleaseTime;

/// The same for unvalidated packets. With one more packet, a sender that is late
/// makes up for a thirty-second of the jump, as Reno and CUBIC do.
const UNVALIDATED_CATCH_UP_RTT_DIVISOR: u32 = 64;

impl Pacer {
    /// Returns the divisor of the RTT that limits how much lost time is made up
    /// for.
    pub(in crate::recovery::gcongestion) fn catch_up_rtt_divisor(&self) -> u32 {
        match self.sender.is_unvalidated() {
            true => UNVALIDATED_CATCH_UP_RTT_DIVISOR,
            false => CATCH_UP_RTT_DIVISOR,
        }
    }

    pub(in crate::recovery::gcongestion) fn sender(&self) -> &BBRv2 {
        &self.sender
    }

    pub(in crate::recovery::gcongestion) fn sender_mut(&mut self) -> &mut BBRv2 {
        &mut self.sender
    }

    /// Enables pacing.
    pub(in crate::recovery::gcongestion) fn enable(&mut self) {
        self.enabled = true;
    }

    #[cfg(test)]
    pub(in crate::recovery::gcongestion) fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Lets the next packet leave at once.
    pub(in crate::recovery::gcongestion) fn allow_burst(&mut self) {
        self.burst_tokens = self.burst_tokens.max(1);
    }

    /// Begins with the next packet, without a burst.
    pub(in crate::recovery::gcongestion) fn restart(&mut self) {
        self.burst_tokens = 0;
        self.lumpy_tokens = 0;
        self.pacing_limited = false;
        self.ideal_next_packet_send_time = ReleaseTime::Immediate;
    }
}
