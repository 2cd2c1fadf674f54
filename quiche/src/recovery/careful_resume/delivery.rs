//! Delivery rate of a path, from the ACKs of one minimum RTT; `observer` judges
//! it.
//!
//! Bytes count from the ACK of one packet on. Time counts from when that ACK
//! was due, by the shortest RTT at that time: ACKs that were delayed and arrive
//! together do not raise the rate, and one minimum RTT is enough.

use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

use super::Acknowledged;

/// Marks in one minimum RTT, at most.
const MARKS_PER_RTT: u32 = 16;

/// Minimum RTTs for which marks are kept: one to count bytes, and the one
/// before it, which shows a standing queue.
const KEPT_RTTS: Nanos = 2;
const MAX_MARKS: usize = 4 * MARKS_PER_RTT as usize;

/// The share of an RTT that measures a window that is still growing.
const GROWING_RTT_DIVISOR: Nanos = 8;

/// Slow start doubles its rate in one RTT, at most.
const GROWING_FACTOR: f64 = 2.0;

/// Bytes per second.
pub(super) type Rate = f64;

pub(super) fn rate(bytes: u64, elapsed: Duration) -> Rate {
    bytes as Rate / elapsed.max(Duration::from_nanos(1)).as_secs_f64()
}

/// Nanoseconds, with which is cheaper to calculate.
type Nanos = u64;

fn nanos(duration: Duration) -> Nanos {
    duration.as_nanos() as Nanos
}

/// An ACK from which bytes count.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// All bytes acknowledged so far.
    delivered: u64,
    /// Time since the first mark.
    acked_at: Nanos,
    rtt: Nanos,
}

/// An ACK that may become a mark.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    delivered: u64,
    acked_at: Instant,
    rtt: Duration,
}

/// Bytes delivered over time, for two minimum RTTs.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    delivered: u64,
    /// When the first mark was acknowledged.
    start: Option<Instant>,
    marks: VecDeque<Mark>,
    /// Those of the marks that are less delayed than every later one: from any
    /// time on, the first of them has the shortest RTT.
    least_delayed: VecDeque<Mark>,
    /// The least delayed ACK since the latest mark.
    next_mark: Option<Candidate>,
    best: Option<Rate>,
    /// The path took the jump: packets since then leave evenly, so that less
    /// than an RTT shows their rate.
    jump_validated: bool,
}

impl Delivery {
    /// Takes a validated jump.
    pub(super) fn on_jump_validated(&mut self) {
        self.jump_validated = true;
    }

    /// Takes an ACK.
    #[inline]
    pub(super) fn on_ack(&mut self, acked: &Acknowledged, now: Instant) {
        self.delivered += acked.bytes as u64;

        if self.next_mark.is_none_or(|next| acked.rtt < next.rtt) {
            self.next_mark = Some(Candidate {
                delivered: self.delivered,
                acked_at: now,
                rtt: acked.rtt,
            });
        }
    }

    /// Returns all bytes acknowledged so far.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns the shortest RTT since the latest mark; None without ACKs.
    pub(super) fn shortest_rtt(&self) -> Option<Duration> {
        self.next_mark.map(|mark| mark.rtt)
    }

    /// Updates the best rate by what was delivered up to `now`, and sets a
    /// mark. Returns when the next one is due.
    pub(super) fn update(&mut self, min_rtt: Duration, now: Instant) -> Instant {
        if let Some(next) = self.next_mark.take() {
            self.set_mark(&next, nanos(min_rtt), now);
        }

        now + min_rtt / MARKS_PER_RTT
    }

    fn set_mark(&mut self, next: &Candidate, min_rtt: Nanos, now: Instant) {
        let start = *self.start.get_or_insert(next.acked_at);
        let since_start =
            |time: Instant| nanos(time.saturating_duration_since(start));
        let now = since_start(now);
        let mark = Mark {
            delivered: next.delivered,
            acked_at: since_start(next.acked_at),
            rtt: nanos(next.rtt),
        };

        self.note_delay(mark);

        if let Some(latest) = self.latest(min_rtt, now) {
            self.best = Some(self.best.map_or(latest, |best| best.max(latest)));
        }

        self.drop_old_marks(now.checked_sub(min_rtt * KEPT_RTTS));
        self.marks.push_back(mark);
    }

    /// Drops marks of which a later one is as old as `until`, if that is after
    /// the start.
    fn drop_old_marks(&mut self, until: Option<Nanos>) {
        let is_old = |mark: &Mark| until.is_some_and(|at| mark.acked_at <= at);

        while self.marks.len() >= MAX_MARKS
            || self.marks.get(1).is_some_and(is_old)
        {
            self.marks.pop_front();
        }

        let oldest = self.marks.front().map(|mark| mark.acked_at);
        let is_dropped =
            |mark: &Mark| oldest.is_some_and(|at| mark.acked_at < at);

        while self.least_delayed.front().is_some_and(is_dropped) {
            self.least_delayed.pop_front();
        }
    }

