//! Slow start after a jump: growth beyond what the path is known to hold.
//!
//! After a jump, the next doubling ends exactly at saved_cwnd, and the one
//! after it fills path and buffer before a longer RTT is seen. Beyond
//! saved_cwnd the window therefore grows by a quarter. If a round trip brings a
//! queue and no more delivered, slow start ends. If more is delivered than was
//! known, without a queue, the path has become larger, and is treated as
//! unknown, but with growth by half. Below saved_cwnd an RTT that is longer by
//! the usual variation is no queue. RFC 9959, 3.4 does not ask for this, and
//! RFC 5681, 3.1 allows it; divisor and thresholds are those of RFC 9406.
//!
//! Pure, like the phases. Knows neither Reno nor CUBIC.

use std::time::Duration;
use std::time::Instant;

use crate::recovery::overshoot::is_doubtful;
use crate::recovery::overshoot::AckSample;
use crate::recovery::overshoot::Allowance;
use crate::recovery::overshoot::Doubling;
use crate::recovery::overshoot::Growth;
use crate::recovery::overshoot::PathHistory;
use crate::recovery::overshoot::Verdict;

/// RFC 9406, 4.3: clamp(RTT / 8, 4 ms, 16 ms).
const QUEUE_RTT_DIVISOR: u32 = 8;
const QUEUE_MIN: Duration = Duration::from_millis(4);
const QUEUE_MAX: Duration = Duration::from_millis(16);

/// A round has a queue if at least this part of its ACKs has.
const QUEUED_DIVISOR: u32 = 4;

/// The least growth of delivery on a path that is not full, if the window grows
/// by a quarter.
const MORE: f64 = 1.125;

/// A path that delivers this multiple of what was known is an unknown one.
const UNKNOWN: f64 = 4.0;

/// The ACKs of one round trip, by packet number.
#[derive(Debug)]
struct Round {
    since: Instant,
    last_packet: u64,
    bytes: usize,
    acks: u32,
    queued: u32,
}

impl Round {
    fn new(ack: &AckSample) -> Self {
        Round {
            since: ack.now,
            last_packet: ack.largest_sent,
            bytes: 0,
            acks: 0,
            queued: 0,
        }
    }

    fn on_ack(&mut self, ack: &AckSample, is_queued: bool) {
        self.bytes += ack.bytes;
        self.acks += 1;
        self.queued += u32::from(is_queued);
    }

    /// Returns bytes per second, until `now`.
    fn rate(&self, now: Instant) -> f64 {
        let elapsed = now.saturating_duration_since(self.since);
        self.bytes as f64 / elapsed.as_secs_f64().max(1e-6)
    }

    fn has_queue(&self) -> bool {
        self.queued * QUEUED_DIVISOR >= self.acks.max(1)
    }
}

/// Growth of a window that has jumped, until slow start ends.
#[derive(Debug)]
pub(crate) struct SoftGrowth {
    /// saved_cwnd, in bytes, less what other flows queue.
    pub(super) known: usize,
    /// The path limited that, and has not shown more capacity since.
    pub(super) is_limit: bool,
    /// The growth beyond that.
    beyond: Growth,
    path: PathHistory,
    round: Option<Round>,
    /// The rate of the round before, in bytes per second.
    last_rate: Option<f64>,
    doubling: Doubling,
    /// The last round looked full: the current one, without growth, decides.
    is_suspect: bool,
    allowance: Allowance,
}

impl SoftGrowth {
    /// Returns the growth after a jump: `known` is the capacity in bytes,
    /// `is_limit` whether the path had no more.
    pub(super) fn new(known: usize, is_limit: bool) -> Self {
        SoftGrowth {
            known,
            is_limit,
            beyond: match is_limit {
                true => Growth::Half,
                false => Growth::Full,
            },
            path: PathHistory::default(),
            round: None,
            last_rate: None,
            doubling: Doubling::default(),
            is_suspect: false,
            allowance: Allowance::default(),
        }
    }

    /// Judges an ACK of the validating or the normal phase.
    pub(crate) fn on_ack(&mut self, ack: &AckSample) -> Verdict {
        self.path.on_ack(ack);

        let excess = self.path.excess(ack).unwrap_or_default();
        let is_beyond = ack.cwnd >= self.known;
        self.is_limit &= !self.delivers(MORE, ack, excess);

        if self.beyond == Growth::Half && self.delivers(UNKNOWN, ack, excess) {
            self.beyond = Growth::Full;
        }

        let is_careful = is_beyond && self.is_limit;

        if let Some(looks_full) = self.end_round(ack, excess) {
            let was_suspect =
                std::mem::replace(&mut self.is_suspect, looks_full && is_careful);

            if was_suspect && self.is_suspect {
                return Verdict::Exit;
            }
        }

        if is_careful {
            let growth = match self.is_suspect {
                true => Growth::Nothing,
                false => Growth::Quarter,
            };
            return self.allowance.grow(ack, growth);
        }

        let is_expected = !is_beyond && !is_doubtful(excess, ack);

        if is_expected && !self.doubling.is_holding() {
            return Verdict::Grow(ack.grown);
        }

        let growth = match is_beyond {
            true => self.beyond,
            false => Growth::Full,
        };
        self.doubling.on_ack(&mut self.path, ack, growth)
    }

    /// Whether the last round trip delivered `times` what was known, without a
    /// queue.
    fn delivers(&self, times: f64, ack: &AckSample, excess: Duration) -> bool {
        let delivered = self.path.delivered(ack.now, ack.min_rtt);
        !is_queued(excess, ack) && delivered >= self.known as f64 * times
    }

    /// Counts the ACK. If it ends a round, returns whether the round had a
    /// queue and delivered no more than the one before.
    fn end_round(&mut self, ack: &AckSample, excess: Duration) -> Option<bool> {
        let round = self.round.get_or_insert_with(|| Round::new(ack));

        round.on_ack(ack, is_queued(excess, ack));

        if ack.largest_acked <= round.last_packet {
            return None;
        }

        let rate = round.rate(ack.now);
        let has_queue = round.has_queue();
        let last_rate = self.last_rate.replace(rate);

        self.round = Some(Round::new(ack));

        Some(has_queue && last_rate.is_some_and(|last| rate < last * MORE))
    }
}

fn is_queued(excess: Duration, ack: &AckSample) -> bool {
    let threshold = ack.min_rtt / QUEUE_RTT_DIVISOR;
    excess >= threshold.clamp(QUEUE_MIN, QUEUE_MAX)
}

#[cfg(test)]
#[path = "after_jump_tests.rs"]
mod tests;
