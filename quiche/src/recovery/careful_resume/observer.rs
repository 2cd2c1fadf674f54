//! Observation of a connection's path (RFC 9959, 3.1 and 4.1).
//!
//! saved_cwnd is the number of bytes acknowledged within one minimum RTT, so
//! that a standing queue never counts as capacity. It is kept as a rate, since
//! it belongs to the minimum RTT that is saved with it. Each window of that
//! length gives one sample. ACKs that a busy host or a link layer delays make
//! one sample too small and the next too large by as much: the capacity is the
//! largest median of consecutive samples. Until the path has limited many
//! samples, the best rate of one counts as well, which delayed ACKs do not
//! raise: few samples are full before slow start ends.

use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

use super::delivery::rate;
use super::delivery::Delivery;
use super::delivery::Rate;

/// Number of samples that are kept, the latest ones.
const MAX_SAMPLES: usize = 16;

/// Number of consecutive samples of which a median is taken.
const MEDIAN_OF: usize = 5;

/// A limited sample below this share of the capacity is dropped.
const LIMITED_WORTH: f64 = 0.8;

/// A queue is an RTT that is longer by this share of the minimum RTT, within
/// these bounds (as in RFC 9406, 4.2), on at least this number of ACKs.
const QUEUE_RTT_MIN: Duration = Duration::from_millis(4);
const QUEUE_RTT_MAX: Duration = Duration::from_millis(16);
const QUEUE_RTT_DIVISOR: u32 = 8;
const QUEUE_ACKS_MIN: usize = 8;

/// The newly acknowledged packets of one ACK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged {
    /// Bytes in flight among them.
    pub(crate) bytes: usize,

    /// The largest packet number among them.
    pub(crate) largest: u64,

    /// The time from that packet to this ACK.
    pub(crate) rtt: Duration,
}

/// Limit of the bytes in flight; of several, the last one of this list counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FlightLimit {
    /// The window that congestion control has found for the path.
    Path,

    /// A window that is still growing (slow start).
    Growth,

    /// The application, or flow control.
    Application,
}

#[derive(Debug)]
struct Window {
    start: Instant,
    // One minimum RTT after the start.
    end: Instant,
    // The send time of the packet whose ACK began the window.
    first_sent: Instant,
    // All bytes acknowledged before.
    delivered_before: u64,
    congested: bool,
    shortest_rtt: Duration,
}

impl Window {
    /// Returns bytes delivered per second up to an ACK with this RTT, with
    /// which `delivered` bytes were acknowledged in all, over the longer of the
    /// times in which packets were sent and acknowledged.
    fn average(&self, delivered: u64, rtt: Duration, now: Instant) -> Rate {
        let sent_at = now - rtt;
        let elapsed = now
            .saturating_duration_since(self.start)
            .max(sent_at.saturating_duration_since(self.first_sent));

        rate(delivered - self.delivered_before, elapsed)
    }

    /// Whether something other than the path decided how much was delivered.
    fn is_limited(&self, acks: &WindowAcks, min_rtt: Duration) -> bool {
        !self.congested
            && match acks.limit {
                FlightLimit::Path => false,
                FlightLimit::Growth => !self.is_queue_standing(acks, min_rtt),
                FlightLimit::Application => true,
            }
    }

    /// Whether the bottleneck had a queue all the time: then it delivered what
    /// it can carry, however much more was in flight.
    fn is_queue_standing(&self, acks: &WindowAcks, min_rtt: Duration) -> bool {
        let longer =
            (min_rtt / QUEUE_RTT_DIVISOR).clamp(QUEUE_RTT_MIN, QUEUE_RTT_MAX);

        acks.count >= QUEUE_ACKS_MIN && self.shortest_rtt >= min_rtt + longer
    }
}

/// What every ACK adds to the window.
#[derive(Debug)]
struct WindowAcks {
    count: usize,
    limit: FlightLimit,
}

impl Default for WindowAcks {
    fn default() -> Self {
        WindowAcks {
            count: 0,
            limit: FlightLimit::Path,
        }
    }
}

/// Rates of one window, in bytes per second.
#[derive(Clone, Copy, Debug)]
struct Sample {
    average: Rate,
    best: Rate,
}

/// The latest samples.
#[derive(Debug, Default)]
struct RateSamples {
    samples: VecDeque<Sample>,
    /// The median of each `MEDIAN_OF` consecutive ones.
    medians: VecDeque<Rate>,
}

impl RateSamples {
    fn push(&mut self, sample: Sample) {
        if self.is_full() {
            self.samples.pop_front();
            self.medians.pop_front();
        }

        self.samples.push_back(sample);

        if let Some(first) = self.samples.len().checked_sub(MEDIAN_OF) {
            let latest = self.samples.range(first..);
            let median = median(latest.map(|sample| sample.average));
            self.medians.push_back(median);
        }
    }

    fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    fn is_full(&self) -> bool {
        self.samples.len() == MAX_SAMPLES
    }

    /// Returns the largest median; None with too few samples.
    fn median(&self) -> Option<Rate> {
        self.medians.iter().copied().max_by(Rate::total_cmp)
    }

