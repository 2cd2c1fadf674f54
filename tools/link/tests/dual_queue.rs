//! Link with two queues, by example.

use link::Dequeued;
use link::DropReason;
use link::DualQueueLink;
use link::Ecn;
use link::LinkConfig;
use link::Packet;
use link::Rate;
use link::Verdict;
use std::collections::HashMap;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// 8 Mbit/s: 1,000 bytes take 1 ms.
fn link<T>(buffer_bytes: u64) -> DualQueueLink<T> {
    let rate = Rate::from_bits_per_s(8_000_000).unwrap();
    DualQueueLink::new(LinkConfig::new(rate, Duration::ZERO, buffer_bytes)).unwrap()
}

fn packet(ecn: Ecn) -> Packet {
    Packet { size_bytes: 1_000, number: 1, ecn }
}

#[test]
fn l4s_packet_leaves_before_classic_ones_that_came_earlier() {
    let mut link = link(9_000);
    for (came_ms, ecn, name) in
        [(0, Ecn::NotEct, "a"), (0, Ecn::Ect0, "b"), (0, Ecn::NotEct, "c"), (1, Ecn::Ect1, "d")]
    {
        // The first one is on the wire by then.
        if came_ms == 1 {
            assert_eq!(link.take(came_ms * MS / 2).map(|dequeued| dequeued.value), Some("a"));
        }
        link.offer(came_ms * MS / 2, packet(ecn), name).unwrap();
    }
    assert_eq!((link.backlog().packets, link.backlog().bytes), (3, 3_000));
    assert_eq!(link.next_due(), Some(MS));
    assert_eq!(link.take(MS * 9 / 10), None);
    let left: Vec<_> = std::iter::from_fn(|| link.take(9 * MS)).collect();
    let delivered = |value, at, waited, ecn| Dequeued {
        value,
        verdict: Verdict::Delivered { at, ecn },
        waited,
    };
    let expected = [
        delivered("d", 2 * MS, MS / 2, Ecn::Ect1),
        delivered("b", 3 * MS, 2 * MS, Ecn::Ect0),
        delivered("c", 4 * MS, 3 * MS, Ecn::NotEct),
    ];
    assert_eq!(left, expected);
}

#[test]
fn full_buffer_drops_packets_of_both_kinds() {
    let mut link = link(2_000);
    for (ecn, fits) in
        [(Ecn::NotEct, true), (Ecn::Ect1, true), (Ecn::Ect1, false), (Ecn::Ect0, false)]
    {
        let offered = link.offer(Duration::ZERO, packet(ecn), ());
        assert_eq!(offered.is_ok(), fits);
        assert!(fits || offered == Err(((), DropReason::Buffer)));
    }
    assert_eq!(link.stats().dropped_buffer_packets, 2);
    link.take(Duration::ZERO).unwrap();
    assert_eq!(link.offer(Duration::ZERO, packet(Ecn::Ect0), ()), Ok(()));
}

/// Sends `load` times the rate, half of it ECT(1) and half of it ECT(0), for `seconds`. Returns
/// what leaves the queue after the first second, by codepoint.
fn dequeued(load: f64, seconds: u32) -> HashMap<Ecn, Vec<Dequeued<Ecn>>> {
    let mut link = link(10_000_000);
    let mut left: HashMap<Ecn, Vec<Dequeued<Ecn>>> = HashMap::new();
    for pair in 0..(f64::from(seconds) * 1_000.0 * load / 2.0) as u32 {
        let now = Duration::from_secs_f64(f64::from(pair) * 2.0 / (1_000.0 * load));
        while let Some(dequeued) = link.take(now) {
            if now > Duration::from_secs(1) {
                left.entry(dequeued.value).or_default().push(dequeued);
            }
        }
        for ecn in [Ecn::Ect0, Ecn::Ect1] {
            link.offer(now, packet(ecn), ecn).unwrap();
        }
    }
    left
}

fn share(dequeued: &[Dequeued<Ecn>], is: impl Fn(Verdict) -> bool) -> f64 {
    let count = dequeued.iter().filter(|dequeued| is(dequeued.verdict)).count();
    count as f64 / dequeued.len() as f64
}

#[test]
fn unresponsive_overload_drops_both_kinds_to_the_rate() {
    let left = dequeued(1.5, 60);
    let dropped = |ecn| share(&left[&ecn], |verdict| verdict == Verdict::Dropped(DropReason::Pi2));
    for ecn in [Ecn::Ect0, Ecn::Ect1] {
        assert!((0.31..0.36).contains(&dropped(ecn)), "{}", dropped(ecn));
    }
    // The classic queue waits for the target, and that of L4S for next to nothing.
    let mean_ms = |ecn: Ecn| {
        let waited: Duration = left[&ecn].iter().map(|dequeued| dequeued.waited).sum();
        waited.as_secs_f64() * 1e3 / left[&ecn].len() as f64
    };
    assert!((12.0..18.0).contains(&mean_ms(Ecn::Ect0)), "{}", mean_ms(Ecn::Ect0));
    assert!(mean_ms(Ecn::Ect1) < 2.0, "{}", mean_ms(Ecn::Ect1));
}

#[test]
fn load_below_the_rate_is_neither_marked_nor_dropped() {
    let left = dequeued(0.9, 10);
    for (ecn, dequeued) in left {
        let kept = |verdict| matches!(verdict, Verdict::Delivered { ecn: e, .. } if e == ecn);
        assert_eq!(share(&dequeued, kept), 1.0);
    }
}

/// Both queues have packets all the time: one byte of ten is classic.
#[test]
fn classic_queue_keeps_a_tenth_beside_a_full_l4s_queue() {
    let mut link = link(10_000_000);
    for ecn in [Ecn::Ect0, Ecn::Ect1] {
        for _ in 0..1_000 {
            link.offer(Duration::ZERO, packet(ecn), ecn).unwrap();
        }
    }
    let mut sent: HashMap<Ecn, u32> = HashMap::new();
    while let Some(dequeued) = link.take(900 * MS) {
        if matches!(dequeued.verdict, Verdict::Delivered { .. }) {
            *sent.entry(dequeued.value).or_default() += 1;
        }
    }
    let share = f64::from(sent[&Ecn::Ect0]) / f64::from(sent[&Ecn::Ect0] + sent[&Ecn::Ect1]);
    assert!((0.095..0.105).contains(&share), "{sent:?}");
}
