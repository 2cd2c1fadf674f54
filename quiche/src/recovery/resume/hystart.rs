//! HyStart++ beside Careful Resume (RFC 9959, 4.2.1).
//!
//! Owns what a jump makes of its rounds; the rest of HyStart++ is upstream's.
//! Phase by phase:
//!
//! - reconnaissance: as without Careful Resume. Entering conservative slow
//!   start, or leaving slow start, cancels the jump (`slow_start_exit`).
//! - unvalidated: it is not told of ACKs, so that it takes no decision, and the
//!   window does not grow in conservative slow start either.
//! - validating: a new round starts with the next packet. The last one saw the
//!   queue of the jump itself: it is compared with the connection's minimum.
//! - safe retreat, and afterwards: off. This is no longer the first slow start.

use std::time::Duration;

use super::Hystart;

impl Hystart {
    /// The next packet begins a round, which is compared with `min_rtt`, the
    /// minimum RTT of the connection.
    pub(crate) fn start_over(&mut self, min_rtt: Option<Duration>) {
        self.window_end = None;
        self.rtt_sample_count = 0;

        // Until then there is nothing to compare with; then start_round() takes
        // the current minimum for the last.
        self.last_round_min_rtt = Duration::MAX;
        self.current_round_min_rtt = min_rtt.unwrap_or(Duration::MAX);
    }

    /// For the rest of the connection.
    pub(crate) fn switch_off(&mut self) {
        self.enabled = false;
    }
}
