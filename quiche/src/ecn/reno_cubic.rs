//! Hooks of ECN in the recovery of Reno and CUBIC.

use super::*;
use crate::ecn::AckedMarks;
use crate::ecn::MarkResponse;
use crate::ecn::Marks;
use crate::recovery::careful_resume::Phase;
use crate::recovery::careful_resume::Trigger;

#[path = "scalable_window.rs"]
mod scalable_window;

impl LegacyRecovery {
    /// Takes an ACK before loss detection. Answers new CE marks as the loss of
    /// the packet that was sent last of those that it newly acknowledges
    /// (RFC 9002, 7.1 and B.7), unless the response is scalable.
    pub(super) fn ecn_on_acked(&mut self, epoch: Epoch, now: Instant) {
        let newly_acked = &self.newly_acked;
        let acked_below =
            |n| newly_acked.partition_point(|pkt: &Acked| pkt.pkt_num < n);
        let Some(ecn) = self.ecn.as_mut() else {
            return;
        };
        let marks = ecn.on_acked(epoch, newly_acked.len(), acked_below);
        let response = match ecn.config().l4s {
            true => self.scalable_response(marks, now),
            false => self.classic_response(marks),
        };
        let Some(response) = response else {
            return;
        };

        let Some(largest) = self.newly_acked.last().map(acknowledged) else {
            return;
        };
        let packet = (largest.pkt_num, largest.time_sent);
        let resume = self.careful_resume.as_ref();
        let ecn = self.ecn.as_mut();

        if !ecn.is_some_and(|ecn| ecn.is_of_jump(resume, packet, now)) {
            self.answer_marks(response, &largest, now);
        }
    }

    /// Returns whether bursts are paced, too (RFC 9331, 4.3): a queue of L4S
    /// marks an initial window that is sent at once, which would end Careful
    /// Resume.
    pub(super) fn ecn_paces(&self) -> bool {
        self.ecn.as_ref().is_some_and(|ecn| ecn.config().l4s)
    }

    /// Returns how many bytes a burst has that begins with a packet of `size`:
    /// with L4S it is that packet alone, as those of the handshake leave at
    /// once, several in a datagram.
    pub(super) fn ecn_burst(&self, size: usize) -> usize {
        match self.ecn_paces() {
            true => size,
            false => self.initial_window(),
        }
    }

    /// Returns the response to an ACK of a path that may be one of L4S; None if
    /// nothing is to be done.
    fn scalable_response(
        &mut self, marks: Marks, now: Instant,
    ) -> Option<MarkResponse> {
        let is_jump = self
            .careful_resume
            .as_ref()
            .is_some_and(|resume| resume.phase() != Phase::Normal);
        let ack = AckedMarks {
            marks,
            now,
            rtt: self.rtt_stats.rtt(),
            latest_rtt: self.rtt_stats.latest_rtt(),
            min_rtt: *self.rtt_stats.min_rtt,
        };
        let scalable = self.ecn.as_mut().and_then(|ecn| ecn.scalable());
        // RFC 9959: in a jump, a mark acts as a loss.
        let scalable = scalable.filter(|_| !is_jump);
        let factor = scalable.map(|scalable| scalable.on_acked(&ack));

        self.congestion.set_scalable(factor.is_some(), now);
        match factor {
            Some(factor) => factor.map(MarkResponse::Scalable),
            None => self.classic_response(marks),
        }
    }

    fn classic_response(&self, marks: Marks) -> Option<MarkResponse> {
        if marks.ce == 0 {
            return None;
        }

        let is_alternative = self
            .ecn
            .as_ref()
            .is_some_and(|ecn| ecn.config().alternative_backoff);
        let congestion = &self.congestion;
        // RFC 8511, 3: in congestion avoidance.
        let is_avoiding =
            congestion.congestion_window >= congestion.ssthresh.get();

        Some(match is_alternative && is_avoiding {
            true => MarkResponse::Alternative,
            false => MarkResponse::Loss,
        })
    }

    fn answer_marks(
        &mut self, response: MarkResponse, largest: &Sent, now: Instant,
    ) {
        self.slow_start_before_loss();
        self.answer_first_loss();

        let is_new = !self.congestion.in_congestion_recovery(largest.time_sent);
        self.congestion.mark_response = response;
        self.answer_congestion(Trigger::EcnCe, 0, largest, now);
        self.congestion.mark_response = MarkResponse::Loss;
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
        match self.mark_response {
            MarkResponse::Alternative => mark,
            _ => loss,
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
