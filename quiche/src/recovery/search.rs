//! SEARCH (draft-chung-ccwg-search): slow start ends when the bytes delivered
//! no longer follow the bytes sent.
//!
//! A pure state machine: packets and ACKs go in, an [`Evaluation`] comes out
//! when one is due. `slow_start` decides when an evaluation counts, and applies
//! the exit.
//!
//! Time is divided into bins, ten to a window of 3.5 RTTs: over that time the
//! delay of GEO, LEO and LTE links, which swings with a similar period,
//! averages out. On the first ACK after the end of a bin, the bytes delivered
//! in the last window are compared with those expected from one RTT earlier:
//! the bytes sent (SEARCH 4.0), or twice the bytes delivered, as slow start
//! doubles (SEARCH 3.x).

use std::time::Duration;
use std::time::Instant;

use super::slow_start::SearchConfig;
use super::slow_start::SearchForm;
use crate::Error;
use crate::Result;

/// First RTTs whose delivered bytes are what the path holds.
const TARGET_RTTS: u32 = 1;

/// RTTs between saturation and its detection by SEARCH 3.x.
const ROLLBACK_RTTS: u32 = 2;

impl SearchConfig {
    /// Checks the values: a window of 1 to 16 RTTs, 2 to 64 bins, and a
    /// threshold between 0 and 1.
    pub(crate) fn check(&self) -> Result<()> {
        let is_right = (1.0..=16.0).contains(&self.window_rtts)
            && (2..=64).contains(&self.bins)
            && self.threshold > 0.0
            && self.threshold < 1.0;

        match is_right {
            true => Ok(()),
            false => Err(Error::CongestionControl),
        }
    }

    /// Returns the bins to which the RTT may grow before the history is too
    /// short.
    fn look_back_bins(&self) -> u64 {
        u64::from(self.bins) * 3 / 2
    }

    /// Returns the number of bins in the history: two windows with the
    /// look-back between them, and one before, to interpolate.
    fn slots(&self) -> usize {
        (u64::from(self.bins) + self.look_back_bins() + 2) as usize
    }
}

/// An ACK in slow start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    pub(crate) now: Instant,
    /// The latest RTT sample.
    pub(crate) rtt: Duration,
    /// Bytes newly acknowledged.
    pub(crate) bytes: usize,
    /// Whether the application or flow control, not the window, limits the
    /// sender.
    pub(crate) limited: bool,
}

/// Result of one comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Evaluation {
    pub(crate) time: Instant,
    /// The missing share of the expected bytes; negative if more arrived than
    /// was expected.
    pub(crate) difference: f64,
    /// Bytes delivered in the last window.
    pub(crate) delivered: u64,
    /// Bytes expected in the last window.
    pub(crate) expected: u64,
    /// Whether slow start should end.
    pub(crate) is_exit: bool,
}

/// Change of the window at the exit, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Reduce it at once.
    Cut(usize),

    /// Reduce it as the bytes in flight arrive.
    Drain(usize),
}

/// Bytes since the beginning of the connection.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    sent: u64,
    delivered: u64,
}

/// Consecutive bins, without too long a gap.
#[derive(Debug)]
struct Bins {
    length: Duration,
    /// End of the current bin.
    end: Instant,
    /// Number of the latest boundary; the first ACK made boundary 0.
    latest: u64,
    /// Totals at the latest boundaries, each at its number modulo the length.
    ring: Vec<Totals>,
    /// Whether the sender was limited at every ACK of the bin.
    limited: bool,
}

impl Bins {
    /// Starts the bins. None if a bin would have no length.
    fn start(
        config: &SearchConfig, first_rtt: Duration, totals: Totals, now: Instant,
    ) -> Option<Self> {
        let window = first_rtt.mul_f64(config.window_rtts);
        let length = window / config.bins;

        (!length.is_zero()).then(|| Bins {
            length,
            end: now + length,
            latest: 0,
            ring: vec![totals; config.slots()],
            limited: true,
        })
    }

    /// Returns the number of bins that have ended before `now`.
    fn ended(&self, now: Instant) -> u128 {
        let past = now.saturating_duration_since(self.end);
        past.as_nanos().div_ceil(self.length.as_nanos())
    }

    /// Ends `n` bins, of which only the last saw anything.
    fn end_bins(&mut self, n: u32, totals: Totals) {
        let before = self.at(self.latest);

        for missed in 1..n {
            self.set(self.latest + u64::from(missed), before);
        }

        self.latest += u64::from(n);
        self.set(self.latest, totals);
        self.end += self.length * n;
        self.limited = true;
    }

    fn set(&mut self, boundary: u64, totals: Totals) {
        let slots = self.ring.len() as u64;
        self.ring[(boundary % slots) as usize] = totals;
    }

    fn at(&self, boundary: u64) -> Totals {
        self.ring[(boundary % self.ring.len() as u64) as usize]
    }

