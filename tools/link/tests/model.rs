//! Model of a link, by example: each test reads as one packet history.

use link::Change;
use link::DropReason;
use link::Ecn;
use link::EcnHandling;
use link::Link;
use link::LinkConfig;
use link::Packet;
use link::PathTrace;
use link::Queue;
use link::Rate;
use link::Verdict;
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// 8 Mbit/s: 1,000 bytes take 1 ms.
fn config(delay: Duration, buffer_bytes: u64) -> LinkConfig {
    LinkConfig::new(Rate::from_bits_per_s(8_000_000).unwrap(), delay, buffer_bytes)
}

fn packet(size_bytes: u32) -> Packet {
    numbered(size_bytes, 1)
}

fn numbered(size_bytes: u32, number: u64) -> Packet {
    Packet { size_bytes, number, ecn: Ecn::NotEct }
}

fn delivered(at: Duration) -> Verdict {
    Verdict::Delivered { at, ecn: Ecn::NotEct }
}

#[test]
fn delay_is_transmission_plus_propagation() {
    let mut link = Link::new(config(25 * MS, 0)).unwrap();
    assert_eq!(link.offer(3 * MS, packet(1_000)), delivered(29 * MS));
}

#[test]
fn packets_queue_behind_each_other() {
    let mut link = Link::new(config(10 * MS, 10_000)).unwrap();
    for n in 1..=5 {
        assert_eq!(link.offer(Duration::ZERO, packet(1_000)), delivered(10 * MS + n * MS));
    }
    // Half-way through the third: two wait.
    let backlog = link.backlog(2 * MS + MS / 2);
    assert_eq!((backlog.packets, backlog.bytes), (2, 2_000));
    assert_eq!(link.backlog(4 * MS).packets, 0);
}

#[test]
fn full_buffer_drops_the_new_packet() {
    let mut link = Link::new(config(Duration::ZERO, 2_000)).unwrap();
    let verdicts: Vec<_> = (0..5).map(|_| link.offer(Duration::ZERO, packet(1_000))).collect();
    let dropped = Verdict::Dropped(DropReason::Buffer);
    // One on the wire, two in the buffer.
    let expected = [delivered(MS), delivered(2 * MS), delivered(3 * MS), dropped, dropped];
    assert_eq!(verdicts, expected);
    // At 1 ms the second starts, and its place is free again.
    assert_eq!(link.offer(MS, packet(1_000)), delivered(4 * MS));
    assert_eq!(link.offer(MS, packet(1)), dropped);
}

#[test]
fn packets_wait_in_an_outage_and_overflow_the_buffer() {
    let rate = |mbit_per_s| Some(Rate::of_change(mbit_per_s).unwrap());
    let change = |at, rate| Change { at, rate, ..Change::default() };
    let changes = vec![change(10 * MS, rate(0.0)), change(50 * MS, rate(8.0))];
    let outage = LinkConfig { changes, ..config(Duration::ZERO, 2_000) };
    let mut link = Link::new(outage).unwrap();
    assert_eq!(link.offer(Duration::ZERO, packet(1_000)), delivered(MS));
    let verdicts: Vec<_> = (0..4).map(|_| link.offer(20 * MS, packet(1_000))).collect();
    let dropped = Verdict::Dropped(DropReason::Buffer);
    assert_eq!(verdicts, [delivered(51 * MS), delivered(52 * MS), delivered(53 * MS), dropped]);
    assert_eq!(link.offer(49 * MS, packet(1_000)), dropped);
    assert_eq!(link.offer(51 * MS, packet(1_000)), delivered(54 * MS));
}

#[test]
fn link_without_buffer_passes_one_packet_at_a_time() {
    let mut link = Link::new(config(Duration::ZERO, 0)).unwrap();
    assert_eq!(link.offer(Duration::ZERO, packet(1_000)), delivered(MS));
    let early = MS - Duration::from_nanos(1);
    assert_eq!(link.offer(early, packet(1)), Verdict::Dropped(DropReason::Buffer));
    assert_eq!(link.offer(MS, packet(1_000)), delivered(2 * MS));
}

#[test]
fn mtu_is_the_largest_packet_that_passes() {
    let mut link = Link::new(LinkConfig { mtu_bytes: 1_300, ..config(MS, 9_000) }).unwrap();
    assert_eq!(link.offer(MS, packet(1_301)), Verdict::Dropped(DropReason::Mtu));
    assert!(matches!(link.offer(MS, packet(1_300)), Verdict::Delivered { .. }));
}

