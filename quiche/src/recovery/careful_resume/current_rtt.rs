//! The current RTT, by which a jump is paced and ends (RFC 9959, 3.3).
//!
//! It is the minimum of the latest samples of the application's packets. The
//! smoothed RTT remembers the handshake for long, in which a client or a
//! server may have computed; the minimum of the connection may be that of
//! another time.

use std::time::Duration;

/// What two ACKs of every second packet of a usual initial window bring, at
/// least: one of them was not held back.
const SAMPLES: usize = 8;

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

    /// None before the first sample.
    pub(super) fn get(&self) -> Option<Duration> {
        self.samples.iter().flatten().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_rtt_is_the_minimum_of_the_latest_samples() {
        let ms = Duration::from_millis;
        let mut current = CurrentRtt::default();
        assert_eq!(current.get(), None);

        for (rtt, expected) in [(100, 100), (60, 60), (140, 60), (61, 60)] {
            current.on_sample(ms(rtt));
            assert_eq!(current.get(), Some(ms(expected)));
        }

        // The one of 60 ms is forgotten with the eighth after it.
        for (i, expected) in [60, 60, 60, 60, 60, 61].into_iter().enumerate() {
            current.on_sample(ms(70 + i as u64));
            assert_eq!(current.get(), Some(ms(expected)), "{i}");
        }
    }
}