    /// Counts the next mark among the least delayed ones.
    fn note_delay(&mut self, next: Mark) {
        while self.least_delayed.back().is_some_and(|m| m.rtt >= next.rtt) {
            self.least_delayed.pop_back();
        }

        self.least_delayed.push_back(next);
    }

    /// Returns the best rate since [`take_best()`].
    ///
    /// [`take_best()`]: Delivery::take_best
    pub(super) fn best(&self) -> Option<Rate> {
        self.best
    }

    /// Takes the best rate, and starts again without one.
    pub(super) fn take_best(&mut self) -> Option<Rate> {
        self.best.take()
    }

    /// Returns the rate of the last minimum RTT, or of a shorter time after a
    /// jump.
    fn latest(&self, min_rtt: Nanos, now: Nanos) -> Option<Rate> {
        let mark = self.latest_mark(min_rtt, now)?;
        let whole = self.rate_since(mark, self.rtt_around(mark, min_rtt), now);

        if !self.jump_validated {
            return Some(whole);
        }

        // Over so short a time, a slightly delayed ACK would raise the rate.
        let mark = self.latest_mark(min_rtt / GROWING_RTT_DIVISOR, now)?;
        let part = self.rate_since(mark, min_rtt.min(mark.rtt), now);
        Some(part.min(whole * GROWING_FACTOR).max(whole))
    }

    /// Returns the latest mark that is at least as old as `age`.
    fn latest_mark(&self, age: Nanos, now: Nanos) -> Option<&Mark> {
        let until = now.checked_sub(age)?;
        let is_old = |mark: &&Mark| mark.acked_at <= until;
        // Of the time for which marks are kept, it ends the first half.
        let middle = self.marks.len() / KEPT_RTTS as usize;
        let later = self.marks.range(middle..);
        let earlier = self.marks.range(..middle);

        later
            .take_while(is_old)
            .last()
            .or_else(|| earlier.rev().find(is_old))
    }

    /// Returns the shortest RTT since one minimum RTT before a mark.
    fn rtt_around(&self, mark: &Mark, min_rtt: Nanos) -> Nanos {
        let since = mark.acked_at.saturating_sub(min_rtt);

        self.least_delayed
            .iter()
            .find(|m| m.acked_at >= since)
            .map_or(mark.rtt, |m| m.rtt)
    }

    /// Returns the rate after a mark, over the time since its ACK was due.
    fn rate_since(&self, mark: &Mark, due: Nanos, now: Nanos) -> Rate {
        let delayed = mark.rtt.saturating_sub(due);
        let elapsed = now.saturating_sub(mark.acked_at) + delayed;
        rate(
            self.delivered - mark.delivered,
            Duration::from_nanos(elapsed),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN_RTT: Duration = Duration::from_millis(64);

    /// A second of 1.2 MB, and its end.
    fn delivered() -> (Delivery, Instant) {
        let start = crate::clock::now();
        let mut delivery = Delivery::default();
        let mut now = start;
        let mut due = start;

        for ms in 0..1000 {
            now = start + MIN_RTT + Duration::from_millis(ms);
            let acked = Acknowledged {
                bytes: 1200,
                largest: ms,
                rtt: MIN_RTT,
            };
            delivery.on_ack(&acked, now);
            if now >= due {
                due = delivery.update(MIN_RTT, now);
            }
        }
        (delivery, now)
    }

    #[test]
    fn marks_are_kept_for_two_round_trips() {
        let (delivery, now) = delivered();
        let until = now - MIN_RTT * KEPT_RTTS as u32;
        let until = nanos(until - delivery.start.unwrap());
        assert!(delivery.marks[0].acked_at <= until);
        assert!(delivery.marks[2].acked_at > until);
    }

    // Of a client near the server that handles packets in batches: the first
    // ACK is the least delayed one.
    #[test]
    fn acks_after_the_first_that_are_delayed_more_do_not_raise_the_rate() {
        let start = crate::clock::now();
        let us = Duration::from_micros;
        let min_rtt = us(770);
        let mut delivery = Delivery::default();
        for (at, rtt) in [(0, 1_000), (1_900, 2_900), (1_910, 2_910)] {
            let acked = Acknowledged {
                bytes: 4800,
                largest: at,
                rtt: us(rtt),
            };
            delivery.on_ack(&acked, start + us(at));
            delivery.update(min_rtt, start + us(at));
            assert_eq!(delivery.least_delayed[0].rtt, nanos(us(1_000)));
        }
        assert_eq!(delivery.best(), Some(rate(9600, us(1_910))));
    }

    #[test]
    fn the_best_rate_is_taken_once() {
        let (mut delivery, _) = delivered();
        assert_eq!(delivery.best(), Some(1.2e6));
        assert_eq!(delivery.take_best(), Some(1.2e6));
        assert_eq!(delivery.take_best(), None);
    }
}