#[test]
fn named_packets_take_no_time_on_the_link() {
    let named_loss = "2,4-5".parse().unwrap();
    let mut link = Link::new(LinkConfig { named_loss, ..config(Duration::ZERO, 9_000) }).unwrap();
    let verdicts: Vec<_> =
        (1..=6).map(|number| link.offer(Duration::ZERO, numbered(1_000, number))).collect();
    let lost = Verdict::Dropped(DropReason::Named);
    let expected = [delivered(MS), lost, delivered(2 * MS), lost, lost, delivered(3 * MS)];
    assert_eq!(verdicts, expected);
}

#[test]
fn random_loss_is_independent_of_other_drops() {
    let lossy = |mtu_bytes| LinkConfig { mtu_bytes, loss: 0.2, seed: 9, ..config(MS, 1 << 30) };
    let mut wide = Link::new(lossy(1_500)).unwrap();
    let mut narrow = Link::new(lossy(1_000)).unwrap();
    let mut compared = 0;
    for n in 0..1_000 {
        let packet = packet(if n % 3 == 0 { 1_200 } else { 900 });
        let (in_wide, in_narrow) =
            (wide.offer(2 * n * MS, packet), narrow.offer(2 * n * MS, packet));
        if packet.size_bytes == 900 {
            compared += usize::from(in_wide == Verdict::Dropped(DropReason::Random));
            assert_eq!(in_wide, in_narrow);
        }
    }
    assert!(compared > 50, "{compared}");
}

#[test]
fn time_does_not_run_backwards() {
    let mut link = Link::new(config(Duration::ZERO, 9_000)).unwrap();
    assert_eq!(link.offer(5 * MS, packet(1_000)), delivered(6 * MS));
    assert_eq!(link.offer(MS, packet(1_000)), delivered(7 * MS));
}

#[test]
fn recorded_history_never_changes() {
    // Results are compared across versions: what a plain link says is for ever.
    let rate = Rate::from_bits_per_s(4_300_007).unwrap();
    let delay = Duration::from_nanos(12_345_678);
    let plain = LinkConfig { loss: 0.03, seed: 5, ..LinkConfig::new(rate, delay, 20_000) };
    let mut link = Link::new(plain).unwrap();
    let mut delivered_ns_sum = 0;
    for n in 1..=10_000_u64 {
        // Bursts of four, above the rate, of sizes that leave fractions.
        let now = Duration::from_nanos((n / 4) * 5_000_001);
        let size_bytes = 40 + (n * 7_919 % 1_461) as u32;
        if let Verdict::Delivered { at, .. } = link.offer(now, numbered(size_bytes, n)) {
            delivered_ns_sum += at.as_nanos();
        }
    }
    let stats = link.stats();
    assert_eq!((stats.dropped_random_packets, stats.dropped_buffer_packets), (282, 693));
    assert_eq!(delivered_ns_sum, 56_728_437_036_708);
}

#[test]
fn stats_count_every_packet_once() {
    let config = LinkConfig {
        mtu_bytes: 1_000,
        loss: 0.5,
        named_loss: "1-10".parse().unwrap(),
        ..config(MS, 1_500)
    };
    let mut link = Link::new(config).unwrap();
    for number in 1..=100 {
        link.offer(Duration::ZERO, numbered(900 + number as u32 * 2, number));
    }
    let stats = link.stats();
    assert_eq!(stats.offered_packets, 100);
    assert_eq!(stats.offered_bytes, (1..=100).map(|n| 900 + n * 2).sum::<u64>());
    assert_eq!((stats.dropped_mtu_packets, stats.dropped_named_packets), (50, 10));
    assert_eq!(stats.accepted_packets, 2);
    let dropped = stats.dropped_random_packets + stats.dropped_buffer_packets;
    assert_eq!(dropped, 38);
}

