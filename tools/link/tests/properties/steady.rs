//! Properties of links that do not change.

use crate::histories::arrivals;
use crate::histories::configs;
use crate::histories::run;
use crate::histories::sent;
use crate::histories::verdicts;
use crate::histories::Sent;
use link::LinkConfig;
use link::Rate;
use link::Verdict;
use proptest::prelude::*;
use std::time::Duration;

fn bits_ns(bytes: u64, rate: Rate) -> u128 {
    u128::from(bytes) * 8 * 1_000_000_000 / u128::from(rate.bits_per_s())
}

proptest! {
    #[test]
    fn packets_leave_in_order(config in configs(), arrivals in arrivals()) {
        let sent = sent(&config, &arrivals);
        prop_assert!(sent.windows(2).all(|pair| pair[0].left < pair[1].left));
    }

    #[test]
    fn packet_takes_at_least_transmission_and_delay(
        config in configs(), arrivals in arrivals(),
    ) {
        for Sent { came, size_bytes, left, .. } in sent(&config, &arrivals) {
            prop_assert!((left - came).as_nanos() >= bits_ns(size_bytes.into(), config.rate));
        }
    }

    /// Within any busy period the link carries its rate, to the nanosecond.
    #[test]
    fn busy_link_carries_exactly_its_rate(config in configs(), arrivals in arrivals()) {
        let mut busy: Option<(Duration, u64)> = None;
        let mut free_at = Duration::ZERO;
        for Sent { came, size_bytes, left, .. } in sent(&config, &arrivals) {
            let (since, bytes) = match busy {
                Some((since, bytes)) if free_at > came => (since, bytes + u64::from(size_bytes)),
                _ => (came, u64::from(size_bytes)),
            };
            let took_ns = (left - since).as_nanos();
            let exact_ns = bits_ns(bytes, config.rate);
            prop_assert!(took_ns == exact_ns || took_ns == exact_ns + 1, "{took_ns} {exact_ns}");
            busy = Some((since, bytes));
            free_at = left;
        }
    }

    #[test]
    fn buffer_takes_exactly_what_fits(
        config in configs(), arrivals in arrivals(),
    ) {
        let config = LinkConfig { loss: 0.0, mtu_bytes: 2_000, ..config };
        for passage in run(&config, &arrivals) {
            prop_assert!(passage.backlog_after_bytes <= config.buffer_bytes);
            let needed_bytes = passage.backlog_before_bytes + u64::from(passage.size_bytes);
            if needed_bytes <= config.buffer_bytes {
                let delivered = matches!(passage.verdict, Verdict::Delivered { .. });
                prop_assert!(delivered, "dropped although it fits");
            }
        }
    }

    #[test]
    fn same_seed_and_arrivals_give_the_same_history(config in configs(), arrivals in arrivals()) {
        prop_assert_eq!(verdicts(&config, &arrivals), verdicts(&config, &arrivals));
    }

    /// A simulator may start its clock anywhere.
    #[test]
    fn link_depends_on_time_differences_alone(
        config in configs(), arrivals in arrivals(), shift_ns in 0..u64::from(u32::MAX),
    ) {
        let shift = Duration::from_nanos(shift_ns);
        let mut shifted = arrivals.clone();
        shifted[0].gap += shift;
        for (one, other) in run(&config, &arrivals).iter().zip(run(&config, &shifted)) {
            match (one.verdict, other.verdict) {
                (Verdict::Delivered { at, .. }, Verdict::Delivered { at: later, .. }) => {
                    prop_assert_eq!(at + shift, later);
                }
                (one, other) => prop_assert_eq!(one, other),
            }
        }
    }
}
