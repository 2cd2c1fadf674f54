//! Codepoints of the packets that pass.

use crate::histories::arrivals;
use crate::histories::changes;
use crate::histories::configs;
use crate::histories::sent;
use crate::histories::verdicts;
use crate::histories::Arrival;
use crate::histories::Sent;
use link::DropReason;
use link::Ecn;
use link::EcnHandling;
use link::LinkConfig;
use link::PacketNumbers;
use link::Queue;
use link::Verdict;
use proptest::prelude::*;
use std::time::Duration;

fn ecn(verdict: &Verdict) -> Option<Ecn> {
    match verdict {
        Verdict::Delivered { ecn, .. } => Some(*ecn),
        Verdict::Dropped(_) => None,
    }
}

/// Returns the verdicts as if no packet had a codepoint.
fn without_ecn(verdicts: &[Verdict]) -> Vec<Verdict> {
    let plain = verdicts.iter().map(|verdict| match *verdict {
        Verdict::Delivered { at, .. } => Verdict::Delivered { at, ecn: Ecn::NotEct },
        dropped => dropped,
    });
    plain.collect()
}

/// Returns the same packets with other codepoints.
fn recoded(arrivals: &[Arrival], code: impl Fn(Ecn) -> Ecn) -> Vec<Arrival> {
    arrivals.iter().map(|arrival| Arrival { ecn: code(arrival.ecn), ..*arrival }).collect()
}

fn queues() -> impl Strategy<Value = Queue> {
    let step = thresholds().prop_map(|mark_above| Queue::Step { mark_above });
    prop_oneof![Just(Queue::DropTail), Just(Queue::CoDel), step]
}

fn thresholds() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(0), 0..1_000_000_u64, 0..100_000_000_u64].prop_map(Duration::from_nanos)
}

proptest! {
    #[test]
    fn drop_tail_queue_leaves_codepoints_alone(
        config in configs(), changes in changes(), arrivals in arrivals(),
    ) {
        let config = LinkConfig { changes, ..config };
        let passed = verdicts(&config, &arrivals);
        for (arrival, verdict) in arrivals.iter().zip(&passed) {
            prop_assert!(ecn(verdict).is_none_or(|left_with| left_with == arrival.ecn));
        }
        let plain = verdicts(&config, &recoded(&arrivals, |_| Ecn::NotEct));
        prop_assert_eq!(without_ecn(&passed), plain);
    }

    /// The time that a packet waits is known from when the one in front has left.
    #[test]
    fn step_marks_capable_packets_that_waited_for_longer(
        config in configs(), mark_above in thresholds(), arrivals in arrivals(),
    ) {
        let config = LinkConfig { queue: Queue::Step { mark_above }, ..config };
        let mut free_at = Duration::ZERO;
        for Sent { came, left, ecn, left_with, .. } in sent(&config, &arrivals) {
            let marked = ecn != Ecn::NotEct && free_at.saturating_sub(came) > mark_above;
            prop_assert_eq!(left_with, if marked { Ecn::Ce } else { ecn });
            free_at = left;
        }
    }

    #[test]
    fn step_delays_and_drops_like_drop_tail(
        config in configs(), mark_above in thresholds(), changes in changes(), arrivals in arrivals(),
    ) {
        let drop_tail = LinkConfig { changes, ..config };
        let step = LinkConfig { queue: Queue::Step { mark_above }, ..drop_tail.clone() };
        let by_step = without_ecn(&verdicts(&step, &arrivals));
        prop_assert_eq!(by_step, without_ecn(&verdicts(&drop_tail, &arrivals)));
    }

    /// A path that bleaches or re-marks treats packets as if they had been sent like that.
    #[test]
    fn changed_codepoint_is_the_one_that_the_queue_sees(
        config in configs(), queue in queues(), arrivals in arrivals(),
    ) {
        let clean = LinkConfig { queue, ..config };
        let ect1 = |ecn| if ecn == Ecn::Ect0 { Ecn::Ect1 } else { ecn };
        let cases: [(EcnHandling, &dyn Fn(Ecn) -> Ecn); 3] = [
            (EcnHandling::Bleach, &|_| Ecn::NotEct),
            (EcnHandling::RemarkEct1, &ect1),
            (EcnHandling::RemarkCe, &|_| Ecn::Ce),
        ];
        for (ecn, code) in cases {
            let faulty = LinkConfig { ecn, ..clean.clone() };
            let as_sent = verdicts(&clean, &recoded(&arrivals, code));
            prop_assert_eq!(verdicts(&faulty, &arrivals), as_sent);
        }
    }

    /// A black hole takes the packets with ECN, which take no time on the link, and no others.
    #[test]
    fn black_hole_takes_the_packets_with_ecn(
        config in configs(), queue in queues(), arrivals in arrivals(),
    ) {
        let clean = LinkConfig { queue, ..config };
        let mut named_loss = PacketNumbers::default();
        for (arrival, number) in arrivals.iter().zip(1..) {
            if arrival.ecn != Ecn::NotEct {
                named_loss.merge(&PacketNumbers::from(number..=number));
            }
        }
        let faulty = LinkConfig { ecn: EcnHandling::BlackHole, ..clean.clone() };
        let by_name = verdicts(&LinkConfig { named_loss, ..clean }, &arrivals);
        for ((arrival, verdict), by_name) in
            arrivals.iter().zip(verdicts(&faulty, &arrivals)).zip(by_name)
        {
            let lost = Verdict::Dropped(DropReason::Ecn);
            let expected = if arrival.ecn == Ecn::NotEct { by_name } else { lost };
            prop_assert_eq!(verdict, expected);
        }
    }
}
