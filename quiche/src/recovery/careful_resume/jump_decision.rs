//! Decision to jump, and the jump's size (RFC 9959, 3.2 and 3.3).

use std::time::Duration;
use std::time::Instant;

use super::reconnaissance::Saved;
use super::CarefulResumeConfig;
use super::Trigger;
use crate::path_state::PathState;

/// The lower bound of RFC 9959, 3.2: half the saved RTT or less is another
/// path's.
const MIN_RTT_DIVISOR: u32 = 2;

/// The upper bound of RFC 9959, 4.2.1, enforced like the lower one.
const MAX_RTT_FACTOR: u32 = 10;

/// An RTT that is longer than the saved one by less than this part is the same.
const QUEUE_DIVISOR: u128 = 32;

/// An RTT that is longer than the saved one by this factor is no queue.
const LONGER_FACTOR: u32 = 2;

/// The part of a jump that remains however long the RTT: the path itself may
/// have become longer.
const FREE_DIVISOR: u128 = 4;

/// The parts of saved_cwnd that are jumped to: RFC 9959, 3.3, and an early jump.
const DIVISOR: u64 = 2;
const EARLY_DIVISOR: u64 = 4;

/// An early jump knows the RTT from less: it is below the saved one times this.
const EARLY_RTT_FACTOR: u32 = 2;

/// Returns jump_cwnd in bytes, or why the connection may not jump.
pub(super) fn jump_cwnd(
    config: &CarefulResumeConfig, saved: &Saved, min_rtt: Duration, cwnd: usize,
    now: Instant,
) -> Result<usize, Trigger> {
    part_of_saved(DIVISOR, config, saved, min_rtt, cwnd, now)
}

/// Returns jump_cwnd in bytes of a jump that only the handshake's ACKs precede.
/// Without one, the initial window's ACKs decide.
pub(super) fn early_jump_cwnd(
    config: &CarefulResumeConfig, saved: &Saved, min_rtt: Duration, cwnd: usize,
    now: Instant,
) -> Option<usize> {
    let is_longer = min_rtt >= saved.state.saved_rtt * EARLY_RTT_FACTOR;

    match config.early_jump && !is_longer {
        true => {
            part_of_saved(EARLY_DIVISOR, config, saved, min_rtt, cwnd, now).ok()
        },
        false => None,
    }
}

fn part_of_saved(
    divisor: u64, config: &CarefulResumeConfig, saved: &Saved, min_rtt: Duration,
    cwnd: usize, now: Instant,
) -> Result<usize, Trigger> {
    // RFC 9959, 3.2: not after the Lifetime.
    if now >= saved.expires {
        return Err(Trigger::LifetimePassed);
    }

    // RFC 9959, 3.2: not if another connection may use the parameters.
    if now >= saved.jump_before {
        return Err(Trigger::ClaimLapsed);
    }

    if !rtt_is_plausible(min_rtt, saved.state.saved_rtt) {
        return Err(Trigger::RttNotValidated);
    }

    let part = saved.state.saved_cwnd / divisor;
    let free = beside_queue(part, min_rtt, saved.state.saved_rtt);
    let jump_cwnd = free.min(config.max_jump);

    if jump_cwnd <= cwnd {
        return Err(Trigger::JumpNotLarger);
    }

    Ok(jump_cwnd)
}

/// RFC 9959, 3.2 and 4.2.1: above half the saved RTT, at most ten times it.
pub(super) fn rtt_is_plausible(min_rtt: Duration, saved_rtt: Duration) -> bool {
    min_rtt * MIN_RTT_DIVISOR > saved_rtt && min_rtt <= saved_rtt * MAX_RTT_FACTOR
}

/// Returns what remains of a saved window, in bytes, beside the queue that
/// others may have made: an RTT that exceeds the saved one by a part takes this
/// part of the window away. RFC 9959 does not ask for it.
pub(super) fn beside_queue(
    window: u64, min_rtt: Duration, saved_rtt: Duration,
) -> usize {
    let saved = saved_rtt.as_nanos().max(1);
    let longer = min_rtt.as_nanos().saturating_sub(saved);
    let queue = if longer < saved / QUEUE_DIVISOR {
        0
    } else {
        longer
    };
    let free = saved.saturating_sub(queue).max(saved / FREE_DIVISOR);

    usize::try_from(u128::from(window) * free / saved).unwrap_or(usize::MAX)
}

/// Whether the path itself has become longer: other flows rarely queue for more
/// than an RTT.
pub(super) fn is_longer(saved: &PathState, min_rtt: Duration) -> bool {
    min_rtt >= saved.saved_rtt * LONGER_FACTOR
}