    /// Returns the best rate; None without samples.
    fn best(&self) -> Option<Rate> {
        self.samples
            .iter()
            .map(|sample| sample.best)
            .max_by(Rate::total_cmp)
    }
}

/// Returns the median of `MEDIAN_OF` samples.
fn median(samples: impl Iterator<Item = Rate>) -> Rate {
    let mut sorted = [0.0; MEDIAN_OF];
    sorted
        .iter_mut()
        .zip(samples)
        .for_each(|(to, from)| *to = from);
    sorted.sort_unstable_by(Rate::total_cmp);
    sorted[MEDIAN_OF / 2]
}

/// Capacity seen so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Observed {
    rate: Rate,

    /// Whether something other than the path limited every sample.
    pub(crate) limited: bool,
}

impl Observed {
    /// Returns bytes delivered within one minimum RTT.
    pub(crate) fn cwnd(&self, min_rtt: Duration) -> usize {
        (self.rate * min_rtt.as_secs_f64()).round() as usize
    }
}

#[derive(Debug, Default)]
pub(crate) struct Observer {
    /// Those of the window, without the one that began it.
    acks: WindowAcks,
    /// When the next mark is due or the window ends; None before the first ACK.
    due: Option<Instant>,
    window: Option<Window>,
    delivery: Delivery,
    samples: RateSamples,
    /// The samples that only the path limited.
    unlimited: RateSamples,
}

impl Observer {
    #[inline]
    pub(crate) fn on_ack(
        &mut self, acked: &Acknowledged, min_rtt: Duration, limit: FlightLimit,
        now: Instant,
    ) {
        self.acks.count += 1;
        self.acks.limit = self.acks.limit.max(limit);
        self.delivery.on_ack(acked, now);

        if self.due.is_none_or(|due| now >= due) {
            self.update(acked.rtt, min_rtt, now);
        }
    }

    /// Takes a sign of the path's limit: the current window counts as limited
    /// by it.
    pub(crate) fn on_congestion(&mut self) {
        if let Some(window) = self.window.as_mut() {
            window.congested = true;
        }
    }

    /// Takes a validated jump.
    pub(crate) fn on_jump_validated(&mut self) {
        self.delivery.on_jump_validated();
    }

    pub(crate) fn observed(&self) -> Option<Observed> {
        Some(Observed {
            rate: self.capacity()?,
            limited: self.unlimited.is_empty(),
        })
    }

    fn capacity(&self) -> Option<Rate> {
        let medians = [self.samples.median(), self.unlimited.median()];
        // After a long observation, medians are more reliable.
        let best = match self.unlimited.is_full() {
            false => [self.samples.best(), self.delivery.best()],
            true => [None; 2],
        };

        medians
            .into_iter()
            .chain(best)
            .flatten()
            .max_by(Rate::total_cmp)
    }

    // Not inlined: most ACKs need none.
    #[inline(never)]
    fn update(&mut self, rtt: Duration, min_rtt: Duration, now: Instant) {
        let shortest = self.delivery.shortest_rtt().unwrap_or(rtt);

        match self.window.as_mut() {
            Some(window) => {
                window.shortest_rtt = window.shortest_rtt.min(shortest)
            },
            None => self.begin_window(rtt, min_rtt, now),
        }

        let mark_due = self.delivery.update(min_rtt, now);

        if let Some(window) = self.window.take_if(|window| now >= window.end) {
            self.sample(&window, rtt, min_rtt, now);
            self.begin_window(rtt, min_rtt, now);
        }

        let end = self.window.as_ref().map(|window| window.end);
        self.due = end.map(|end| end.min(mark_due));
    }

    /// Begins a window with an ACK that has this RTT.
    fn begin_window(&mut self, rtt: Duration, min_rtt: Duration, now: Instant) {
        self.acks = WindowAcks::default();
        self.window = Some(Window {
            start: now,
            end: now + min_rtt,
            first_sent: now - rtt,
            delivered_before: self.delivery.delivered(),
            congested: false,
            shortest_rtt: Duration::MAX,
        });
    }

    /// Takes the rates of a window that an ACK with this RTT ends.
    fn sample(
        &mut self, window: &Window, rtt: Duration, min_rtt: Duration,
        now: Instant,
    ) {
        let average = window.average(self.delivery.delivered(), rtt, now);
        let sample = Sample {
            average,
            best: self.delivery.take_best().unwrap_or(average),
        };

        self.add_sample(sample, window.is_limited(&self.acks, min_rtt));
    }

    /// RFC 9959, 4.1: a sample that the application limited may be ignored if a
    /// better one is held.
    fn is_worth_it(&self, sample: &Sample) -> bool {
        let capacity = self.capacity().unwrap_or(0.0);
        sample.average.max(sample.best) >= capacity * LIMITED_WORTH
    }

    fn add_sample(&mut self, sample: Sample, limited: bool) {
        if limited && !self.is_worth_it(&sample) {
            return;
        }

        self.samples.push(sample);

        if !limited {
            self.unlimited.push(sample);
        }
    }
}

#[cfg(test)]
#[path = "observer_tests.rs"]
mod tests;