#[test]
fn bad_settings_are_refused_with_the_way_out() {
    let refused = |config: LinkConfig| Link::new(config).unwrap_err().to_string();
    let config = config(MS, 0);
    assert!(refused(LinkConfig { mtu_bytes: 0, ..config.clone() }).contains("at least 1"));
    for loss in [-0.1, 1.1, f64::NAN] {
        assert!(refused(LinkConfig { loss, ..config.clone() }).contains("0 to 1"), "{loss}");
        let changes = vec![Change { loss: Some(loss), ..Change::default() }];
        assert!(refused(LinkConfig { changes, ..config.clone() }).contains("0 to 1"), "{loss}");
    }
    let changes = [2, 1].map(|ms| Change { at: ms * MS, ..Change::default() }).to_vec();
    assert!(refused(LinkConfig { changes, ..config }).contains("in order of time"));
}

#[test]
fn sizes_are_those_of_ip_packets() {
    let bytes = |address: &str| link::ip_packet_bytes(1_200, address.parse().unwrap());
    assert_eq!(bytes("127.0.0.1"), 1_228);
    assert_eq!(bytes("::1"), 1_248);
    assert_eq!(bytes("::ffff:127.0.0.1"), 1_228);
}

#[test]
fn rate_delay_and_loss_change_at_their_times() {
    let rate = |mbit_per_s| Some(Rate::from_mbit_per_s(mbit_per_s).unwrap());
    let changes = vec![
        Change { at: 5 * MS + MS / 2, rate: rate(4.0), ..Change::default() },
        Change { at: 10 * MS, delay: Some(20 * MS), ..Change::default() },
        Change { at: 20 * MS, rate: rate(80.0), delay: Some(MS), ..Change::default() },
        Change { at: 30 * MS, loss: Some(1.0), ..Change::default() },
    ];
    let mut link = Link::new(LinkConfig { changes, ..config(10 * MS, 9_000) }).unwrap();
    // When it comes, and when it arrives.
    let history = [
        // 1 ms and 10 ms.
        (Duration::ZERO, delivered(11 * MS)),
        // Half of it at 8 Mbit/s, half at 4.
        (5 * MS, delivered(16 * MS + MS / 2)),
        // The last bit leaves at 10 ms.
        (8 * MS, delivered(30 * MS)),
        (12 * MS, delivered(34 * MS)),
        // Leaves at 20.1 ms, and would arrive at 21.1.
        (20 * MS, delivered(34 * MS)),
        (29 * MS + MS * 9 / 10, delivered(34 * MS)),
        (30 * MS, Verdict::Dropped(DropReason::Random)),
    ];
    for (now, expected) in history {
        assert_eq!(link.offer(now, packet(1_000)), expected, "{now:?}");
    }
}

#[test]
fn step_marks_a_packet_that_waits_above_the_threshold() {
    let queue = Queue::Step { mark_above: 2 * MS };
    let mut link = Link::new(LinkConfig { queue, ..config(Duration::ZERO, 9_000) }).unwrap();
    let mut left_with = |ecn| match link.offer(Duration::ZERO, Packet { ecn, ..packet(1_000) }) {
        Verdict::Delivered { ecn, .. } => ecn,
        Verdict::Dropped(reason) => panic!("{reason:?}"),
    };
    // They wait for 0, 1, 2 ms and so on.
    let came = [Ecn::Ect0, Ecn::Ect0, Ecn::Ect1, Ecn::Ect1, Ecn::NotEct, Ecn::Ce, Ecn::Ect0];
    let left = came.map(&mut left_with);
    assert_eq!(left, [Ecn::Ect0, Ecn::Ect0, Ecn::Ect1, Ecn::Ce, Ecn::NotEct, Ecn::Ce, Ecn::Ce]);
    assert_eq!(link.stats().marked_packets, 3);
}

#[test]
fn faulty_path_changes_or_drops_packets_with_ecn() {
    use Ecn::{Ce, Ect0, Ect1, NotEct};
    let came = [NotEct, Ect1, Ect0, Ce];
    for (ecn, expected, dropped, remarked) in [
        (EcnHandling::Pass, came.map(Some), 0, 0),
        (EcnHandling::Bleach, [Some(NotEct); 4], 0, 3),
        (EcnHandling::RemarkEct1, [NotEct, Ect1, Ect1, Ce].map(Some), 0, 1),
        (EcnHandling::RemarkCe, [Some(Ce); 4], 0, 3),
        (EcnHandling::BlackHole, [Some(NotEct), None, None, None], 3, 0),
    ] {
        let mut link = Link::new(LinkConfig { ecn, ..config(MS, 9_000) }).unwrap();
        let left = came.map(|ecn| match link.offer(MS, Packet { ecn, ..packet(1_000) }) {
            Verdict::Delivered { ecn, .. } => Some(ecn),
            Verdict::Dropped(reason) => {
                assert_eq!(reason, DropReason::Ecn);
                None
            }
        });
        assert_eq!(left, expected, "{ecn:?}");
        let stats = link.stats();
        assert_eq!((stats.dropped_ecn_packets, stats.remarked_packets), (dropped, remarked));
        assert_eq!((stats.accepted_packets, stats.marked_packets), (4 - dropped, 0));
    }
}

