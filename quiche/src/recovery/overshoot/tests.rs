//! Growth without memory of the path.

use super::room::Gone;
use super::room::Room;
use super::test_path::TestPath;
use super::test_path::MDS;
use super::*;
use crate::clock;

/// Doubles from ten packets, as a new connection does.
fn double(path: &TestPath, most: usize) -> test_path::Sent {
    let mut seen = PathHistory::default();
    let mut doubling = Doubling::default();

    path.send(10, most, |ack| {
        seen.on_ack(ack);
        doubling.on_ack(&mut seen, ack, Growth::Full)
    })
}

/// Two windows are under way when a path that holds one begins to queue.
#[test]
fn doubling_ends_while_less_than_one_bdp_is_queued() {
    for bdp in [150, 200, 270, 400, 530, 740, 1000, 3000, 20_000] {
        for rtt_ms in [20, 50, 60, 100, 600] {
            let path = TestPath::new(bdp, rtt_ms);
            let sent = double(&path, 10 * bdp);
            let who = format!("{bdp} packets, {rtt_ms} ms: {sent:?}");

            assert!(sent.is_exit, "{who}");
            assert!(sent.queue <= bdp * 17 / 20, "{who}");
            assert!(sent.window >= bdp * 9 / 10, "{who}");
            assert!(sent.window <= bdp * 37 / 20, "{who}");
        }
    }
}

#[test]
fn doubling_below_the_capacity_is_never_held() {
    for rtt_ms in [10, 60, 600] {
        let path = TestPath::new(20_000, rtt_ms);
        let sent = double(&path, 10_000);
        assert!(!sent.is_exit, "{sent:?}");
        assert!(sent.rtts < 11.0, "{sent:?}");
    }
}

/// What satellites and radio schedulers do to an RTT: it ends nothing, and
/// costs at most as many round trips as ten doublings take.
#[test]
fn swinging_rtt_is_no_queue() {
    for percent in [2, 5, 10] {
        for rtt_ms in [20, 60, 600] {
            let path = TestPath {
                swing: f64::from(percent) / 100.0,
                ..TestPath::new(20_000, rtt_ms)
            };
            let sent = double(&path, 10_000);
            let who = format!("{percent} %, {rtt_ms} ms: {sent:?}");
            assert!(!sent.is_exit, "{who}");
            assert!(sent.rtts < 14.0, "{who}");
        }
    }
}

fn ack(grown: usize) -> AckSample {
    AckSample {
        now: clock::now(),
        rtt: Duration::from_millis(50),
        min_rtt: Duration::from_millis(50),
        bytes: MDS,
        largest_acked: 1,
        largest_sent: 2,
        cwnd: 100 * MDS,
        grown,
        max_datagram_size: MDS,
    }
}

#[test]
fn least_queue_is_a_24th_within_bounds() {
    for (rtt_ms, packets, us) in [
        (96, 1000, 4000),
        (12, 1000, 1000),
        (600, 1000, 16_000),
        (100, 10, 40_000),
        (100, 80, 5000),
    ] {
        let ack = AckSample {
            min_rtt: Duration::from_millis(rtt_ms),
            cwnd: packets * MDS,
            ..ack(0)
        };
        assert_eq!(
            doubling::least_queue(&ack),
            Duration::from_micros(us),
            "{rtt_ms} ms, {packets} packets"
        );
    }
}

/// From which ACK on there is room, and why, of ten an RTT, with these RTTs in
/// ms.
fn room_from(
    is_known: bool, app_limited: bool, rtt_ms: impl Fn(u32) -> u64,
) -> Option<(u32, Gone)> {
    let mut room = Room::new(is_known);
    let start = clock::now();

    (0..140).find_map(|n| {
        let ack = AckSample {
            now: start + Duration::from_millis(5) * n,
            rtt: Duration::from_millis(rtt_ms(n)),
            ..ack(0)
        };
        Some((n, room.on_ack(&ack, app_limited)?))
    })
}

#[test]
fn room_follows_a_round_trip_without_a_queue() {
    assert_eq!(room_from(true, false, |_| 50), Some((11, Gone::Others)));
    assert_eq!(room_from(true, false, |_| 60), None);

    for (is_known, emptied) in [(true, 8), (true, 90), (false, 90)] {
        let rtt_ms = |n| if n < emptied { 90 } else { 50 };
        let room = room_from(is_known, false, rtt_ms);
        assert!(
            room.is_some_and(|(n, gone)| {
                (emptied + 10..emptied + 22).contains(&n) && gone == Gone::Others
            }),
            "{is_known} {emptied}: {room:?}"
        );
    }
    let in_between = |n| if n % 9 < 7 { 90 } else { 50 };
    assert_eq!(room_from(true, false, in_between), None);
}

