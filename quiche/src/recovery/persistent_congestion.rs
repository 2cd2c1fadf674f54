//! Persistent congestion of Reno and CUBIC (RFC 9002, 7.6).

use super::*;
use crate::recovery::MINIMUM_WINDOW_PACKETS;

/// kPersistentCongestionThreshold (RFC 9002, 7.6.1).
const PERSISTENT_CONGESTION_THRESHOLD: u32 = 3;

impl LegacyRecovery {
    /// Whether packets sent over a long time were all lost. Considers their
    /// packet number space alone, as RFC 9002, 7.6.2 allows.
    pub(super) fn has_persistent_congestion(&self, epoch: Epoch) -> bool {
        let duration = (self.pto() + self.rtt_stats.max_ack_delay)
            * PERSISTENT_CONGESTION_THRESHOLD;
        let sent_packets = &self.epochs[epoch].sent_packets;
        let ends = sent_packets.front().zip(sent_packets.back());
        let (Some((first, last)), Some(since)) =
            (ends, self.rtt_stats.first_sampled)
        else {
            return false;
        };

        // The usual case.
        let span = last.time_sent.saturating_duration_since(first.time_sent);
        if span <= duration {
            return false;
        }

        let mut run_start: Option<Instant> = None;

        for pkt in sent_packets {
            if pkt.time_acked.is_some() {
                run_start = None;
            }

            let counts = pkt.time_lost.is_some()
                && pkt.time_acked.is_none()
                && pkt.ack_eliciting
                && !pkt.is_pmtud_probe
                && pkt.time_sent >= since;

            if counts {
                let start = *run_start.get_or_insert(pkt.time_sent);

                if pkt.time_sent.saturating_duration_since(start) > duration {
                    return true;
                }
            }
        }

        false
    }

    /// Reduces the window to its minimum, after the controller has reduced it
    /// for the loss. The path is unknown again: slow start follows, up to the
    /// threshold of this loss.
    pub(super) fn collapse_cwnd(&mut self) {
        let congestion = &mut self.congestion;
        let window = self.max_datagram_size * MINIMUM_WINDOW_PACKETS;
        congestion.congestion_window = window.min(congestion.congestion_window);
        congestion.congestion_recovery_start_time = None;
        congestion.prr = Default::default();

        // A spurious loss must not restore the window.
        (congestion.cc_ops.checkpoint)(congestion);
    }
}
