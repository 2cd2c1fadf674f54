//! SEARCH (draft-chung-ccwg-search): slow start ends when what arrives no
//! longer follows what is sent.
//!
//! A pure state machine: packets and ACKs go in, an [`Evaluation`] comes out
//! when one is due. Owns the running totals and what they say of the path.
//! Does not own what the window becomes, or when a decision is allowed.
//!
//! Time is cut into bins, ten to a window of 3.5 RTTs: over that long the
//! delay of GEO, LEO and LTE links, which swings with a period of about as
//! much, averages out. With the first ACK after the end of a bin, what was
//! delivered in the last window is compared with what one RTT earlier gives
//! reason to expect: what was sent (SEARCH 4.0), or twice what was delivered,
//! as slow start doubles (SEARCH 3.x).

use std::time::Duration;
use std::time::Instant;

use super::slow_start::SearchConfig;
use super::slow_start::SearchForm;
use crate::Error;
use crate::Result;

/// What is delivered in so many first RTTs is what the path holds.
const TARGET_RTTS: u32 = 1;

/// The bottleneck was passed about so many RTTs before SEARCH 3.x notices.
const ROLLBACK_RTTS: u32 = 2;

impl SearchConfig {
    /// Whether the values make sense: a window of 1 to 16 RTTs, 2 to 64 bins,
    /// and a threshold between 0 and 1.
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

    /// The RTT may grow to so many bins before there is too little history.
    fn look_back_bins(&self) -> u64 {
        u64::from(self.bins) * 3 / 2
    }

    /// How many bins are remembered: two windows that far apart, and the one
    /// before, to interpolate.
    fn slots(&self) -> usize {
        (u64::from(self.bins) + self.look_back_bins() + 2) as usize
    }
}

/// What an ACK tells, in slow start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ack {
    pub(crate) now: Instant,
    /// The latest sample.
    pub(crate) rtt: Duration,
    /// Newly acknowledged.
    pub(crate) bytes: usize,
    /// The application or flow control, not the window, held data back.
    pub(crate) limited: bool,
}

/// One comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Evaluation {
    pub(crate) time: Instant,
    /// The share of the expected bytes that is missing; negative where more
    /// arrived than was expected.
    pub(crate) difference: f64,
    /// Bytes delivered in the last window.
    pub(crate) delivered: u64,
    /// Bytes expected in it.
    pub(crate) expected: u64,
    /// Slow start should end.
    pub(crate) is_exit: bool,
}

/// What the window should become, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// At once.
    Cut(usize),

    /// As what is in flight arrives.
    Drain(usize),
}

/// Bytes since the connection began.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    sent: u64,
    delivered: u64,
}

/// A run of bins without a gap that is too long.
#[derive(Debug)]
struct Bins {
    length: Duration,
    /// Of the bin that is being filled.
    end: Instant,
    /// Of the latest boundary; the first ACK made boundary 0.
    latest: u64,
    /// At the latest boundaries, each at its number modulo the length.
    ring: Vec<Totals>,
    /// Every ACK of the bin found the sender limited.
    limited: bool,
}

impl Bins {
    /// None where a bin would have no length.
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

    /// How many bins have ended before now.
    fn ended(&self, now: Instant) -> u128 {
        let past = now.saturating_duration_since(self.end);
        past.as_nanos().div_ceil(self.length.as_nanos())
    }

    /// Ends `n` bins; nothing was seen in all but the last.
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

    /// Bytes delivered in the last `bins` bins, or since the first.
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

    /// Bytes in flight were sent; those of a retransmission count again.
    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.totals.sent += bytes as u64;
    }

    /// The history says nothing about what comes: the next ACK begins another.
    pub(crate) fn forget(&mut self) {
        self.bins = None;
    }

    /// Returns an evaluation with the first ACK after the end of a bin, when
    /// there is enough history.
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

        // A window in which nothing arrived, or a bin in which the sender had
        // no use for its window: nothing doubles, without any congestion.
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

        // The look-back is one RTT: so many bins, and part of another.
        let length = bins.length.as_nanos();
        let whole = u64::try_from(ack.rtt.as_nanos() / length).ok()?;
        let part = (ack.rtt.as_nanos() % length) as f64 / length as f64;

        // One more window is needed to interpolate, which is one bin older.
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

    /// What the window that ended at that boundary lets expect.
    fn expected_of(&self, bins: &Bins, boundary: u64) -> u64 {
        let end = bins.at(boundary);
        let start = bins.at(boundary - u64::from(self.config.bins));

        match self.config.form {
            SearchForm::SentAgainstDelivered => end.sent - start.sent,
            SearchForm::DeliveredOnly => 2 * (end.delivered - start.delivered),
        }
    }

    /// What the window becomes when slow start ends now, at `window` bytes; no
    /// less than `initial_window`.
    pub(crate) fn exit(&self, window: usize, initial_window: usize) -> Exit {
        match self.config.form {
            // One RTT's worth is what the path holds without a queue.
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

    /// Bytes delivered in the last so many first RTTs, in whole bins.
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