/// On an unknown path, an RTT that falls again within a few round trips had
/// risen by itself; of a sender that has nothing to send it
/// tells nothing.
#[test]
fn rtt_that_falls_soon_was_variation() {
    let excess = Duration::from_millis(20);

    for fallen in [5, 20, 70] {
        let rtt_ms = |n| if n < fallen { 70 } else { 50 };
        let room = room_from(false, false, rtt_ms);
        let (n, gone) = room.expect("it has fallen");
        assert_eq!(gone, Gone::Variation(excess), "{fallen}");
        assert!((fallen..fallen + 10).contains(&n), "{fallen} {n}");
        assert_eq!(room_from(false, true, rtt_ms), None);

        // Not at its minimum: a queue that has become shorter.
        let shorter = |n| if n < fallen { 70 } else { 52 };
        let room = room_from(false, false, shorter);
        assert_eq!(room.map(|(_, gone)| gone), Some(Gone::Others));
    }
}

/// From then on, only what exceeds that by more shows a queue.
#[test]
fn variation_does_not_end_slow_start_twice() {
    let excess = Duration::from_millis(15);
    for (rtt_ms, is_held) in [(65, false), (68, false), (71, true)] {
        let mut seen = PathHistory::default();
        let mut doubling = Doubling::varying(excess);
        let start = clock::now();

        for n in 0..200 {
            let risen = (rtt_ms - 50) * n / 200;
            let ack = AckSample {
                now: start + Duration::from_millis(1) * n as u32,
                rtt: Duration::from_millis(50 + risen),
                ..ack(MDS)
            };
            seen.on_ack(&ack);
            doubling.on_ack(&mut seen, &ack, Growth::Full);
        }
        assert_eq!(doubling.is_holding(), is_held, "{rtt_ms}");
    }
}

/// No path is believed to vary by more than 0.4 RTTs, nor faster than a
/// doubling queues.
#[test]
fn no_variation_hides_a_queue() {
    for (risen_ms, rtts, is_held) in
        [(19, 4, false), (23, 4, true), (18, 2, false), (22, 2, true)]
    {
        let mut seen = PathHistory::default();
        let mut doubling = Doubling::varying(Duration::from_millis(50));
        let start = clock::now();
        let acks = 50 * rtts / 2;

        for n in 0..=acks {
            let us = 50_000 + 1000 * risen_ms * n / acks;
            let ack = AckSample {
                now: start + Duration::from_millis(n),
                rtt: Duration::from_micros(us),
                ..ack(MDS)
            };
            seen.on_ack(&ack);
            doubling.on_ack(&mut seen, &ack, Growth::Full);
        }
        assert_eq!(doubling.is_holding(), is_held, "{risen_ms} ms");
    }
}

/// A part of a packet would leave as a small packet, whose ACK releases
/// another.
#[test]
fn limited_growth_is_full_packets_without_loss() {
    for (growth, share) in [(Growth::Half, 2), (Growth::Quarter, 4)] {
        let mut allowance = Allowance::default();
        let mut kept = 0;

        for _ in 0..400 {
            let Verdict::Grow(bytes) = allowance.grow(&ack(MDS), growth) else {
                panic!("an allowance ends nothing");
            };
            assert!(bytes == 0 || bytes == MDS, "{bytes}");
            kept += bytes;
        }

        let expected = 400 / share * MDS;
        assert!(kept <= expected && kept + 2 * MDS > expected, "{kept}");
    }

    let mut allowance = Allowance::default();
    assert_eq!(allowance.grow(&ack(777), Growth::Full), Verdict::Grow(777));
    assert_eq!(allowance.grow(&ack(777), Growth::Nothing), Verdict::Grow(0));
}

/// Whatever comes, no verdict adds to what the controller grows by.
#[cfg(feature = "internal")]
#[test]
fn random_acks_grow_at_most_as_the_controller() {
    for seed in 0..500 {
        let _clock = clock::Simulation::start(seed, Duration::from_secs(1));
        let random = crate::rand::rand_u64_uniform;
        let mut seen = PathHistory::default();
        let mut doubling = Doubling::default();
        let mut now = clock::now();
        let (mut largest, mut grown, mut kept) = (0, 0, 0);

        for _ in 0..300 {
            now += Duration::from_micros(random(30_000));
            largest += random(20);
            let ack = AckSample {
                now,
                rtt: Duration::from_micros(10_000 + random(100_000)),
                min_rtt: Duration::from_micros(1 + random(10_000)),
                bytes: random(20_000) as usize,
                largest_acked: largest,
                largest_sent: largest + random(200),
                cwnd: 2 * MDS + random(1_000_000) as usize,
                grown: random(20_000) as usize,
                max_datagram_size: MDS,
            };
            seen.on_ack(&ack);

            match doubling.on_ack(&mut seen, &ack, Growth::Half) {
                Verdict::Grow(bytes) => kept += bytes,
                Verdict::Exit => break,
            }
            grown += ack.grown;
            assert!(kept <= grown / 2, "seed {seed}: {kept} of {grown}");
        }
    }
}
