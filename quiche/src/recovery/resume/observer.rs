//! What this connection learns about its path (RFC 9959, 3.1 and 4.1).
//!
//! saved_cwnd is the bytes acknowledged within one minimum RTT, so that a
//! standing queue is never taken for capacity. Each window of that length
//! gives one sample. ACKs that a busy host or a link layer holds back make one
//! sample too small and the next too large by as much: the capacity is the
//! largest median of samples that follow each other.

use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

/// How many of the latest samples are considered.
const MAX_SAMPLES: usize = 16;

/// How many samples that follow each other a median is taken of.
const MEDIAN_OF: usize = 5;

/// A limited sample below this share of the capacity says nothing about it.
const LIMITED_WORTH: f64 = 0.8;

/// The newly acknowledged packets of one ACK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged {
    /// Their bytes.
    pub(crate) bytes: usize,

    /// The largest packet number among them.
    pub(crate) largest: u64,

    /// When that packet was sent.
    pub(crate) largest_sent: Instant,
}

#[derive(Debug)]
struct Window {
    start: Instant,
    // One minimum RTT later.
    end: Instant,
    // The send time of the packet whose ACK began the window.
    first_sent: Instant,
    bytes: usize,
    limited: bool,
    congested: bool,
}

/// The latest samples, in bytes.
#[derive(Debug, Default)]
struct Samples(VecDeque<usize>);

impl Samples {
    fn push(&mut self, bytes: usize) {
        if self.0.len() == MAX_SAMPLES {
            self.0.pop_front();
        }

        self.0.push_back(bytes);
    }

    /// The largest median; None without samples.
    fn capacity(&self) -> Option<usize> {
        let samples: Vec<usize> = self.0.iter().copied().collect();

        samples
            .windows(MEDIAN_OF.min(samples.len().max(1)))
            .map(upper_median)
            .max()
    }
}

