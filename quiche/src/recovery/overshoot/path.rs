//! History of a path: RTTs and bytes delivered in the last round trips, by
//! ACKs.

use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

use super::history::History;
use super::AckSample;

/// ACKs whose minimum RTT shows a queue: those of one burst alone see the
/// burst.
const ACKS: usize = 8;

/// If ACKs are rare, those within this part of the minimum RTT.
const ACKS_RTT_DIVISOR: u32 = 4;

/// The fewest ACKs.
const ACKS_MIN: usize = 2;

/// Points of a history in a minimum RTT.
const POINTS_PER_RTT: u32 = 32;

#[derive(Debug, Default)]
pub(crate) struct PathHistory {
    rtts: VecDeque<(Instant, Duration)>,
    /// Bytes since the first ACK.
    delivered: u64,
    delivered_at: History,
    /// Excess of the RTT, in seconds.
    excess_at: History,
}

impl PathHistory {
    pub(crate) fn on_ack(&mut self, ack: &AckSample) {
        let spacing = ack.min_rtt / POINTS_PER_RTT;

        self.delivered += ack.bytes as u64;
        self.delivered_at
            .push(ack.now, self.delivered as f64, spacing);
        self.push_rtt(ack);

        if let Some(excess) = self.excess(ack) {
            self.excess_at.push(ack.now, excess.as_secs_f64(), spacing);
        }
    }

    fn push_rtt(&mut self, ack: &AckSample) {
        let span = ack.min_rtt / ACKS_RTT_DIVISOR;
        self.rtts.push_back((ack.now, ack.rtt));

        while self.rtts.len() > ACKS_MIN {
            let oldest = self.rtts[0].0;
            let is_recent = ack.now.saturating_duration_since(oldest) <= span;

            if is_recent && self.rtts.len() <= ACKS {
                break;
            }
            self.rtts.pop_front();
        }
    }

    /// Returns by how much the RTTs of the latest ACKs all exceed the minimum.
    /// None before there are enough ACKs.
    pub(crate) fn excess(&self, ack: &AckSample) -> Option<Duration> {
        let is_enough = self.rtts.len() >= ACKS_MIN;
        let least = self.rtts.iter().map(|(_, rtt)| *rtt).min();
        let least = least.filter(|_| is_enough)?;
        Some(least.saturating_sub(ack.min_rtt))
    }

    /// Returns by how much the excess has risen in the last `span`.
    pub(crate) fn rise(&self, ack: &AckSample, span: Duration) -> Duration {
        let then = ack.now.checked_sub(span).unwrap_or(ack.now);
        let before = self.excess_at.at(then).unwrap_or(f64::MAX);
        let excess = self.excess(ack).unwrap_or_default();
        Duration::from_secs_f64((excess.as_secs_f64() - before).max(0.0))
    }

    /// Returns the bytes delivered in the `span` before `end`.
    pub(crate) fn delivered(&self, end: Instant, span: Duration) -> f64 {
        let start = end.checked_sub(span).unwrap_or(end);
        let at = |time| self.delivered_at.at(time).unwrap_or(0.0);
        at(end) - at(start)
    }

    /// Forgets the RTTs so far.
    pub(crate) fn forget_rtts(&mut self) {
        self.rtts.clear();
    }
}
