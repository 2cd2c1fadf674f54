//! Properties of a link with two queues.

use crate::histories::arrivals;
use crate::histories::changes;
use crate::histories::configs;
use crate::histories::verdicts;
use crate::histories::Arrival;
use link::Dequeued;
use link::DropReason;
use link::DualQueueLink;
use link::Ecn;
use link::LinkConfig;
use link::Packet;
use link::Verdict;
use proptest::prelude::*;
use std::time::Duration;

/// Fate of one packet.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Transit {
    came: Duration,
    size_bytes: u32,
    ecn: Ecn,
    verdict: Verdict,
    /// None: it never was in a queue.
    waited: Option<Duration>,
}

impl Transit {
    /// Returns when its transmission began.
    fn began(&self) -> Option<Duration> {
        let is_sent = matches!(self.verdict, Verdict::Delivered { .. });
        self.waited.filter(|_| is_sent).map(|waited| self.came + waited)
    }

    fn is_l4s(&self) -> bool {
        matches!(self.ecn, Ecn::Ect1 | Ecn::Ce)
    }
}

/// Returns the fates of the packets, in the order in which they came, and the order in which
/// they left.
fn run(config: &LinkConfig, arrivals: &[Arrival]) -> (Vec<Transit>, Vec<usize>) {
    let mut link = DualQueueLink::new(config.clone()).unwrap();
    let mut passages: Vec<Transit> = Vec::new();
    let mut order = Vec::new();
    let mut leave = |passages: &mut Vec<Transit>, dequeued: Dequeued<usize>| {
        let passage = &mut passages[dequeued.value];
        assert_eq!(passage.waited, None, "a packet leaves twice");
        (passage.verdict, passage.waited) = (dequeued.verdict, Some(dequeued.waited));
        order.push(dequeued.value);
    };
    let mut now = Duration::ZERO;
    for (index, arrival) in arrivals.iter().enumerate() {
        now += arrival.gap;
        while let Some(dequeued) = link.take(now) {
            leave(&mut passages, dequeued);
        }
        let Arrival { size_bytes, ecn, .. } = *arrival;
        let verdict = Verdict::Dropped(DropReason::Buffer);
        passages.push(Transit { came: now, size_bytes, ecn, verdict, waited: None });
        let packet = Packet { size_bytes, number: index as u64 + 1, ecn };
        if let Err((index, reason)) = link.offer(now, packet, index) {
            passages[index].verdict = Verdict::Dropped(reason);
        }
        assert!(link.backlog().bytes <= config.buffer_bytes + u64::from(size_bytes));
    }
    while let Some(dequeued) = link.take(Duration::MAX) {
        leave(&mut passages, dequeued);
    }
    assert_eq!(link.next_due(), None);
    assert_eq!((link.backlog().packets, link.backlog().bytes), (0, 0));
    assert_eq!(link.stats().offered_packets, arrivals.len() as u64);
    (passages, order)
}

fn recoded(arrivals: &[Arrival], ecn: Ecn) -> Vec<Arrival> {
    arrivals.iter().map(|arrival| Arrival { ecn, ..*arrival }).collect()
}

proptest! {
    /// Every packet has one fate, and those of a queue leave in the order in which they came.
    #[test]
    fn dual_queue_keeps_all_packets_and_the_order_of_each_queue(
        config in configs(), changes in changes(), arrivals in arrivals(),
    ) {
        let config = LinkConfig { changes, ..config };
        let (passages, order) = run(&config, &arrivals);
        for is_l4s in [false, true] {
            let of_queue = order.iter().filter(|index| passages[**index].is_l4s() == is_l4s);
            prop_assert!(of_queue.is_sorted());
        }
        let queued = passages.iter().filter(|passage| passage.waited.is_some()).count();
        prop_assert_eq!(queued, order.len());
        for Transit { verdict, waited, .. } in passages {
            let by_queue = matches!(
                verdict,
                Verdict::Delivered { .. } | Verdict::Dropped(DropReason::Pi2)
            );
            prop_assert_eq!(by_queue, waited.is_some());
        }
    }

    /// The link is never idle while a packet waits, and sends one at a time at its rate.
    #[test]
    fn dual_queue_is_busy_while_packets_wait(config in configs(), arrivals in arrivals()) {
        let config = LinkConfig { delay: Duration::ZERO, ..config };
        let (passages, order) = run(&config, &arrivals);
        let mut free_at = Duration::ZERO;
        for passage in order.iter().map(|index| &passages[*index]) {
            let left_queue = passage.came + passage.waited.unwrap();
            prop_assert_eq!(left_queue, free_at.max(passage.came));
            if let Verdict::Delivered { at, .. } = passage.verdict {
                let bits = u128::from(passage.size_bytes) * 8 * 1_000_000_000;
                let ns = bits / u128::from(config.rate.bits_per_s());
                let took_ns = (at - passage.began().unwrap()).as_nanos();
                // The fraction of a nanosecond that is left over starts the next packet.
                prop_assert!((ns.saturating_sub(1)..=ns + 1).contains(&took_ns), "{took_ns} {ns}");
                free_at = at;
            }
        }
    }

    /// Only packets that can be marked arrive as CE, and others keep their codepoint.
    #[test]
    fn dual_queue_marks_capable_packets_alone(config in configs(), arrivals in arrivals()) {
        for Transit { ecn, verdict, .. } in run(&config, &arrivals).0 {
            if let Verdict::Delivered { ecn: left_with, .. } = verdict {
                prop_assert!(left_with == ecn || (left_with == Ecn::Ce && ecn.is_capable()));
            }
        }
    }

    /// With packets for one queue that stays short, it delivers like a link with one queue.
    #[test]
    fn short_queue_of_one_kind_delivers_like_drop_tail(
        config in configs(), arrivals in arrivals(), is_l4s in any::<bool>(),
    ) {
        // 10 ms: below the target, so that p' stays far below the overload.
        let buffer_bytes = config.rate.bits_per_s() / 800;
        let config = LinkConfig { buffer_bytes, ..config };
        let arrivals = recoded(&arrivals, if is_l4s { Ecn::Ect1 } else { Ecn::Ect0 });
        let without_ecn = |verdict| match verdict {
            Verdict::Delivered { at, .. } => Verdict::Delivered { at, ecn: Ecn::NotEct },
            dropped => dropped,
        };
        let (dual, _) = run(&config, &arrivals);
        for (passage, single) in dual.iter().zip(verdicts(&config, &arrivals)) {
            prop_assert_eq!(without_ecn(passage.verdict), without_ecn(single));
        }
    }

    /// The same seed has the same fates.
    #[test]
    fn fates_in_a_dual_queue_follow_from_the_seed(config in configs(), arrivals in arrivals()) {
        prop_assert_eq!(run(&config, &arrivals), run(&config, &arrivals));
    }
}
