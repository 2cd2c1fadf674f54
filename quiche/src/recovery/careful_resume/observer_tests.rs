//! Windows, samples, and what is made of them.

use super::FlightLimit::*;
use super::*;

const RTT: Duration = Duration::from_millis(100);

/// Feeds one ACK of 1000 bytes every `step`, for packets sent one RTT
/// before, over `rtts` RTTs.
fn feed(
    observer: &mut Observer, start: Instant, step: Duration, rtts: u32,
    limit: FlightLimit,
) -> Instant {
    let mut now = start;

    while now <= start + RTT * rtts {
        let acked = Acknowledged {
            bytes: 1000,
            largest: 0,
            rtt: RTT,
        };
        observer.on_ack(&acked, RTT, limit, now);
        now += step;
    }

    now
}

/// A sample whose ACKs came evenly.
fn even(rate: u32) -> Sample {
    Sample {
        average: rate.into(),
        best: rate.into(),
    }
}

fn start() -> Instant {
    crate::clock::now() + Duration::from_secs(10)
}

/// A3: bytes acknowledged in one RTT.
#[test]
fn capacity_is_acked_bytes_of_one_minimum_rtt() {
    let mut observer = Observer::default();
    feed(&mut observer, start(), Duration::from_millis(1), 3, Path);

    let observed = observer.observed().unwrap();
    assert_eq!(observed.cwnd(RTT), 100_000);
    assert!(!observed.limited);
}

#[test]
fn observation_needs_a_whole_rtt() {
    let mut observer = Observer::default();
    assert_eq!(observer.observed(), None);

    let first = start();
    for ms in 0..100 {
        let acked = Acknowledged {
            bytes: 1000,
            largest: ms,
            rtt: RTT + Duration::from_millis(ms),
        };
        let now = first + Duration::from_millis(ms);
        observer.on_ack(&acked, RTT, Path, now);
    }
    assert_eq!(observer.observed(), None);
}

#[test]
fn bunched_acks_are_not_capacity() {
    let mut observer = Observer::default();
    let first = start();

    // Packets sent over 300 ms are all acknowledged within 100 ms.
    for i in 0..=100 {
        let sent_at = first - RTT * 3 + Duration::from_millis(3 * i);
        let now = first + Duration::from_millis(i);
        let acked = Acknowledged {
            bytes: 3000,
            largest: i,
            rtt: now - sent_at,
        };
        observer.on_ack(&acked, RTT, Path, now);
    }

    assert_eq!(observer.observed().unwrap().cwnd(RTT), 100_000);
}

#[test]
fn few_samples_by_late_acks_do_not_count() {
    for limit in [Path, Growth, Application] {
        samples_made_by_late_acks(limit);
    }
}

fn samples_made_by_late_acks(limit: FlightLimit) {
    let mut observer = Observer::default();
    let mut now = start();

    // A stall takes 20 packets from one window and adds them to the next.
    for rtt in 0..10 {
        for i in 0..100 {
            let stalled = rtt % 3 == 0 && i >= 80;
            let late = if stalled { 100 - i } else { 0 };
            let sent_at = now - RTT;
            now += Duration::from_millis(1);
            let arrival = now + Duration::from_millis(late);
            let acked = Acknowledged {
                bytes: 1000,
                largest: 0,
                rtt: arrival - sent_at,
            };
            observer.on_ack(&acked, RTT, limit, arrival);
        }
    }

    let share = observer.observed().unwrap().cwnd(RTT) as f64 / 100_000.0;
    assert!((0.97..1.03).contains(&share), "{share}");
}

/// A7: the end of slow start shows the capacity; recovery after it less.
#[test]
fn plateau_counts_more_than_later_recovery() {
    let mut observer = Observer::default();
    let samples = [(7, true), (14, true), (27, true), (55, true), (98, true)];
    let plateau = [(98, true), (98, true), (94, false), (83, false)];
    let recovery = [(59, false), (97, true), (98, true), (50, true)];

    for (rate, limited) in samples.into_iter().chain(plateau).chain(recovery) {
        observer.add_sample(even(rate), limited);
    }

    let observed = observer.observed().unwrap();
    assert_eq!(
        observed,
        Observed {
            rate: 98.0,
            limited: false
        }
    );
}

/// A7: also where slow start was at it for one round, until the path has been
/// seen for long.
#[test]
fn full_sample_counts_more_than_later_recovery() {
    for (recovery, capacity) in [(5, 98.0), (15, 98.0), (16, 66.0)] {
        let mut observer = Observer::default();
        for (rate, limited) in [(27, true), (55, true), (98, true)] {
            observer.add_sample(even(rate), limited);
        }
        for _ in 0..recovery {
            observer.add_sample(even(66), false);
        }
        assert_eq!(observer.observed().unwrap().rate, capacity, "{recovery}");
    }
}

