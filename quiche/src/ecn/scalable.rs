//! Scalable response to marks, for L4S (RFC 9331, 4.3): the share of marked
//! packets decides by how much the window shrinks, and round-trip times below
//! 25 ms do not give a larger share of the link.
//!
//! Owns the estimate of that share and the time of the next reduction. A path
//! whose round-trip time stays well above its least while marks arrive has a
//! queue that is not one of L4S, which RFC 9331 asks to treat classically:
//! the response ends for good.

use std::time::Duration;
use std::time::Instant;

use super::Marks;

/// Gain of the moving average of the share, per round.
const GAIN: f64 = 1.0 / 16.0;

/// Least time of a round, and of a round trip as growth sees it.
const ROUND_MIN: Duration = Duration::from_millis(25);

/// A queue that adds more than this to each round trip of a round with marks is
/// not one of L4S.
const CLASSIC_QUEUE: Duration = Duration::from_millis(2);

/// Such rounds, less those without, that end the response.
const CLASSIC_ROUNDS: u32 = 5;

/// State of a scalable response.
#[derive(Debug, Default)]
pub(crate) struct Scalable {
    /// Share of marked packets. None before the first mark.
    alpha: Option<f64>,

    /// Packets of this round that were acknowledged, and that arrived as CE.
    packets: u64,
    marked: u64,

    /// The least round-trip time of the round.
    least_rtt: Option<Duration>,
    round_began: Option<Instant>,

    reduced_at: Option<Instant>,
    classic_rounds: u32,
}

/// What an ACK says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckedMarks {
    pub(crate) marks: Marks,
    pub(crate) now: Instant,

    /// Smoothed, of this ACK, and the least.
    pub(crate) rtt: Duration,
    pub(crate) latest_rtt: Duration,
    pub(crate) min_rtt: Duration,
}

impl Scalable {
    /// Returns whether the path has turned out to be a classic one.
    pub(crate) fn is_over(&self) -> bool {
        self.classic_rounds >= CLASSIC_ROUNDS
    }

    /// Takes an ACK. Returns the factor of the window, if it is to be reduced.
    pub(crate) fn on_acked(&mut self, ack: &AckedMarks) -> Option<f64> {
        let round = ack.rtt.max(ROUND_MIN);
        self.packets += ack.marks.ect0 + ack.marks.ect1 + ack.marks.ce;
        self.marked += ack.marks.ce;
        let least_rtt = self.least_rtt.get_or_insert(ack.latest_rtt);
        *least_rtt = ack.latest_rtt.min(*least_rtt);

        let began = *self.round_began.get_or_insert(ack.now);
        if ack.now.saturating_duration_since(began) >= round {
            self.end_round(ack);
        }
        if ack.marks.ce == 0 {
            return None;
        }
        // The first mark says that all of the queue is too much.
        let alpha = *self.alpha.get_or_insert(1.0);
        let is_due = self.reduced_at.is_none_or(|reduced_at| {
            ack.now.saturating_duration_since(reduced_at) >= round
        });

        is_due.then(|| {
            self.reduced_at = Some(ack.now);
            1.0 - alpha / 2.0
        })
    }

    fn end_round(&mut self, ack: &AckedMarks) {
        let share = self.marked as f64 / self.packets.max(1) as f64;

        if let Some(alpha) = &mut self.alpha {
            *alpha += GAIN * (share - *alpha);
        }
        if self.marked > 0 {
            self.watch_queue(ack);
        }
        self.packets = 0;
        self.marked = 0;
        self.least_rtt = None;
        self.round_began = Some(ack.now);
    }

    fn watch_queue(&mut self, ack: &AckedMarks) {
        let queue = self.least_rtt.unwrap_or_default();
        let queue = queue.saturating_sub(ack.min_rtt);
        if self.is_over() {
            return;
        }
        self.classic_rounds = match queue > CLASSIC_QUEUE {
            true => self.classic_rounds + 1,
            false => self.classic_rounds.saturating_sub(1),
        };
    }
}

/// Returns by how many packets a window grows in a round trip. Rates grow as if
/// that took 25 ms, or longer.
pub(crate) fn growth(rtt: Duration) -> f64 {
    let share = rtt.as_secs_f64() / ROUND_MIN.as_secs_f64();
    (share * share).min(1.0)
}

/// The same beside CUBIC, whose windows grow faster than by a packet where
/// they are large. Its mean window is 1.05 (RTT / p)^(3/4) packets at a share p of
/// marks (RFC 9438, 5.1), and that of a scalable flow as large if it grows by this
/// many packets: the marks of a coupled queue have the share 2 √p (RFC 9332).
pub(crate) fn growth_beside_cubic(rtt: Duration, window: f64) -> f64 {
    let beside_cubic = 1.04 * rtt.as_secs_f64().sqrt() * libm::cbrt(window);
    growth(rtt) * beside_cubic.max(1.0)
}

#[cfg(test)]
#[path = "scalable_tests.rs"]
mod tests;
