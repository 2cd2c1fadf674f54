//! Growth after a jump, on paths that hold the saved capacity, less, or more.

use super::*;
use crate::recovery::overshoot::test_path::Sent;
use crate::recovery::overshoot::test_path::TestPath;
use crate::recovery::overshoot::test_path::MDS;

/// Grows from half of `known`, as after a jump; both in packets.
fn grow(path: &TestPath, known: usize, most: usize) -> Sent {
    let mut soft_growth = SoftGrowth::new(known * MDS, true);
    path.send(known / 2, most, |ack| soft_growth.on_ack(ack))
}

fn each_path(mut check: impl FnMut(&TestPath, &str)) {
    for bdp in [100, 300, 1000, 5000] {
        for rtt_ms in [40, 60, 100, 600] {
            let who = format!("{bdp} packets, {rtt_ms} ms");
            check(&TestPath::new(bdp, rtt_ms), &who);
        }
    }
}

/// The doubling lands on what the path holds.
#[test]
fn growth_ends_little_above_saved_cwnd() {
    each_path(|path, who| {
        for percent in [90, 98, 105] {
            let bdp = path.bdp;
            let sent = grow(path, bdp * percent / 100, 10 * bdp);
            let who = format!("{who}, {percent} %: {sent:?}");

            assert!(sent.is_exit, "{who}");
            assert!(sent.window <= bdp * 2, "{who}");
            assert!(sent.window >= bdp * 9 / 10, "{who}");
            assert!(sent.queue <= bdp * 9 / 10, "{who}");
        }
    });
}

/// Nearly as little as where nothing is known, which the path soon is.
#[test]
fn growth_ends_at_the_capacity_if_less_was_saved() {
    each_path(|path, who| {
        for percent in [30, 50, 70, 85] {
            let bdp = path.bdp;
            let sent = grow(path, bdp * percent / 100, 10 * bdp);
            let who = format!("{who}, {percent} %: {sent:?}");

            assert!(sent.is_exit, "{who}");
            assert!(sent.window <= bdp * 9 / 4, "{who}");
            assert!(sent.queue <= bdp * 6 / 5, "{who}");
        }
    });
}

/// What something other than the path limited says how much the path holds at
/// least: beyond that it is doubled, and watched, as where nothing is known.
#[test]
fn growth_beyond_a_limited_capacity_is_slow_start() {
    for percent in [30, 45, 60, 80, 95] {
        each_path(|path, who| {
            let known = path.bdp * percent / 100;
            let mut soft_growth = SoftGrowth::new(known * MDS, false);
            let sent = path
                .send(known / 2, 10 * path.bdp, |ack| soft_growth.on_ack(ack));
            let who = format!("{who}, {percent} %: {sent:?}");

            assert!(sent.is_exit, "{who}");
            assert!(sent.queue <= path.bdp * 17 / 20, "{who}");
            assert!(sent.window >= path.bdp * 9 / 10, "{who}");
            assert!(sent.rtts < 7.0, "{who}");
        });
    }
}

/// Doubling would take three round trips to eight times as much.
#[test]
fn larger_path_is_detected_after_a_jump() {
    for rtt_ms in [20, 60, 600] {
        let path = TestPath::new(8000, rtt_ms);
        let sent = grow(&path, 1000, 7000);
        assert!(!sent.is_exit, "{sent:?}");
        assert!(sent.rtts < 8.0, "{sent:?}");
    }
}

/// From four times what was known on the path is an unknown one, and the window
/// doubles: by half alone it takes three round trips longer.
#[test]
fn far_larger_path_is_doubled_after_a_jump() {
    for rtt_ms in [20, 60, 600] {
        let path = TestPath::new(40_000, rtt_ms);
        let sent = grow(&path, 250, 32_000);
        assert!(!sent.is_exit, "{sent:?}");
        assert!(sent.rtts < 12.5, "{sent:?}");
    }
}

/// Also where the RTT swings.
#[test]
fn growth_below_saved_cwnd_is_the_controllers() {
    for swing in [0.0, 0.05, 0.09] {
        let path = TestPath {
            swing,
            ..TestPath::new(8000, 60)
        };
        let mut soft_growth = SoftGrowth::new(4000 * MDS, true);
        let sent = path.send(500, 4000, |ack| {
            let verdict = soft_growth.on_ack(ack);
            assert_eq!(verdict, Verdict::Grow(ack.grown), "{swing}");
            verdict
        });
        assert_eq!(sent.window, 4000);
    }
}

