//! Hooks of ECN in the recovery of Reno and CUBIC.

use super::*;
use crate::recovery::careful_resume::Trigger;

impl LegacyRecovery {
    /// Takes an ACK before loss detection. Answers new CE marks as the loss of
    /// the packet that was sent last of those that it newly acknowledges
    /// (RFC 9002, 7.1 and B.7).
    pub(super) fn ecn_on_acked(&mut self, epoch: Epoch, now: Instant) {
        let newly_acked = &self.newly_acked;
        let acked_below =
            |n| newly_acked.partition_point(|pkt: &Acked| pkt.pkt_num < n);
        let marks = self
            .ecn
            .as_mut()
            .map_or(0, |ecn| ecn.on_acked(epoch, acked_below));

        if marks == 0 {
            return;
        }

        if let Some(largest) = self.newly_acked.last().map(acknowledged) {
            self.answer_marks(&largest, now);
        }
    }

    fn answer_marks(&mut self, largest: &Sent, now: Instant) {
        self.slow_start_before_loss();
        self.answer_first_loss();

        let is_new = !self.congestion.in_congestion_recovery(largest.time_sent);
        // RFC 8511, 3: in congestion avoidance.
        self.congestion.is_backoff_alternative =
            self.congestion.congestion_window >= self.congestion.ssthresh.get()
                && self
                    .ecn
                    .as_ref()
                    .is_some_and(|e| e.config().alternative_backoff);
        self.answer_congestion(Trigger::EcnCe, 0, largest, now);
        self.congestion.is_backoff_alternative = false;
        self.slow_start_on_loss(0, now);

        // Marks are no loss that may turn out to be spurious.
        if is_new {
            self.congestion.spurious_loss.forget();
            (self.congestion.cc_ops.checkpoint)(&mut self.congestion);
        }
    }
}

impl Congestion {
    /// Returns the factor of the window after a loss, or that after a mark if
    /// RFC 8511 applies.
    pub(in crate::recovery::congestion) fn backoff(
        &self, loss: f64, mark: f64,
    ) -> f64 {
        match self.is_backoff_alternative {
            true => mark,
            false => loss,
        }
    }
}

/// Returns the record of a packet that was acknowledged.
fn acknowledged(pkt: &Acked) -> Sent {
    Sent {
        pkt_num: pkt.pkt_num,
        frames: Default::default(),
        time_sent: pkt.time_sent,
        time_acked: None,
        time_lost: None,
        size: pkt.size,
        ack_eliciting: true,
        in_flight: true,
        delivered: pkt.delivered,
        delivered_time: pkt.delivered_time,
        first_sent_time: pkt.first_sent_time,
        is_app_limited: pkt.is_app_limited,
        tx_in_flight: 0,
        lost: 0,
        has_data: true,
        is_pmtud_probe: false,
    }
}
