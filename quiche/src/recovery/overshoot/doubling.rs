//! Slow-start growth without saved parameters: holds for a round trip when a
//! queue shows.
//!
//! The hold distinguishes a full path from one whose RTT varies: on a full path the
//! queue that is in flight arrives, up to a window of it. If there was no
//! queue, the excess is the path's own variation, which a queue has to exceed
//! from then on.

use std::time::Duration;
use std::time::Instant;

use super::AckSample;
use super::Allowance;
use super::Growth;
use super::PathHistory;
use super::Verdict;

/// The part of the minimum RTT, within bounds, that shows a queue. Two windows
/// are in flight then: a doubling that begins to queue has queued 0.44 windows
/// at the first ACK that tells, and 0.87 at this part.
const QUEUE_RTT_DIVISOR: u32 = 24;
const QUEUE_MIN: Duration = Duration::from_millis(1);
const QUEUE_MAX: Duration = Duration::from_millis(16);

/// Packets that are no queue either.
const QUEUE_PACKETS: usize = 4;

/// Beyond the path's own variation, the speed of growth shows a queue: this
/// part of an RTT in half an RTT. The RTTs of GEO, LEO and LTE links swing by
/// 10 % in 3.3 RTTs, and change by a tenth in that time.
const RISE_SPAN_DIVISOR: u32 = 2;
const RISE: f64 = 0.15;

/// The same part where the RTT varies as much as a queue, and changes faster. A
/// doubling that queues raises it by a quarter of an RTT or more.
const RISE_VARYING: f64 = 0.2;

/// The part of an RTT in which a real queue grows by a twentieth of an RTT.
const GROWTH_SPAN: f64 = 0.25;
const GROWTH_MIN: f64 = 0.05;

/// The part of an RTT after which an excess that has not grown so is no queue.
const DISMISSED_AFTER: f64 = 0.375;

/// The variation of a path whose RTT varies: it stays below this part of the
/// minimum RTT.
const DOUBTFUL: f64 = 0.2;

/// The part of the minimum RTT from which a queue stands.
const STANDING: f64 = 0.25;

/// Rounds after the first in which a doubtful queue is watched, with careful
/// growth.
const DOUBTFUL_ROUNDS: u32 = 3;

/// Factor by which a queue must exceed an excess that was none, and the most
/// that this may require.
const VARIATION_FACTOR: f64 = 1.25;
const VARIATION_MAX: f64 = 0.4;

/// Returns the least excess of the latest RTTs that shows a queue.
pub(super) fn least_queue(ack: &AckSample) -> Duration {
    let least = (ack.min_rtt / QUEUE_RTT_DIVISOR).clamp(QUEUE_MIN, QUEUE_MAX);
    let packets = QUEUE_PACKETS * ack.max_datagram_size;
    let packets = packets as f64 / ack.cwnd.max(1) as f64;

    least.max(ack.min_rtt.mul_f64(packets))
}

/// Whether the excess of the latest RTTs is more than the variation of a path.
pub(crate) fn is_doubtful(excess: Duration, ack: &AckSample) -> bool {
    excess >= ack.min_rtt.mul_f64(DOUBTFUL)
}

fn is_standing(excess: Duration, ack: &AckSample) -> bool {
    excess >= ack.min_rtt.mul_f64(STANDING)
}

/// A round that decides whether a queue stands.
#[derive(Clone, Copy, Debug)]
struct Hold {
    since: Instant,
    /// The ACK of a later packet ends the round.
    last_packet: u64,
    /// The excess at the beginning.
    excess: Duration,
    /// The excess has grown as a real queue does.
    has_grown: bool,
    /// Rounds before this one.
    rounds: u32,
}

impl Hold {
    fn new(ack: &AckSample, excess: Duration, rounds: u32) -> Self {
        Hold {
            since: ack.now,
            last_packet: ack.largest_sent,
            excess,
            has_grown: rounds > 0,
            rounds,
        }
    }

    fn growth(&self) -> Growth {
        match self.rounds {
            0 => Growth::Nothing,
            _ => Growth::Quarter,
        }
    }

    /// Whether the excess is known to be no queue before the round ends.
    fn is_dismissed(&mut self, ack: &AckSample, excess: Duration) -> bool {
        let elapsed = ack.now.saturating_duration_since(self.since);
        let rtts = elapsed.as_secs_f64() / ack.min_rtt.as_secs_f64();
        let grown = self.excess + ack.min_rtt.mul_f64(GROWTH_MIN);

        self.has_grown |= rtts >= GROWTH_SPAN && excess >= grown;

        rtts >= DISMISSED_AFTER && !self.has_grown && !is_doubtful(excess, ack)
    }

    /// Returns the finding at the end of the round.
    fn find(&self, ack: &AckSample, excess: Duration) -> Finding {
        if is_standing(excess, ack) {
            return Finding::Queue;
        }

        match is_doubtful(excess, ack) {
            true if self.rounds < DOUBTFUL_ROUNDS => Finding::Doubt,
            _ => Finding::Variation,
        }
    }
}

/// Finding of a round.
#[derive(Debug, PartialEq, Eq)]
enum Finding {
    Queue,
    Doubt,
    Variation,
}

