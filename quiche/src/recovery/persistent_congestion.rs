//! Persistent congestion: the answer of Reno and CUBIC (RFC 9002, 7.6.2).

use super::*;
use crate::recovery::MINIMUM_WINDOW_PACKETS;

impl LegacyRecovery {
    /// Answers persistent congestion, after the controller has answered the
    /// loss.
    pub(super) fn answer_persistent_congestion(
        &mut self, epoch: Epoch, now: Instant,
    ) {
        let answers = self.answers_persistent_congestion;

        if !answers || !self.has_persistent_congestion(epoch) {
            return;
        }

        // The path is unknown again: slow start from the minimum window up to
        // the threshold of this loss.
        let congestion = &mut self.congestion;
        let window = self.max_datagram_size * MINIMUM_WINDOW_PACKETS;
        congestion.congestion_window = window.min(congestion.congestion_window);
        congestion.congestion_recovery_start_time = None;
        congestion.prr = Default::default();

        // A spurious loss must not restore the window.
        (congestion.cc_ops.checkpoint)(congestion);

        if let Some(resume) = self.careful_resume.as_mut() {
            let ssthresh = self.congestion.ssthresh.get();
            resume.settle_again(window, ssthresh, now);
        }
    }
}

#[cfg(test)]
#[path = "persistent_congestion_tests.rs"]
mod tests;