/// Whether the path limited what was saved. If something else did, such as
/// max_jump, the path may carry more.
pub(super) fn is_path_limited(
    config: &CarefulResumeConfig, saved: &PathState,
) -> bool {
    let saved_cwnd = usize::try_from(saved.saved_cwnd).unwrap_or(usize::MAX);
    !saved.limited && saved_cwnd / 2 < config.max_jump
}

/// Returns where slow start ends after the jump: at the saved capacity, in
/// bytes. None if the path may carry more.
pub(super) fn ceiling(
    config: &CarefulResumeConfig, saved: &PathState,
) -> Option<usize> {
    let saved_cwnd = usize::try_from(saved.saved_cwnd).unwrap_or(usize::MAX);
    is_path_limited(config, saved).then_some(saved_cwnd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    fn admit(
        saved_cwnd: u64, saved_rtt_us: u64, min_rtt_us: u64, age_ms: u64,
    ) -> Result<usize, Trigger> {
        let start = crate::clock::now();
        let config = CarefulResumeConfig {
            max_jump: 1_000_000,
            ..Default::default()
        };
        let saved = Saved {
            state: PathState {
                saved_cwnd,
                saved_rtt: Duration::from_micros(saved_rtt_us),
                observed: SystemTime::UNIX_EPOCH,
                expires: SystemTime::UNIX_EPOCH,
                limited: false,
                validated: false,
            },
            jump_before: start + Duration::from_millis(500),
            expires: start + Duration::from_millis(700),
        };

        jump_cwnd(
            &config,
            &saved,
            Duration::from_micros(min_rtt_us),
            13_500,
            start + Duration::from_millis(age_ms),
        )
    }

    /// Vector 1: B6 and B7.
    #[test]
    fn jump_needs_rtt_above_half_and_up_to_ten_times() {
        for (min_rtt_us, admitted) in [
            (24_999, false),
            (25_000, false),
            (25_001, true),
            (50_000, true),
            (500_000, true),
            (500_001, false),
        ] {
            let jump = admit(300_000, 50_000, min_rtt_us, 0);
            assert_eq!(jump.is_ok(), admitted, "{min_rtt_us}");
            if !admitted {
                assert_eq!(jump, Err(Trigger::RttNotValidated));
            }
        }
    }

    #[test]
    fn jump_is_reduced_by_the_queue_of_a_longer_rtt() {
        for (min_rtt_us, expected) in [
            (99_999, 500_000),
            (100_000, 500_000),
            (103_124, 500_000),
            (103_125, 484_375),
            (110_000, 450_000),
            (150_000, 250_000),
            (175_000, 125_000),
            (200_000, 125_000),
            (1_000_000, 125_000),
        ] {
            let jump = admit(1_000_000, 100_000, min_rtt_us, 0);
            assert_eq!(jump, Ok(expected), "{min_rtt_us}");
        }
    }

    /// C2: half of saved_cwnd, and max_jump.
    #[test]
    fn jump_is_at_most_half_saved_cwnd_and_max_jump() {
        for (saved_cwnd, expected) in [
            (300_001, Ok(150_000)),
            (2_000_000, Ok(1_000_000)),
            (u64::MAX, Ok(1_000_000)),
            (27_000, Err(Trigger::JumpNotLarger)),
            (27_002, Ok(13_501)),
        ] {
            assert_eq!(admit(saved_cwnd, 50_000, 50_000, 0), expected);
        }
    }

    /// Only parameters that the path limited tell how much it carries.
    #[test]
    fn ceiling_is_saved_cwnd_if_the_path_limited_it() {
        let config = CarefulResumeConfig {
            max_jump: 1_000_000,
            ..Default::default()
        };
        let table = [
            (300_001, false, Some(300_001)),
            (1_999_999, false, Some(1_999_999)),
            // A larger one is saved as this much.
            (2_000_000, false, None),
            (300_001, true, None),
        ];

        for (saved_cwnd, limited, expected) in table {
            let saved = PathState {
                saved_cwnd,
                saved_rtt: Duration::from_millis(50),
                observed: SystemTime::UNIX_EPOCH,
                expires: SystemTime::UNIX_EPOCH,
                limited,
                validated: false,
            };
            assert_eq!(ceiling(&config, &saved), expected);
        }
    }

    /// B3 and B5.
    #[test]
    fn lapsed_claim_or_lifetime_refuses_the_jump() {
        for (age_ms, expected) in [
            (499, Ok(150_000)),
            (500, Err(Trigger::ClaimLapsed)),
            (699, Err(Trigger::ClaimLapsed)),
            (700, Err(Trigger::LifetimePassed)),
        ] {
            assert_eq!(admit(300_000, 50_000, 50_000, age_ms), expected);
        }
    }
}
