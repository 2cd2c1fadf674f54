//! Properties of links that change over time, or delay at random.

use crate::histories::arrivals;
use crate::histories::changes;
use crate::histories::configs;
use crate::histories::run;
use crate::histories::sent;
use crate::histories::verdicts;
use crate::histories::Sent;
use link::Change;
use link::DropReason;
use link::LinkConfig;
use link::Verdict;
use proptest::prelude::*;
use std::time::Duration;

/// Returns the capacity of the link between two times, in bits / 1e9.
fn capacity(config: &LinkConfig, from: Duration, to: Duration) -> u128 {
    let ns_within =
        |since: Duration, until: Duration| until.min(to).saturating_sub(since.max(from)).as_nanos();
    let mut carried = 0;
    let (mut since, mut rate) = (Duration::ZERO, config.rate);
    for change in &config.changes {
        carried += ns_within(since, change.at) * u128::from(rate.bits_per_s());
        (since, rate) = (change.at, change.rate.unwrap_or(rate));
    }
    carried + ns_within(since, Duration::MAX) * u128::from(rate.bits_per_s())
}

fn rate_only(changes: Vec<Change>) -> Vec<Change> {
    changes.into_iter().map(|change| Change { delay: None, ..change }).collect()
}

fn delivery(verdict: &Verdict) -> Option<Duration> {
    match verdict {
        Verdict::Delivered { at, .. } => Some(*at),
        Verdict::Dropped(_) => None,
    }
}

fn jitters() -> impl Strategy<Value = Duration> {
    prop_oneof![0..200_000_u64, 0..50_000_000_u64].prop_map(Duration::from_nanos)
}

proptest! {
    /// Since a busy period began, a packet has left when the integral of the
    /// rate reaches all bits up to its last, and not a nanosecond later.
    #[test]
    fn busy_link_carries_the_integral_of_its_rate(
        config in configs(), changes in changes(), arrivals in arrivals(),
    ) {
        let config = LinkConfig { changes: rate_only(changes), ..config };
        let (mut since, mut bytes, mut free_at) = (Duration::ZERO, 0, Duration::ZERO);
        for Sent { came, size_bytes, left, .. } in sent(&config, &arrivals) {
            if came >= free_at {
                (since, bytes) = (came, 0);
            }
            bytes += u64::from(size_bytes);
            let needed = u128::from(bytes) * 8 * 1_000_000_000;
            prop_assert!(capacity(&config, since, left) >= needed);
            prop_assert!(capacity(&config, since, left - Duration::from_nanos(1)) < needed);
            free_at = left;
        }
    }

    /// The delay is that at the time when the last bit leaves; a packet that
    /// would overtake arrives with the one in front of it.
    #[test]
    fn delay_applies_to_packets_that_leave_later(
        config in configs(), changes in changes(), arrivals in arrivals(),
    ) {
        let config = LinkConfig { changes, ..config };
        let delay_at = |time: Duration| {
            let past = config.changes.iter().filter(|change| change.at <= time);
            past.filter_map(|change| change.delay).next_back().unwrap_or(config.delay)
        };
        // The same link without delay shows when each packet leaves.
        let undelayed = LinkConfig {
            delay: Duration::ZERO, changes: rate_only(config.changes.clone()), ..config.clone()
        };
        let left = verdicts(&undelayed, &arrivals);
        let mut last = Duration::ZERO;
        for (verdict, left) in verdicts(&config, &arrivals).iter().zip(&left) {
            let expected = delivery(left).map(|left| last.max(left + delay_at(left)));
            prop_assert_eq!(delivery(verdict), expected);
            last = expected.unwrap_or(last);
        }
    }

    /// A loss holds for what comes from then on, and the draws are the same.
    #[test]
    fn loss_applies_to_packets_that_arrive_later(
        config in configs(), loss in 0.0..1.0_f64, at in 0..300_usize, arrivals in arrivals(),
    ) {
        let config = LinkConfig { buffer_bytes: u64::MAX, ..config };
        let before = run(&config, &arrivals);
        let Some(at) = before.get(at).map(|passage| passage.now) else { return Ok(()) };
        let change = Change { at, loss: Some(loss), ..Change::default() };
        let after = verdicts(&LinkConfig { loss, ..config.clone() }, &arrivals);
        let changing = verdicts(&LinkConfig { changes: vec![change], ..config }, &arrivals);
        let lost = |verdict| verdict == Verdict::Dropped(DropReason::Random);
        for ((passage, after), changing) in before.iter().zip(after).zip(changing) {
            let expected = if passage.now < at { passage.verdict } else { after };
            prop_assert_eq!(lost(changing), lost(expected));
        }
    }

    #[test]
    fn changes_to_the_same_values_have_no_effect(
        config in configs(), changes in changes(), arrivals in arrivals(),
    ) {
        let (rate, delay, loss) = (config.rate, config.delay, config.loss);
        let same = |change: Change| Change {
            rate: change.rate.map(|_| rate),
            delay: change.delay.map(|_| delay),
            loss: change.loss.map(|_| loss),
            ..change
        };
        let changes = changes.into_iter().map(same).collect();
        let unchanged = verdicts(&config, &arrivals);
        prop_assert_eq!(verdicts(&LinkConfig { changes, ..config }, &arrivals), unchanged);
    }

    /// A packet waits for less than the time between two grants, arrives at one, and nothing else
    /// changes: neither the order, nor what is dropped.
    #[test]
    fn aggregation_delays_until_the_next_grant_in_order(
        config in configs(), changes in changes(), period in jitters(), arrivals in arrivals(),
    ) {
        let steady = LinkConfig { delay: Duration::ZERO, changes: rate_only(changes), ..config };
        let aggregation = period + Duration::from_nanos(1);
        let bunched = LinkConfig { aggregation, ..steady.clone() };
        let (mut last, mut phase) = (Duration::ZERO, None);
        for (without, with) in verdicts(&steady, &arrivals).iter().zip(verdicts(&bunched, &arrivals)) {
            match (delivery(without), delivery(&with)) {
                (Some(without), Some(with)) => {
                    prop_assert!((without..without + aggregation).contains(&with) && with >= last);
                    let of_grant = with.as_nanos() % aggregation.as_nanos();
                    prop_assert_eq!(*phase.get_or_insert(of_grant), of_grant);
                    last = with;
                }
                _ => prop_assert_eq!(*without, with),
            }
        }
    }

    /// Jitter delays by no more than its maximum, keeps the order, and changes
    /// nothing else.
    #[test]
    fn jitter_delays_up_to_its_maximum_in_order(
        config in configs(), changes in changes(), jitter in jitters(), arrivals in arrivals(),
    ) {
        let steady = LinkConfig { changes, ..config };
        let jittery = LinkConfig { jitter, ..steady.clone() };
        let mut last = Duration::ZERO;
        for (without, with) in verdicts(&steady, &arrivals).iter().zip(verdicts(&jittery, &arrivals)) {
            match (delivery(without), delivery(&with)) {
                (Some(without), Some(with)) => {
                    prop_assert!((without..=without + jitter).contains(&with));
                    prop_assert!(with >= last);
                    last = with;
                }
                _ => prop_assert_eq!(*without, with),
            }
        }
    }
}