#[test]
fn growth_beyond_saved_cwnd_is_a_quarter() {
    let path = TestPath::new(8000, 60);
    let mut soft_growth = SoftGrowth::new(1000 * MDS, true);
    let (mut grown, mut kept) = (0, 0);

    path.send(1000, 1200, |ack| {
        let verdict = soft_growth.on_ack(ack);
        if let Verdict::Grow(bytes) = verdict {
            grown += ack.grown;
            kept += bytes;
        }
        verdict
    });

    assert!(
        kept <= grown / 4 && kept + MDS > grown / 4,
        "{kept} of {grown}"
    );
}

const KNOWN: usize = 100;
const MIN_RTT: Duration = Duration::from_millis(60);

/// A round trip: packets that are acknowledged, and how many of them, the first
/// ones, see a queue of 10 ms.
type RoundTrip = (u64, u64);

/// How often growth was ended, and the parts of the growth that were kept in
/// the last round trip, with a window of so many packets.
fn judge(window: usize, rounds: &[RoundTrip]) -> (usize, f64) {
    let mut soft_growth = SoftGrowth::new(KNOWN * MDS, true);
    let start = crate::clock::now();
    let (mut number, mut exits, mut kept) = (0, 0, 0);

    for (round, &(packets, queued)) in rounds.iter().enumerate() {
        kept = 0;
        for packet in 0..packets {
            let queue = if packet < queued { 10 } else { 0 };
            let verdict = soft_growth.on_ack(&AckSample {
                now: start
                    + MIN_RTT * round as u32
                    + MIN_RTT * packet as u32 / packets as u32,
                rtt: MIN_RTT + Duration::from_millis(queue),
                min_rtt: MIN_RTT,
                bytes: MDS,
                largest_acked: number,
                largest_sent: number + packets,
                cwnd: window * MDS,
                grown: MDS,
                max_datagram_size: MDS,
            });
            number += 1;
            match verdict {
                Verdict::Exit => exits += 1,
                Verdict::Grow(bytes) => kept += bytes,
            }
        }
    }

    let last = rounds.last().map_or(1, |round| round.0);
    (exits, kept as f64 / (last as usize * MDS) as f64)
}

/// The first of two such round trips makes suspicious, the second decides.
#[test]
fn two_full_round_trips_end_growth() {
    let cases: &[(&str, usize, &[RoundTrip], bool)] = &[
        ("both", KNOWN, &[(100, 100); 4], true),
        ("only once", KNOWN, &[(100, 100); 3], false),
        ("below what is known", KNOWN - 1, &[(100, 100); 8], false),
        ("no queue", KNOWN, &[(100, 0); 8], false),
        ("a short queue", KNOWN, &[(100, 15); 8], false),
        ("a queue for a third", KNOWN, &[(100, 40); 5], true),
        (
            "more is delivered",
            KNOWN,
            &[(60, 60), (72, 72), (87, 87), (105, 105), (126, 126)],
            false,
        ),
        (
            "a little more",
            KNOWN,
            &[(80, 80), (85, 85), (90, 90), (96, 96), (102, 102)],
            true,
        ),
        (
            "more in between",
            KNOWN,
            &[(100, 100), (100, 100), (120, 120), (120, 120)],
            false,
        ),
    ];
    for &(name, window, rounds, is_exit) in cases {
        let (exits, _) = judge(window, rounds);
        assert_eq!(exits > 0, is_exit, "{name}");
    }
}

/// The share of the growth beyond the known capacity, by the bytes delivered.
#[test]
fn eighth_more_without_a_queue_lifts_the_limit() {
    for (packets, queued, kept) in
        [(110, 0, 0.25), (116, 0, 0.5), (116, 116, 0.25)]
    {
        let (exits, part) = judge(KNOWN, &[(packets, queued); 2]);
        assert!((part - kept).abs() < 0.03, "{packets} {queued}: {part}");
        assert_eq!(exits, 0);
    }
}
