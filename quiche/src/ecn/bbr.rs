//! Hooks of ECN in the recovery of BBR.
//!
//! Marked bytes count as lost ones in the model, not in the sampler: they were
//! delivered.

use super::*;
use crate::packet::Epoch;
use crate::recovery::careful_resume::Trigger;

impl GRecovery {
    /// Takes an ACK of `bytes` before loss detection. New CE marks end a jump,
    /// and BBR answers them with this ACK as it does loss (RFC 9002, 7.1).
    pub(super) fn ecn_on_acked(
        &mut self, epoch: Epoch, bytes: usize, now: Instant,
    ) {
        let newly_acked = &self.newly_acked;
        let acked_below =
            |n| newly_acked.partition_point(|pkt: &Acked| pkt.pkt_num < n);
        let acked = newly_acked.len();
        let marks = self
            .ecn
            .as_mut()
            .map_or(0, |ecn| ecn.on_acked(epoch, acked, acked_below).ce);

        if marks == 0 || self.is_mark_of_jump(now) {
            return;
        }

        let marked = usize::try_from(marks)
            .unwrap_or(usize::MAX)
            .saturating_mul(self.max_datagram_size);
        self.pacer.sender_mut().on_marked(marked.min(bytes));
        self.careful_resume_on_congestion(Trigger::EcnCe, now);
    }

    fn is_mark_of_jump(&mut self, now: Instant) -> bool {
        let Some(last) = self.newly_acked.last() else {
            return false;
        };
        let packet = (last.pkt_num, last.time_sent);
        let resume = self.careful_resume.as_ref();
        let ecn = self.ecn.as_mut();
        ecn.is_some_and(|ecn| ecn.is_of_jump(resume, packet, now))
    }
}