fn upper_median(samples: &[usize]) -> usize {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

/// The capacity seen so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Observed {
    /// Bytes acknowledged within one minimum RTT.
    pub(crate) cwnd: usize,

    /// Something other than the path limited every sample.
    pub(crate) limited: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Observer {
    window: Option<Window>,
    samples: Samples,
    /// Those that only the path limited.
    unlimited: Samples,
}

impl Observer {
    /// `limited`: the application, flow control or slow start, not the path,
    /// decides how much is in flight.
    #[inline]
    pub(crate) fn on_ack(
        &mut self, acked: &Acknowledged, min_rtt: Duration, limited: bool,
        now: Instant,
    ) {
        match self.window.as_mut() {
            Some(window) => {
                window.bytes += acked.bytes;
                window.limited |= limited;

                if now >= window.end {
                    self.end_window(acked, min_rtt, now);
                }
            },

            None => self.begin_window(acked, min_rtt, now),
        }
    }

    /// The path showed its limit, whatever else held the sender back.
    pub(crate) fn on_congestion(&mut self) {
        if let Some(window) = self.window.as_mut() {
            window.congested = true;
        }
    }

    pub(crate) fn observed(&self) -> Option<Observed> {
        let unlimited = self.unlimited.capacity();

        Some(Observed {
            cwnd: self.samples.capacity().max(unlimited)?,
            limited: unlimited.is_none(),
        })
    }

    fn end_window(
        &mut self, acked: &Acknowledged, min_rtt: Duration, now: Instant,
    ) {
        let Some(window) = self.window.take() else {
            return;
        };

        // ACKs that were held back and arrive at once would show more than the
        // path carries: the time over which the packets were sent counts too.
        let elapsed = now.saturating_duration_since(window.start).max(
            acked
                .largest_sent
                .saturating_duration_since(window.first_sent),
        );

        let bytes =
            window.bytes as u128 * min_rtt.as_nanos() / elapsed.as_nanos().max(1);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);

        self.add_sample(bytes, window.limited && !window.congested);
        self.begin_window(acked, min_rtt, now);
    }

    fn begin_window(
        &mut self, acked: &Acknowledged, min_rtt: Duration, now: Instant,
    ) {
        self.window = Some(Window {
            start: now,
            end: now + min_rtt,
            first_sent: acked.largest_sent,
            bytes: 0,
            limited: false,
            congested: false,
        });
    }

    /// RFC 9959, 4.1: a sample limited by the application may be ignored when a
    /// better one is held.
    fn is_worth_it(&self, bytes: usize) -> bool {
        let capacity = self.samples.capacity().unwrap_or(0);
        bytes as f64 >= capacity as f64 * LIMITED_WORTH
    }

    fn add_sample(&mut self, bytes: usize, limited: bool) {
        if limited && !self.is_worth_it(bytes) {
            return;
        }

        self.samples.push(bytes);

        if !limited {
            self.unlimited.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    /// Feeds one ACK of 1000 bytes every `step`, for packets sent one RTT
    /// before, over `rtts` RTTs.
    fn feed(
        observer: &mut Observer, start: Instant, step: Duration, rtts: u32,
        limited: bool,
    ) -> Instant {
        let mut now = start;

        while now <= start + RTT * rtts {
            let acked = Acknowledged {
                bytes: 1000,
                largest: 0,
                largest_sent: now - RTT,
            };
            observer.on_ack(&acked, RTT, limited, now);
            now += step;
        }

        now
    }

    fn start() -> Instant {
        crate::clock::now() + Duration::from_secs(10)
    }

    /// A3: bytes acknowledged in one RTT.
    #[test]
    fn the_capacity_is_what_is_acknowledged_in_one_minimum_rtt() {
        let mut observer = Observer::default();
        feed(&mut observer, start(), Duration::from_millis(1), 3, false);

        let observed = observer.observed().unwrap();
        assert_eq!(observed.cwnd, 100_000);
        assert!(!observed.limited);
    }

    #[test]
    fn nothing_is_observed_before_a_whole_rtt() {
        let mut observer = Observer::default();
        assert_eq!(observer.observed(), None);

        let first = start();
        for ms in 0..100 {
            let acked = Acknowledged {
                bytes: 1000,
                largest: ms,
                largest_sent: first - RTT,
            };
            let now = first + Duration::from_millis(ms);
            observer.on_ack(&acked, RTT, false, now);
        }
        assert_eq!(observer.observed(), None);
    }

    #[test]
    fn acks_that_arrive_at_once_are_not_capacity() {
        let mut observer = Observer::default();
        let first = start();

        // Packets sent over 300 ms are all acknowledged within 100 ms.
        for i in 0..=100 {
            let acked = Acknowledged {
                bytes: 3000,
                largest: i,
                largest_sent: first - RTT + Duration::from_millis(3 * i),
            };
            let now = first + Duration::from_millis(i);
            observer.on_ack(&acked, RTT, false, now);
        }

        assert_eq!(observer.observed().unwrap().cwnd, 100_000);
    }

    #[test]
    fn a_few_samples_made_by_late_acks_do_not_count() {
        for limited in [false, true] {
            samples_made_by_late_acks(limited);
        }
    }

    fn samples_made_by_late_acks(limited: bool) {
        let mut observer = Observer::default();
        let mut now = start();

        // A stall takes 20 packets from one window and adds them to the next.
        for rtt in 0..10 {
            for i in 0..100 {
                let stalled = rtt % 3 == 0 && i >= 80;
                let late = if stalled { 100 - i } else { 0 };
                let acked = Acknowledged {
                    bytes: 1000,
                    largest: 0,
                    largest_sent: now - RTT,
                };
                now += Duration::from_millis(1);
                let arrival = now + Duration::from_millis(late);
                observer.on_ack(&acked, RTT, limited, arrival);
            }
        }

        let share = observer.observed().unwrap().cwnd as f64 / 100_000.0;
        assert!((0.97..1.03).contains(&share), "{share}");
    }

    /// A7: the end of slow start shows the capacity; recovery after it less.
    #[test]
    fn a_plateau_counts_more_than_the_recovery_after_it() {
        let mut observer = Observer::default();
        let samples = [(7, true), (14, true), (27, true), (55, true), (98, true)];
        let plateau = [(98, true), (98, true), (94, false), (83, false)];
        let recovery = [(59, false), (97, true), (98, true), (50, true)];

        for (bytes, limited) in samples.into_iter().chain(plateau).chain(recovery)
        {
            observer.add_sample(bytes, limited);
        }

        let observed = observer.observed().unwrap();
        assert_eq!(
            observed,
            Observed {
                cwnd: 98,
                limited: false
            }
        );
    }

    #[test]
    fn a_limited_sample_counts_if_it_is_near_the_capacity() {
        for (limited, capacity) in [(79, 100), (81, 81)] {
            let mut observer = Observer::default();
            for _ in 0..MAX_SAMPLES {
                observer.add_sample(100, true);
            }
            for _ in 0..MAX_SAMPLES {
                observer.add_sample(limited, true);
            }
            assert_eq!(observer.observed().unwrap().cwnd, capacity, "{limited}");
        }
    }

    /// A2, A7: congestion in slow start shows the path's limit.
    #[test]
    fn a_window_that_ended_in_congestion_is_not_limited() {
        let mut observer = Observer::default();
        let step = Duration::from_millis(1);
        let now = feed(&mut observer, start(), step, 1, true);
        assert!(observer.observed().unwrap().limited);

        observer.on_congestion();
        feed(&mut observer, now, step, 1, true);
        assert!(!observer.observed().unwrap().limited);
    }

    /// A8: the application's pauses do not lower it; the path's do.
    #[test]
    fn a_limited_sample_counts_only_when_it_is_better() {
        for (limited, cwnd) in [(true, 100_000), (false, 50_000)] {
            let mut observer = Observer::default();
            let step = Duration::from_millis(1);
            let now = feed(&mut observer, start(), step, 3, false);

            feed(&mut observer, now, step * 2, 20, limited);
            assert_eq!(observer.observed().unwrap().cwnd, cwnd);
        }

        let mut observer = Observer::default();
        feed(&mut observer, start(), Duration::from_millis(1), 3, true);
        assert!(observer.observed().unwrap().limited);
    }
}