    /// Returns the bytes delivered in the last `bins` bins, or since the first.
    fn delivered_in(&self, bins: u64) -> u64 {
        let most = self.latest.min(self.ring.len() as u64 - 1);
        let since = self.at(self.latest - bins.min(most));

        self.at(self.latest).delivered - since.delivered
    }
}

/// SEARCH on one path, until slow start ends.
#[derive(Debug)]
pub(crate) struct Search {
    config: SearchConfig,
    totals: Totals,
    first_rtt: Option<Duration>,
    bins: Option<Bins>,
}

impl Search {
    pub(crate) fn new(config: SearchConfig) -> Self {
        Search {
            config,
            totals: Totals::default(),
            first_rtt: None,
            bins: None,
        }
    }

    pub(crate) fn config(&self) -> &SearchConfig {
        &self.config
    }

    #[cfg(test)]
    pub(crate) fn has_history(&self) -> bool {
        self.bins.is_some()
    }

    /// Takes bytes in flight that were sent; retransmitted ones count again.
    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.totals.sent += bytes as u64;
    }

    /// Forgets the history: the next ACK begins another.
    pub(crate) fn forget(&mut self) {
        self.bins = None;
    }

    /// Takes an ACK. Returns an evaluation with the first ACK after the end of
    /// a bin, if the history is long enough.
    pub(crate) fn on_ack(&mut self, ack: &Ack) -> Option<Evaluation> {
        self.totals.delivered += ack.bytes as u64;
        let first_rtt = *self.first_rtt.get_or_insert(ack.rtt);

        let Some(bins) = self.bins.as_mut() else {
            self.bins =
                Bins::start(&self.config, first_rtt, self.totals, ack.now);
            return None;
        };

        bins.limited &= ack.limited;
        let ended = bins.ended(ack.now);

        if ended == 0 {
            return None;
        }

        // After a window without arrivals, or a bin in which the sender did not
        // use its window, nothing doubles, without any congestion.
        if bins.limited || ended > u128::from(self.config.bins) {
            self.forget();
            return None;
        }

        bins.end_bins(ended as u32, self.totals);
        self.evaluate(ack)
    }

    fn evaluate(&self, ack: &Ack) -> Option<Evaluation> {
        let bins = self.bins.as_ref()?;
        let window = u64::from(self.config.bins);

        // The look-back is one RTT: a number of bins, and a part of another.
        let length = bins.length.as_nanos();
        let whole = u64::try_from(ack.rtt.as_nanos() / length).ok()?;
        let part = (ack.rtt.as_nanos() % length) as f64 / length as f64;

        // Interpolation needs one more window, which is one bin older.
        if whole >= self.config.look_back_bins()
            || bins.latest < window + whole + 1
        {
            return None;
        }

        let earlier = bins.latest - whole;
        let newer = self.expected_of(bins, earlier);
        let older = self.expected_of(bins, earlier - 1);
        let expected = newer as f64 * (1.0 - part) + older as f64 * part;

        if expected <= 0.0 {
            return None;
        }

        let delivered = bins.delivered_in(window);
        let difference = (expected - delivered as f64) / expected;

        Some(Evaluation {
            time: ack.now,
            difference,
            delivered,
            expected: expected as u64,
            is_exit: difference >= self.config.threshold,
        })
    }

    /// Returns the bytes to expect from the window that ended at `boundary`.
    fn expected_of(&self, bins: &Bins, boundary: u64) -> u64 {
        let end = bins.at(boundary);
        let start = bins.at(boundary - u64::from(self.config.bins));

        match self.config.form {
            SearchForm::SentAgainstDelivered => end.sent - start.sent,
            SearchForm::DeliveredOnly => 2 * (end.delivered - start.delivered),
        }
    }

    /// Returns the change of a window of `window` bytes if slow start ends now;
    /// to no less than `initial_window`.
    pub(crate) fn exit(&self, window: usize, initial_window: usize) -> Exit {
        match self.config.form {
            // What the path holds without a queue: the bytes of one RTT.
            SearchForm::SentAgainstDelivered => {
                let target = self.delivered_in_rtts(TARGET_RTTS);
                Exit::Drain(
                    target.clamp(initial_window, window.max(initial_window)),
                )
            },

            SearchForm::DeliveredOnly => {
                let excess = self.delivered_in_rtts(ROLLBACK_RTTS);
                Exit::Cut(window.saturating_sub(excess).max(initial_window))
            },
        }
    }

    /// Returns the bytes delivered in the last `rtts` first RTTs, in whole
    /// bins.
    fn delivered_in_rtts(&self, rtts: u32) -> usize {
        let (Some(bins), Some(first_rtt)) = (&self.bins, self.first_rtt) else {
            return 0;
        };
        let time = (first_rtt * rtts).as_nanos();
        let count = time.div_ceil(bins.length.as_nanos());
        let count = u64::try_from(count).unwrap_or(u64::MAX);

        usize::try_from(bins.delivered_in(count)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
