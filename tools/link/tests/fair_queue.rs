//! Link with a queue for each flow, by example.

use link::Dequeued;
use link::DropReason;
use link::Ecn;
use link::FairQueueLink;
use link::LinkConfig;
use link::Packet;
use link::Rate;
use link::Verdict;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// 8 Mbit/s: 1,000 bytes take 1 ms.
fn link<T>(buffer_bytes: u64) -> FairQueueLink<T> {
    let rate = Rate::from_bits_per_s(8_000_000).unwrap();
    let mut config = LinkConfig::new(rate, Duration::ZERO, buffer_bytes);
    config.mtu_bytes = 1_000;
    FairQueueLink::new(config).unwrap()
}

fn packet(ecn: Ecn) -> Packet {
    Packet { size_bytes: 1_000, number: 1, ecn }
}

/// Offers to each flow `loads` times the rate, evenly, for `seconds`. Returns what left, with the flow.
fn left(loads: &[f64], ecn: Ecn, seconds: u32) -> Vec<Dequeued<usize>> {
    let mut link = link(10_000_000);
    let mut left = Vec::new();
    let mut sent = vec![0.0; loads.len()];
    for ms in 0..seconds * 1_000 {
        let now = ms * MS;
        left.extend(std::iter::from_fn(|| link.take(now)));
        for (flow, load) in loads.iter().enumerate() {
            while sent[flow] < f64::from(ms) * load {
                sent[flow] += 1.0;
                link.offer(now, packet(ecn), flow, flow).unwrap();
            }
        }
    }
    left
}

fn delivered(left: &[Dequeued<usize>], flow: usize) -> Vec<Duration> {
    let of_flow = left.iter().filter(|dequeued| dequeued.value == flow);
    let delivered = of_flow.filter(|d| matches!(d.verdict, Verdict::Delivered { .. }));
    delivered.map(|dequeued| dequeued.waited).collect()
}

#[test]
fn flow_that_begins_leaves_before_the_queue_of_another() {
    let mut link = link(100_000);
    for _ in 0..20 {
        link.offer(Duration::ZERO, packet(Ecn::NotEct), 1, "bulk").unwrap();
    }
    assert_eq!(link.take(Duration::ZERO).map(|d| d.value), Some("bulk"));
    link.offer(MS / 2, packet(Ecn::NotEct), 2, "sparse").unwrap();
    assert_eq!(link.next_due(), Some(MS));
    let names: Vec<_> = std::iter::from_fn(|| link.take(2 * MS)).map(|d| d.value).collect();
    assert_eq!(names, ["sparse", "bulk"]);
}

#[test]
fn flows_share_the_rate_evenly_whatever_they_offer() {
    let left = left(&[0.7, 3.0], Ecn::NotEct, 20);
    let [modest, greedy] = [0, 1].map(|flow| delivered(&left, flow).len() as f64);
    assert!((modest / greedy - 1.0).abs() < 0.03, "{modest} {greedy}");
}

#[test]
fn flow_below_its_share_does_not_wait_for_the_others() {
    let left = left(&[0.3, 3.0], Ecn::NotEct, 20);
    let waits = delivered(&left, 0);
    assert!(waits.len() as f64 > 0.29 * 20_000.0, "{}", waits.len());
    assert!(waits.iter().all(|waited| *waited <= 2 * MS), "{:?}", waits.iter().max());
}

#[test]
fn standing_queue_is_dropped_or_marked_by_codel() {
    for (ecn, marks) in [(Ecn::NotEct, false), (Ecn::Ect0, true)] {
        let left = left(&[1.05], ecn, 5);
        let is = |wanted: fn(&Verdict) -> bool| left.iter().filter(|d| wanted(&d.verdict)).count();
        let dropped = is(|verdict| *verdict == Verdict::Dropped(DropReason::CoDel));
        let marked = is(|verdict| matches!(verdict, Verdict::Delivered { ecn: Ecn::Ce, .. }));
        assert_eq!((dropped > 10, marked > 10), (!marks, marks), "{dropped} {marked}");
    }
}

#[test]
fn full_buffer_drops_from_the_longest_queue() {
    let mut link = link(3_000);
    for (flow, name) in [(1, "a"), (1, "b"), (2, "c"), (1, "d")] {
        link.offer(Duration::ZERO, packet(Ecn::NotEct), flow, name).unwrap();
    }
    let first = link.take(Duration::ZERO).expect("a packet that was dropped");
    assert_eq!((first.value, first.verdict), ("a", Verdict::Dropped(DropReason::Buffer)));
    let rest: Vec<_> = std::iter::from_fn(|| link.take(9 * MS)).map(|d| d.value).collect();
    assert_eq!(rest, ["b", "c", "d"]);
    assert_eq!(link.stats().dropped_buffer_packets, 1);
    assert_eq!((link.backlog().packets, link.backlog().bytes), (0, 0));
}
