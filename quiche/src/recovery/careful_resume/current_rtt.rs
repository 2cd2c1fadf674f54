//! Current RTT, which paces and ends a jump (RFC 9959, 3.3).
//!
//! The minimum of the latest samples of application data packets. The smoothed
//! RTT would keep the computing time of the handshake for long; the minimum RTT
//! of the connection may be out of date.

use std::time::Duration;

/// Samples of two ACKs of every second packet of a usual initial window: one of
/// them was not delayed.
const SAMPLES: usize = 8;

/// Returns an RTT without the peer's delay, unless that makes it shorter than the
/// minimum (RFC 9002, 5.3).
pub(crate) fn adjusted_rtt(
    rtt: Duration, ack_delay: Duration, min_rtt: Duration,
) -> Duration {
    let adjusted = rtt.saturating_sub(ack_delay);

    match adjusted >= min_rtt {
        true => adjusted,
        false => rtt,
    }
}

#[derive(Debug, Default)]
pub(super) struct CurrentRtt {
    samples: [Option<Duration>; SAMPLES],
    next: usize,
}

impl CurrentRtt {
    pub(super) fn on_sample(&mut self, rtt: Duration) {
        self.samples[self.next] = Some(rtt);
        self.next = (self.next + 1) % SAMPLES;
    }

    /// Returns the minimum; None before the first sample.
    pub(super) fn get(&self) -> Option<Duration> {
        self.samples.iter().flatten().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn current_rtt_is_the_minimum_of_recent_samples() {
        let ms = Duration::from_millis;
        let mut current = CurrentRtt::default();
        assert_eq!(current.get(), None);

        for (rtt, expected) in [(100, 100), (60, 60), (140, 60), (61, 60)] {
            current.on_sample(ms(rtt));
            assert_eq!(current.get(), Some(ms(expected)));
        }

        // The eighth sample after it replaces the one of 60 ms.
        for (i, expected) in [60, 60, 60, 60, 60, 61].into_iter().enumerate() {
            current.on_sample(ms(70 + i as u64));
            assert_eq!(current.get(), Some(ms(expected)), "{i}");
        }
    }
}
