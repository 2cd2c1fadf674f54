//! Flag "carefully resuming" of BBR (RFC 9959, appendix C), and what it changes.
//!
//! Pure, like the phases, which set it: unvalidated and validating are the two
//! rounds in which BBR sends at the probing rate, and safe retreat is Drain with
//! the flag set.

use std::time::Duration;

use crate::recovery::bandwidth::Bandwidth;

/// The gains of Startup.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gains {
    pub(super) pacing: f32,
    pub(super) window: f32,
}

/// The flag; set unless it is Off.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::recovery::gcongestion) enum Flag {
    #[default]
    Off,

    /// The first round.
    Unvalidated { probing_rate: Bandwidth },

    /// The second round.
    Validating { probing_rate: Bandwidth },

    /// Drain, with a window of so many bytes at most.
    Retreat { window: usize },
}

impl Flag {
    /// Whether samples of the delivery rate are discarded: packets of the jump
    /// are still queued, and may have pushed out those of others (RFC 9959,
    /// C.3).
    pub(in crate::recovery::gcongestion) fn discards_samples(&self) -> bool {
        matches!(self, Flag::Retreat { .. })
    }

    /// Whether Drain lasts, however little is in flight: it ends with the safe
    /// retreat (RFC 9959, 3.5).
    pub(in crate::recovery::gcongestion) fn holds_drain(&self) -> bool {
        matches!(self, Flag::Retreat { .. })
    }

    /// Whether Startup goes on without a look at the rounds: those of the jump
    /// show the growth of the probing rate, not of the path.
    pub(in crate::recovery::gcongestion) fn holds_startup(&self) -> bool {
        matches!(self, Flag::Unvalidated { .. } | Flag::Validating { .. })
    }

    /// Returns the pacing rate, where BBR's own is `nominal` and the window is
    /// `cwnd` bytes.
    pub(super) fn pacing_rate(
        &self, nominal: Bandwidth, cwnd: usize, min_rtt: Duration, gains: Gains,
    ) -> Bandwidth {
        match *self {
            Flag::Off | Flag::Retreat { .. } => nominal,

            // RFC 9959, 3.3 and 4.3.2: without gain. There is no jump unless
            // this is larger than the nominal rate.
            Flag::Unvalidated { probing_rate } => probing_rate,

            // RFC 9959, C.1: the larger of the nominal and the probing rate. The
            // samples of a round reach back to before the jump, so that the
            // nominal one is of the bandwidth that the window stands for: it
            // grows by what is acknowledged.
            Flag::Validating { probing_rate } => {
                let shown = Bandwidth::from_bytes_and_time_delta(cwnd, min_rtt)
                    * (gains.pacing / gains.window);
                nominal.max(probing_rate).max(shown)
            },
        }
    }

    /// Returns the window at which Startup stops to grow it, where BBR's own is
    /// `target` bytes.
    pub(super) fn target_window(
        &self, target: usize, min_rtt: Duration, gain: f32,
    ) -> usize {
        match *self {
            // RFC 9959, C.1: of the larger of the two rates.
            Flag::Validating { probing_rate } => {
                let probing = (probing_rate * gain).to_bytes_per_period(min_rtt);
                target.max(usize::try_from(probing).unwrap_or(usize::MAX))
            },
            _ => target,
        }
    }

    /// Returns the window that replaces `prior` bytes, where BBR's own is
    /// `next`.
    pub(super) fn window(&self, prior: usize, next: usize) -> usize {
        match *self {
            Flag::Off | Flag::Validating { .. } => next,

            // RFC 9959, 3.3: no growth.
            Flag::Unvalidated { .. } => next.min(prior),

            // RFC 9959, 3.5: at most half of the pipe size, and no growth.
            Flag::Retreat { window } => next.min(prior).min(window),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);
    const GAINS: Gains = Gains {
        pacing: 2.8,
        window: 2.0,
    };

    fn rate(bytes_per_rtt: usize) -> Bandwidth {
        Bandwidth::from_bytes_and_time_delta(bytes_per_rtt, RTT)
    }

    fn bytes_per_rtt(flag: Flag, nominal: usize, cwnd: usize) -> u64 {
        let rate = flag.pacing_rate(rate(nominal), cwnd, RTT, GAINS);
        (rate.to_bytes_per_period(RTT) as f64 / 100.0).round() as u64 * 100
    }

    const UNVALIDATED: usize = 100_000;

    fn flags() -> [Flag; 4] {
        let probing_rate = rate(UNVALIDATED);
        [
            Flag::Off,
            Flag::Unvalidated { probing_rate },
            Flag::Validating { probing_rate },
            Flag::Retreat { window: 30_000 },
        ]
    }

    /// F10 and C4.
    #[test]
    fn first_round_is_paced_by_the_probing_rate_alone() {
        let [off, unvalidated, _, retreat] = flags();
        assert_eq!(bytes_per_rtt(unvalidated, 20_000, 100_000), 100_000);
        assert_eq!(bytes_per_rtt(off, 20_000, 100_000), 20_000);
        assert_eq!(bytes_per_rtt(retreat, 20_000, 100_000), 20_000);
    }

    /// F10: the larger of the nominal and the probing rate.
    #[test]
    fn second_round_is_paced_by_the_larger_rate() {
        let [.., validating, _] = flags();
        for (nominal, cwnd, expected) in [
            (20_000, 20_000, 100_000),
            (20_000, 100_000, 140_000),
            (20_000, 200_000, 280_000),
            (300_000, 200_000, 300_000),
        ] {
            assert_eq!(bytes_per_rtt(validating, nominal, cwnd), expected);
        }
    }

    /// F10: the window of the second round comes from the same rate.
    #[test]
    fn second_round_grows_to_twice_the_jump() {
        let grown =
            flags().map(|flag| flag.target_window(50_000, RTT, 2.0) / 1000);
        assert_eq!(grown, [50, 50, 200, 50]);
        let [.., validating, _] = flags();
        assert_eq!(validating.target_window(250_000, RTT, 2.0), 250_000);
    }

    /// C6, E2 and E3.
    #[test]
    fn window_grows_neither_in_the_first_round_nor_in_retreat() {
        let windows = |prior, next| flags().map(|flag| flag.window(prior, next));
        assert_eq!(windows(40_000, 50_000), [50_000, 40_000, 50_000, 30_000]);
        assert_eq!(windows(20_000, 50_000), [50_000, 20_000, 50_000, 20_000]);
        assert_eq!(windows(40_000, 25_000), [25_000, 25_000, 25_000, 25_000]);
    }

    /// F9.
    #[test]
    fn samples_are_discarded_in_retreat_alone() {
        let discards = flags().map(|flag| flag.discards_samples());
        assert_eq!(discards, [false, false, false, true]);
        assert_eq!(flags().map(|flag| flag.holds_drain()), discards);
    }

    #[test]
    fn startup_goes_on_for_two_rounds() {
        let holds = flags().map(|flag| flag.holds_startup());
        assert_eq!(holds, [false, true, true, false]);
    }
}
