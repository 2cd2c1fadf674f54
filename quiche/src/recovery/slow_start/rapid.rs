//! Rapid Start (draft-kazuho-ccwg-rapid-start-02): the window triples while no
//! queue shows, and follows from what is delivered after the first loss.
//!
//! The watch for a queue that ends it is in
//! [`overshoot`](crate::recovery::overshoot).

use std::time::Duration;

/// Excess of the RTT, or the part of the minimum RTT, that shows a queue
/// (section 3.2).
const QUEUE: Duration = Duration::from_millis(4);
const QUEUE_RTT_DIVISOR: u32 = 10;

/// Whether the window may grow by twice the acknowledged bytes, if the latest
/// RTTs all exceed the minimum by `excess`.
pub(in crate::recovery) fn may_triple(
    excess: Duration, min_rtt: Duration,
) -> bool {
    excess <= QUEUE.min(min_rtt / QUEUE_RTT_DIVISOR)
}

/// The part of the window that an acknowledged byte takes, relative to the
/// controller's decrease (section 3.3.1).
const K: f64 = 2.0 / 3.0;

/// The most that the window may have been, as a multiple of what the path
/// holds.
const OVERSHOOT_MAX: f64 = 3.0;

/// The first recovery after Rapid Start: silence first, then each byte that is
/// acknowledged or lost takes its part of the window. The rest is the
/// controller's decrease of what path and buffer hold, however much was lost
/// (section 3.3).
#[derive(Clone, Copy, Debug)]
pub(in crate::recovery) struct Convergence {
    /// The controller's decrease factor.
    beta: f64,
    /// The least window, in bytes.
    floor: f64,
    /// The window, in bytes.
    window: f64,
    /// The ACK of a later packet ends recovery.
    last_packet: u64,
}

impl Convergence {
    /// Begins after the first loss at a window of `before` bytes, which the
    /// controller has reduced to `after`.
    pub(in crate::recovery) fn new(
        before: usize, after: usize, last_packet: u64,
    ) -> Self {
        let beta = after as f64 / before.max(1) as f64;
        let before = before as f64;

        Convergence {
            beta,
            floor: before * beta / OVERSHOOT_MAX,
            window: before * (beta + K * (1.0 - beta)),
            last_packet,
        }
    }

    pub(in crate::recovery) fn on_lost(&mut self, bytes: usize) {
        self.shrink(bytes, self.beta + K * (1.0 - self.beta));
    }

    pub(in crate::recovery) fn on_acked(&mut self, bytes: usize) {
        self.shrink(bytes, K * (1.0 - self.beta));
    }

    fn shrink(&mut self, bytes: usize, factor: f64) {
        let window = self.window - factor * bytes as f64;
        self.window = window.max(self.floor);
    }

    /// Returns the window, in bytes.
    pub(in crate::recovery) fn window(&self) -> usize {
        self.window as usize
    }

    pub(in crate::recovery) fn is_over(&self, largest_acked: u64) -> bool {
        largest_acked > self.last_packet
    }

    /// Returns the plateau of CUBIC after recovery, in bytes: twice what path
    /// and buffer hold, as after a doubling (section 3.3.3).
    pub(in crate::recovery) fn plateau(&self) -> f64 {
        2.0 * self.window / self.beta
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_window_triples_until_a_queue_shows() {
        for (min_rtt, excess, expected) in [
            (600 * MS, 4 * MS, true),
            (600 * MS, 5 * MS, false),
            (20 * MS, 2 * MS, true),
            (20 * MS, 3 * MS, false),
        ] {
            assert_eq!(may_triple(excess, min_rtt), expected, "{excess:?}");
        }
    }

    /// Of a window that is acknowledged but for what did not fit: beta times
    /// what did.
    #[rstest]
    #[case(0.5)]
    #[case(0.7)]
    fn rapid_recovery_leaves_the_decrease_of_capacity(#[case] beta: f64) {
        for held_share in [0.34, 0.5, 0.8, 0.99] {
            let before = 9_000_000.0;
            let held = before * held_share;
            let after = (before * beta) as usize;
            let mut convergence = Convergence::new(before as usize, after, 100);

            convergence.on_lost((before - held) as usize);
            convergence.on_acked(held as usize);

            let expected = held * beta;
            let window = convergence.window() as f64;
            assert!((window / expected - 1.0).abs() < 1e-3, "{held_share}");
        }
    }

    #[test]
    fn rapid_recovery_without_overflow_leaves_a_third() {
        let mut convergence = Convergence::new(900_000, 630_000, 100);
        convergence.on_lost(900_000);
        assert_eq!(convergence.window(), 210_000);
    }

    #[test]
    fn rapid_recovery_ends_with_its_own_packet() {
        let convergence = Convergence::new(900_000, 630_000, 100);
        assert!(!convergence.is_over(100));
        assert!(convergence.is_over(101));
    }
}