#[test]
fn limited_sample_near_the_capacity_counts() {
    for (limited, capacity) in [(79, 100.0), (81, 81.0)] {
        let mut observer = Observer::default();
        for _ in 0..MAX_SAMPLES {
            observer.add_sample(even(100), true);
        }
        for _ in 0..MAX_SAMPLES {
            observer.add_sample(even(limited), true);
        }
        assert_eq!(observer.observed().unwrap().rate, capacity, "{limited}");
    }
}

/// A2, A7: congestion in slow start shows the path's limit.
#[test]
fn window_with_congestion_is_not_limited() {
    let mut observer = Observer::default();
    let step = Duration::from_millis(1);
    let now = feed(&mut observer, start(), step, 1, Growth);
    assert!(observer.observed().unwrap().limited);

    observer.on_congestion();
    feed(&mut observer, now, step, 1, Growth);
    assert!(!observer.observed().unwrap().limited);
}

/// A8: the application's pauses do not lower it; the path's do.
#[test]
fn limited_sample_counts_only_if_better() {
    let table = [(Application, 100_000), (Growth, 100_000), (Path, 50_000)];

    for (limit, cwnd) in table {
        let mut observer = Observer::default();
        let step = Duration::from_millis(1);
        let now = feed(&mut observer, start(), step, 3, Path);

        feed(&mut observer, now, step * 2, 20, limit);
        assert_eq!(observer.observed().unwrap().cwnd(RTT), cwnd);
    }

    let mut observer = Observer::default();
    feed(&mut observer, start(), Duration::from_millis(1), 3, Growth);
    assert!(observer.observed().unwrap().limited);
}

/// When each packet left, and when its ACK came.
type Packets = Vec<(Instant, Instant)>;

/// What a path that takes 100 packets of 1000 bytes in one minimum RTT makes of
/// packets that leave at these times.
fn cross(sent: impl IntoIterator<Item = Instant>) -> Packets {
    let mut free: Option<Instant> = None;

    sent.into_iter()
        .map(|sent| {
            let passes = free.map_or(sent, |free| free.max(sent));
            free = Some(passes + RTT / 100);
            (sent, passes + RTT)
        })
        .collect()
}

/// `count` packets from `start` on, evenly over `time`.
fn evenly(
    count: u32, start: Instant, time: Duration,
) -> impl Iterator<Item = Instant> {
    (0..count).map(move |i| start + time * i / count)
}

fn feed_packets(
    observer: &mut Observer, packets: &[(Instant, Instant)], limit: FlightLimit,
) {
    for &(sent_at, acked_at) in packets {
        let acked = Acknowledged {
            bytes: 1000,
            largest: 0,
            rtt: acked_at - sent_at,
        };
        observer.on_ack(&acked, RTT, limit, acked_at);
    }
}

/// Returns the observed capacity, as a share of the real one.
fn share(observer: &Observer) -> f64 {
    observer.observed().unwrap().cwnd(RTT) as f64 / 100_000.0
}

/// A3: the last whole round of slow start counts, and what it overshoots does
/// not (A7).
#[test]
fn last_slow_start_round_counts_as_delivered() {
    for (last, expected) in [(30, 0.3), (60, 0.6), (90, 0.9), (180, 1.0)] {
        let (mut observer, start) = (Observer::default(), start());
        let rounds = [(0, 8), (1, 15), (2, last), (3, 1)].into_iter();
        let sent =
            rounds.flat_map(|(i, count)| evenly(count, start + RTT * i, RTT / 2));
        feed_packets(&mut observer, &cross(sent), Growth);

        let share = share(&observer);
        assert!((share - expected).abs() < 0.03, "{last}: {share}");
    }
}

/// Packets at half of what the path takes, over four RTTs. In half of the third
/// their ACKs are late, and those after them wait until they have come.
fn with_late_acks(late: Duration) -> Packets {
    let start = start();
    let (from, until) = (start + RTT * 5 / 2, start + RTT * 3);
    let mut last = start;

    cross(evenly(200, start, RTT * 4))
        .into_iter()
        .map(|(sent, acked_at)| {
            let is_late = acked_at >= from && acked_at < until;
            let acked_at = if is_late { acked_at + late } else { acked_at };
            last = last.max(acked_at);
            (sent, last)
        })
        .collect()
}

