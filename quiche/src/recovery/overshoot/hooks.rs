//! Hooks of slow-start growth in the recovery of Reno and CUBIC: the ACKs that
//! are judged, and the one place where verdicts are applied.

use super::*;
use crate::recovery::overshoot::AckSample;
use crate::recovery::overshoot::Verdict;
use crate::recovery::StartupExitReason;

impl LegacyRecovery {
    /// Returns the sample of an ACK of `bytes` in slow start, after the
    /// controller has grown its window from `before`. None if the ACK tells
    /// nothing.
    pub(in crate::recovery) fn overshoot_ack(
        &self, before: usize, bytes: usize, now: Instant,
    ) -> Option<AckSample> {
        let is_over = self.congestion.ssthresh.startup_exit().is_some();
        self.ack_of(before, bytes, now).filter(|_| !is_over)
    }

    /// Does the same, also after slow start.
    pub(in crate::recovery) fn ack_of(
        &self, before: usize, bytes: usize, now: Instant,
    ) -> Option<AckSample> {
        let epoch = &self.epochs[Epoch::Application];
        let largest_acked = epoch.largest_acked_packet?;

        Some(AckSample {
            now,
            rtt: self.rtt_stats.latest_rtt,
            min_rtt: self.rtt_stats.min_rtt()?,
            bytes,
            largest_acked,
            // If nothing is in flight, everything sent is acknowledged.
            largest_sent: epoch
                .sent_packets
                .back()
                .map_or(largest_acked, |pkt| pkt.pkt_num),
            cwnd: before,
            grown: self.congestion.congestion_window.saturating_sub(before),
            max_datagram_size: self.max_datagram_size,
        })
    }

    pub(in crate::recovery) fn apply_growth(
        &mut self, ack: &AckSample, verdict: Verdict,
    ) {
        match verdict {
            Verdict::Grow(bytes) => {
                let window = self.congestion.congestion_window - ack.grown;
                self.congestion.congestion_window = window + bytes;
            },

            Verdict::Exit => self.end_slow_start_for_queue(ack.cwnd),
        }
    }

    fn end_slow_start_for_queue(&mut self, window: usize) {
        let reason = StartupExitReason::PersistentQueue;

        self.congestion.congestion_window = window;
        self.congestion.ssthresh.ssthresh = window;
        self.congestion.ssthresh.startup_exit =
            Some(StartupExit::new(window, None, reason));

        if let Some(resume) = self.careful_resume.as_mut() {
            resume.on_slow_start_exit();
        }
    }
}