#[test]
fn jitter_of_each_packet_follows_from_the_seed() {
    let jitter = 4 * MS;
    let arrivals = |seed| -> Vec<Verdict> {
        let mut link = Link::new(LinkConfig { jitter, seed, ..config(MS, 0) }).unwrap();
        (0..100).map(|n| link.offer(10 * n * MS, packet(1_000))).collect()
    };
    assert_eq!(arrivals(1), arrivals(1));
    assert_ne!(arrivals(1), arrivals(2));
    let extra_ms = arrivals(1).into_iter().zip(0..).map(|(verdict, n)| match verdict {
        Verdict::Delivered { at, .. } => (at - (10 * n + 2) * MS).as_secs_f64() * 1e3,
        Verdict::Dropped(reason) => panic!("{reason:?}"),
    });
    let mean_ms = extra_ms.sum::<f64>() / 100.0;
    assert!((1.7..2.3).contains(&mean_ms), "{mean_ms}");
}

#[test]
fn aggregated_packets_arrive_together_at_grants() {
    let aggregation = 10 * MS;
    let arrivals = |seed| -> Vec<Duration> {
        let mut link = Link::new(LinkConfig { aggregation, seed, ..config(MS, 1 << 30) }).unwrap();
        // 1 ms each, one after the other.
        let offer = |_| match link.offer(Duration::ZERO, packet(1_000)) {
            Verdict::Delivered { at, .. } => at,
            Verdict::Dropped(reason) => panic!("{reason:?}"),
        };
        (0..100).map(offer).collect()
    };
    assert_eq!(arrivals(1), arrivals(1));
    assert_ne!(arrivals(1), arrivals(2));
    let arrived = arrivals(3);
    let mut grants = arrived.clone();
    grants.dedup();
    assert!(grants.windows(2).all(|pair| pair[1] - pair[0] == aggregation), "{grants:?}");
    for bunch in &grants[1..grants.len() - 1] {
        assert_eq!(arrived.iter().filter(|at| *at == bunch).count(), 10);
    }
}

/// The link of a trace whose rates alone change it.
fn traced(name: &str, text: &str) -> Link {
    let trace = PathTrace::parse(name, text).unwrap();
    let change = |step: &link::Step| Change { at: step.at, rate: step.rate, ..Change::default() };
    Link::new(LinkConfig {
        changes: trace.steps().iter().map(change).collect(),
        period: trace.period(),
        ..config(Duration::ZERO, 1 << 30)
    })
    .unwrap()
}

#[test]
fn busy_link_sends_at_each_opportunity_of_a_trace() {
    let opportunities_ms = [3, 4, 4, 9, 10, 10, 10, 60];
    let text: String = opportunities_ms.iter().map(|ms| format!("{ms}\n")).collect();
    let mut link = traced("a.down", &text);
    for round in 0..100 {
        for (index, ms) in opportunities_ms.iter().enumerate() {
            let Verdict::Delivered { at, .. } = link.offer(Duration::ZERO, packet(1_500)) else {
                panic!("dropped")
            };
            let last_of_ms = opportunities_ms.get(index + 1) != Some(ms);
            let expected = (round * 60 + ms) * MS;
            // Rates are whole bits per second.
            assert!(!last_of_ms || at.abs_diff(expected) < MS / 1_000, "{at:?} not {expected:?}");
        }
    }
}

#[test]
fn table_of_rates_begins_again_at_its_end() {
    // 1,000 bytes take 1 ms, and 2 ms from 10 to 20 ms on.
    let mut link = traced("a.csv", "time_ms,rate_mbps\n0,8\n10,4\n20,\n");
    for (at_ms, arrives_ms) in [(0, 1), (10, 12), (20, 21), (30, 32), (1_010, 1_012)] {
        assert_eq!(link.offer(at_ms * MS, packet(1_000)), delivered(arrives_ms * MS));
    }
}