#[test]
fn late_acks_do_not_raise_a_short_observation() {
    for late_ms in [0, 10, 30, 60] {
        let mut observer = Observer::default();
        let packets = with_late_acks(Duration::from_millis(late_ms));
        feed_packets(&mut observer, &packets, Growth);

        let share = share(&observer);
        assert!((0.48..0.52).contains(&share), "{late_ms} ms: {share}");
    }
}

/// A jump to a quarter of what the path takes, the doubled window after it, and
/// the rest of the object at what the path takes, in a quarter of an RTT.
fn resumed() -> (Packets, Packets) {
    let start = start();
    let jump = evenly(25, start, RTT);
    let doubled = evenly(50, start + RTT, RTT);
    let rest = evenly(25, start + RTT * 2, RTT / 4);
    let mut packets = cross(jump.chain(doubled).chain(rest));
    let after = packets.split_off(25);

    (packets, after)
}

/// The last rate after a validated jump counts: otherwise downloads of one BDP
/// would never show more than two thirds of the capacity.
#[test]
fn last_rate_after_a_validated_jump_counts() {
    for (validated, expected) in [(false, 0.63), (true, 1.0)] {
        let mut observer = Observer::default();
        let (jump, after) = resumed();
        feed_packets(&mut observer, &jump, Growth);
        if validated {
            observer.on_jump_validated();
        }
        feed_packets(&mut observer, &after, Growth);

        let share = share(&observer);
        assert!((share - expected).abs() < 0.03, "{validated}: {share}");
    }
}

/// Not a burst after little: slow start only doubles.
#[test]
fn burst_after_a_validated_jump_is_not_capacity() {
    let mut observer = Observer::default();
    observer.on_jump_validated();
    let start = start();
    let trickle = evenly(20, start, RTT * 2);
    let burst = evenly(30, start + RTT * 2, RTT / 10 * 3);
    feed_packets(&mut observer, &cross(trickle.chain(burst)), Growth);

    // The last RTT has 30 packets, and 7 before.
    let share = share(&observer);
    assert!((0.6..0.76).contains(&share), "{share}");
}

/// In a queue, ACKs that are little late would show in so short a time.
#[test]
fn queue_after_a_validated_jump_hides_the_last_rate() {
    let mut observer = Observer::default();
    observer.on_jump_validated();
    let start = start();
    let steady = evenly(150, start, RTT * 3);
    let faster = evenly(20, start + RTT * 3, RTT / 5);
    let packets: Packets = steady
        .chain(faster)
        .map(|sent| (sent, sent + RTT * 14 / 10))
        .collect();
    feed_packets(&mut observer, &packets, Growth);

    // 20, and 40 in the rest of the last RTT.
    let share = share(&observer);
    assert!((0.54..0.63).contains(&share), "{share}");
}

/// A2, A7: a bottleneck that was never idle carried all that it can. Not where
/// the application holds back: others may fill it.
#[test]
fn standing_queue_shows_the_paths_limit() {
    let table = [
        (Growth, 20, false),
        (Growth, 13, false),
        (Growth, 12, true),
        (Application, 20, true),
    ];

    for (limit, queue_ms, limited) in table {
        let mut observer = Observer::default();
        let queue = Duration::from_millis(queue_ms);
        let packets: Vec<_> = evenly(200, start(), RTT * 2)
            .map(|sent| (sent, sent + RTT + queue))
            .collect();
        feed_packets(&mut observer, &packets, limit);

        let observed = observer.observed().unwrap();
        assert_eq!(observed.limited, limited, "{limit:?}, {queue_ms} ms");
        assert_eq!(observed.cwnd(RTT), 100_000);
    }
}

#[test]
fn queue_needs_enough_acks_to_stand() {
    let queue = Duration::from_millis(20);
    let table = [
        (100, None, false),
        (100, Some(50), true),
        (8, None, false),
        (7, None, true),
    ];

    // The first ACK begins the window, and the last one ends it.
    for (acks, without_queue, limited) in table {
        let mut observer = Observer::default();
        let packets: Vec<_> = evenly(acks + 1, start(), RTT + RTT * 2 / acks)
            .enumerate()
            .map(|(i, sent)| match without_queue == Some(i) {
                true => (sent + queue, sent + queue + RTT),
                false => (sent, sent + queue + RTT),
            })
            .collect();
        feed_packets(&mut observer, &packets, Growth);

        assert_eq!(observer.observed().unwrap().limited, limited, "{acks}");
    }
}

#[test]
fn the_median_is_the_one_in_the_middle() {
    assert_eq!(median([5.0, 1.0, 4.0, 2.0, 3.0].into_iter()), 3.0);
}