#[derive(Debug, Default)]
pub(crate) struct Doubling {
    hold: Option<Hold>,
    /// The largest excess of the RTT that was no queue.
    variation: Duration,
    /// Slow start ended at an excess that was no queue.
    is_varying: bool,
    allowance: Allowance,
}

impl Doubling {
    /// Returns the watch for a path on which slow start ended at an RTT that
    /// had risen by itself, by `excess`.
    #[allow(dead_code)] // until the patch of slow-start exits
    pub(crate) fn varying(excess: Duration) -> Self {
        Doubling {
            variation: excess.mul_f64(VARIATION_FACTOR),
            is_varying: true,
            ..Default::default()
        }
    }

    /// Whether the window holds to decide if a queue stands.
    pub(crate) fn is_holding(&self) -> bool {
        self.hold.is_some()
    }

    /// Judges an ACK, which `path` has seen. `growth` applies if no queue
    /// shows.
    pub(crate) fn on_ack(
        &mut self, path: &mut PathHistory, ack: &AckSample, growth: Growth,
    ) -> Verdict {
        match self.hold.take() {
            Some(hold) => self.go_on(hold, path, ack),

            None if self.shows_queue(path, ack) => {
                let excess = path.excess(ack).unwrap_or_default();
                self.hold = Some(Hold::new(ack, excess, 0));
                self.allowance.grow(ack, Growth::Nothing)
            },

            None => self.allowance.grow(ack, growth),
        }
    }

    fn shows_queue(&self, path: &PathHistory, ack: &AckSample) -> bool {
        let Some(excess) = path.excess(ack) else {
            return false;
        };
        if excess < least_queue(ack) {
            return false;
        }

        let rise = path.rise(ack, ack.min_rtt / RISE_SPAN_DIVISOR);
        let least_rise = if self.is_varying { RISE_VARYING } else { RISE };
        let variation = ack.min_rtt.mul_f64(VARIATION_MAX).min(self.variation);
        excess > variation || rise >= ack.min_rtt.mul_f64(least_rise)
    }

    fn go_on(
        &mut self, mut hold: Hold, path: &mut PathHistory, ack: &AckSample,
    ) -> Verdict {
        let excess = path.excess(ack).unwrap_or_default();
        let growth = hold.growth();

        let finding = if ack.largest_acked > hold.last_packet {
            hold.find(ack, excess)
        } else if hold.rounds > 0 && is_standing(excess, ack) {
            // In another round the window would grow by more.
            Finding::Queue
        } else if hold.is_dismissed(ack, excess) {
            Finding::Variation
        } else {
            self.hold = Some(hold);
            return self.allowance.grow(ack, growth);
        };

        match finding {
            Finding::Queue => return Verdict::Exit,

            Finding::Doubt => {
                self.hold = Some(Hold::new(ack, excess, hold.rounds + 1));
            },

            Finding::Variation => {
                let variation = excess.mul_f64(VARIATION_FACTOR);
                let least = ack.min_rtt.mul_f64(DOUBTFUL);
                let most = ack.min_rtt.mul_f64(VARIATION_MAX);
                self.variation = self.variation.max(variation).clamp(least, most);
                path.forget_rtts();
            },
        }

        self.allowance.grow(ack, growth)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(1000);

    fn ack(now: Instant) -> AckSample {
        AckSample {
            now,
            rtt: RTT,
            min_rtt: RTT,
            bytes: 1200,
            largest_acked: 1,
            largest_sent: 2,
            cwnd: 120_000,
            grown: 1200,
            max_datagram_size: 1200,
        }
    }

    #[test]
    fn doubtful_queue_is_watched_for_three_more_rounds() {
        let ack = ack(crate::clock::now());
        let find = |rounds, excess_ms| {
            let excess = Duration::from_millis(excess_ms);
            Hold::new(&ack, excess, rounds).find(&ack, excess)
        };
        for rounds in 0..5 {
            let doubtful = match rounds {
                0..3 => Finding::Doubt,
                _ => Finding::Variation,
            };
            assert_eq!(find(rounds, 199), Finding::Variation);
            assert_eq!(find(rounds, 200), doubtful);
            assert_eq!(find(rounds, 249), doubtful);
            assert_eq!(find(rounds, 250), Finding::Queue);
        }
    }

    /// By the excess of the RTTs at the beginning, after a third of an RTT, and
    /// after more, in ms.
    #[test]
    fn queue_that_does_not_grow_is_dismissed() {
        for (excesses, is_dismissed) in [
            ([60, 60, 60], [false, true]),
            ([60, 100, 100], [false, true]),
            // A real one has grown, be it gone by then.
            ([60, 110, 110], [false, false]),
            ([60, 110, 60], [false, false]),
            // Nor is as much as paths vary by at most.
            ([190, 200, 200], [false, false]),
        ] {
            let start = crate::clock::now();
            let ack = |share: f64| ack(start + RTT.mul_f64(share));
            let [first, then, last] = excesses.map(Duration::from_millis);
            let mut hold = Hold::new(&ack(0.0), first, 0);
            let dismissed = [(0.35, then), (0.4, last)]
                .map(|(share, excess)| hold.is_dismissed(&ack(share), excess));
            assert_eq!(dismissed, is_dismissed, "{excesses:?}");
        }
    }
}
