//! The end of slow start on a path, with Reno and CUBIC. Times are in RTTs,
//! windows and queues in packets.
//!
//! SEARCH looks back by the latest RTT, which grows with the queue: with a
//! window that doubles each RTT, 4.5 BDP are queued before the decision has an
//! effect (4.0; 5.5 with 3.x). Where the buffer is shorter, loss comes first,
//! so that the paths on which SEARCH ends slow start have a buffer of 6 BDP
//! here.
//!
//! A buffer of 1 BDP is out of reach of SEARCH, whatever it looks back by. With
//! the rate sent 2^t up to the link's (t = 0) and for an RTT beyond, then twice
//! the link's, the queue is a BDP at t = 1.56. The sender has compared 1.81 BDP
//! delivered in 3.5 RTTs with 1.94 sent, 6 % less, where the threshold is 26.

use super::test_path::*;
use super::*;
use crate::careful_resume::AfterJump;
use crate::careful_resume::Phase;
use crate::careful_resume::Trigger;
use crate::recovery::RecoveryOps;
use crate::CongestionControlAlgorithm;
use crate::CongestionControlAlgorithm::Reno;
use crate::CongestionControlAlgorithm::CUBIC;
use rstest::rstest;

use SlowStartEndReason::*;

const DEEP: usize = 6 * BDP;

fn ended(flow: &Flow) -> bool {
    flow.end().is_some()
}

/// The drain is over as well.
fn settled(flow: &Flow) -> bool {
    ended(flow) && flow.recovery.slow_start().is_some_and(SlowStart::is_over)
}

/// Test 1: a full path ends it, without loss, and what is left of the window
/// is what the path holds.
#[rstest]
fn search_ends_slow_start_on_a_full_path(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values("search", "search-3")] exit: &str,
) {
    let buffer = DEEP;
    let mut flow = Flow::new(Setting {
        buffer,
        ..Setting::new(cc, exit)
    });
    flow.run(60.0, settled);

    let end = flow.end().unwrap();
    assert_eq!((end.reason, flow.dropped), (Search, 0));
    let late = flow.rtts(end.time) - flow.rtts(flow.full.unwrap());
    let window = flow.window();
    // 4.8 and 5.9, with queues of 4.5 and 5.5 BDP: two of the RTTs as they are
    // by then.
    assert!((4.0..6.5).contains(&late), "{late}");

    // The cut of 3.x takes back the last two RTTs, not the whole overshoot.
    if exit == "search" {
        assert!((700..1500).contains(&window), "{window}");
    }

    // CUBIC's plateau is no stale one: it stays there for a while.
    flow.run(10.0, |_| false);
    assert_eq!(flow.dropped, 0);
}

/// A queue that others make ends slow start far below what the path holds,
/// which goes on when they have left.
#[rstest]
fn slow_start_continues_after_a_foreign_queue(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values("queue", "rapid")] exit: &str,
) {
    let mut flow = Flow::new(Setting::new(cc, exit));
    flow.run(60.0, |flow| flow.window() > BDP / 8);
    for _ in 0..60 {
        flow.others_queue(RTT * 2 / 3);
        flow.run(0.1, |_| false);
    }
    let end = flow.end().expect("a queue stands");
    let window = flow.window();
    assert_eq!(end.reason, Queue);
    assert!(window < BDP / 2, "{window}");

    // By half in a round trip.
    flow.run(8.0, |_| false);
    assert!(flow.window() > BDP, "{}", flow.window());
    assert_eq!(flow.dropped, 0);
    // And ends by what the flow itself queues.
    flow.run(60.0, ended);
    assert!(flow.end().is_some_and(|last| last.time > end.time));
}

/// RTTs until the window holds as much as the path, from ten packets on.
fn rtts_until_full(cc: CongestionControlAlgorithm, exit: &str) -> f64 {
    let mut flow = Flow::new(Setting::new(cc, exit));
    flow.run(60.0, |flow| flow.full.is_some());
    flow.rtts(flow.full.unwrap())
}

/// A hundredfold: 6.6 doublings, or 4.2 times three.
#[rstest]
fn rapid_start_fills_sooner_with_a_bdp_of_buffer(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let (queue, rapid) =
        (rtts_until_full(cc, "queue"), rtts_until_full(cc, "rapid"));
    assert!(rapid < queue - 1.5, "{rapid} {queue}");

    let mut flow = Flow::new(Setting::new(cc, "rapid"));
    flow.run(60.0, ended);
    assert!(flow.dropped < BDP / 20, "{}", flow.dropped);
}

/// What is left of the window: the controller's decrease of what fits, somewhat
/// less where a burst of the last round overflowed the buffer before it was
/// full.
#[rstest]
#[case(CUBIC, 0.7)]
#[case(Reno, 0.5)]
fn overflowing_rapid_start_converges(
    #[case] cc: CongestionControlAlgorithm, #[case] beta: f64,
) {
    for buffer in [BDP / 10, BDP / 5, BDP / 2] {
        let mut flow = Flow::new(Setting {
            buffer,
            ..Setting::new(cc, "rapid")
        });
        flow.run(60.0, settled);
        assert_eq!(flow.end().map(|end| end.reason), Some(Loss));

        let of_what_fits = flow.window() as f64 / (BDP + buffer) as f64;
        let range = beta * 0.75..beta * 1.1;
        assert!(range.contains(&of_what_fits), "{buffer}: {of_what_fits}");
    }
}

/// With a deep buffer HyStart++ ends slow start, and is the reason.
#[rstest]
fn hystart_ends_slow_start_at_a_longer_rtt(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut flow = Flow::new(Setting {
        buffer: 30 * BDP,
        ..Setting::new(cc, "hystart")
    });
    flow.run(60.0, ended);
    assert_eq!(flow.end().map(|end| end.reason), Some(HyStart));
    assert!(flow.is_conservative());
    assert_eq!(flow.dropped, 0);
}

/// Test 2: where the buffer is short, loss comes first, and SEARCH is silent
/// ever after.
#[rstest]
#[case(BDP / 20)]
#[case(BDP)]
fn loss_ends_slow_start_with_a_short_buffer(
    #[case] buffer: usize, #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values("search", "search-3")] exit: &str,
) {
    let mut flow = Flow::new(Setting {
        buffer,
        ..Setting::new(cc, exit)
    });
    flow.run(60.0, ended);
    let end = flow.end().unwrap();
    assert_eq!(end.reason, Loss);

    flow.run(100.0, |_| false);
    assert_eq!(flow.end(), Some(end));
}

/// Test 3: a delay that swings, with a period of 3.3 RTTs and by a fifth, on a
/// path that is never full.
#[rstest]
fn swinging_delay_does_not_end_slow_start(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values("search", "search-3")] exit: &str,
) {
    let mut flow = Flow::new(Setting {
        bdp: 16 * BDP,
        swing: 0.2,
        ..Setting::new(cc, exit)
    });
    flow.run(60.0, |flow| flow.window() > 8 * BDP);
    assert_eq!(flow.end(), None);
    assert!(flow.rtts(flow.now) > 6.0, "not looked at yet");
}

/// It may end slow start, far below what the path holds, for less than a swing:
/// hundreds of RTTs of congestion avoidance would follow.
#[rstest]
fn slow_start_continues_after_a_swing(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values("queue", "rapid")] exit: &str,
    #[values(0.1, 0.15, 0.2, 0.3)] swing: f64,
) {
    let mut flow = Flow::new(Setting {
        bdp: 16 * BDP,
        swing,
        ..Setting::new(cc, exit)
    });
    flow.run(60.0, |flow| flow.window() > 8 * BDP);
    let rtts = flow.rtts(flow.now);
    assert!(rtts < 26.0, "{rtts} RTTs, {} packets", flow.window());
    assert_eq!(flow.end(), None);
}

/// Growth after a jump detects queues itself; the exit does not apply.
#[rstest]
fn growth_after_a_jump_is_the_same_with_any_exit(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values(0.0, 0.05, 0.08)] swing: f64,
) {
    let windows = ["queue", "none"].map(|exit| {
        let mut flow = Flow::new(Setting {
            swing,
            ..Setting::new(cc, exit).resumed_with(BDP, AfterJump::Soft)
        });
        [1.0; 8].map(|rtts| {
            flow.run(rtts, |_| false);
            flow.window()
        })
    });
    assert_eq!(windows[0], windows[1]);
}

/// Without saved parameters Careful Resume changes nothing.
#[rstest]
fn without_saved_parameters_the_exit_decides(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values(0.0, 0.2)] swing: f64,
) {
    let plain = Setting {
        swing,
        ..Setting::new(cc, "queue")
    };
    let ends = [plain, plain.with_nothing_saved()].map(|setting| {
        let mut flow = Flow::new(setting);
        flow.run(20.0, |_| false);
        (flow.end().map(|end| flow.rtts(end.time)), flow.window())
    });
    assert_eq!(ends[0], ends[1]);
}

/// What a jump brought may be lost by doubling: a delay that has swung back is
/// no reason for it.
#[rstest]
fn slow_start_after_a_jump_ends_at_a_swing(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values(0.15, 0.2, 0.3)] swing: f64,
) {
    let mut flow = Flow::new(Setting {
        bdp: 16 * BDP,
        swing,
        ..Setting::new(cc, "queue").resumed(BDP / 4)
    });
    flow.run(60.0, ended);
    let end = flow.end();
    flow.run(20.0, |_| false);
    assert_eq!(flow.end(), end);
}

/// Test 4: pauses of the application that are longer than a window.
#[rstest]
fn pauses_do_not_end_slow_start(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values("search", "search-3")] exit: &str,
) {
    let mut flow = Flow::new(Setting {
        bdp: 16 * BDP,
        ..Setting::new(cc, exit)
    });
    for window in [400, 2000, 8000] {
        flow.run(60.0, |flow| flow.window() > window);
        flow.paused_until = flow.now + RTT * 8;
        flow.run(8.0, |_| false);
    }
    assert_eq!(flow.end(), None);
}

/// Test 5: jumps on an idle path, to half of what it holds, and to little more
/// than the window. HyStart++ of itself looks at the RTT, which is the base's.
#[rstest]
#[case(BDP)]
#[case(22)]
fn jump_does_not_end_slow_start(
    #[case] saved: usize, #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values("hystart", "search", "search-3")] exit: &str,
) {
    let mut flow = Flow::new(Setting::new(cc, exit).resumed(saved));
    let is_full = |flow: &Flow| flow.full.is_some();
    flow.run(60.0, is_full);

    assert!(is_full(&flow));
    assert_eq!((flow.end(), flow.is_conservative()), (None, false));
}

/// Test 5 as well: the path is no larger than the saved capacity, and what
/// comes later, without a history from before the jump, still ends it.
#[rstest]
fn search_ends_slow_start_after_a_jump(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values("search", "search-3")] exit: &str,
) {
    let mut flow = Flow::new(Setting {
        buffer: 10 * BDP,
        ..Setting::new(cc, exit).resumed(BDP)
    });
    flow.run(60.0, ended);
    assert_eq!(flow.end().map(|end| end.reason), Some(Search));
    assert_eq!(flow.phase(), Phase::Normal);
}

/// Test 6: the path carries a half, or a quarter, of what the jump sends into
/// it. Loss leads to the retreat, and no exit hides it.
#[rstest]
#[case(BDP / 2)]
#[case(BDP / 4)]
fn jump_into_a_narrower_path_retreats(
    #[case] bdp: usize, #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values("hystart", "search", "search-3", "none")] exit: &str,
) {
    let mut flow = Flow::new(Setting {
        bdp,
        buffer: bdp / 2,
        ..Setting::new(cc, exit).resumed(2 * BDP)
    });
    flow.run(60.0, ended);
    assert_eq!(flow.end().map(|end| end.reason), Some(Loss));
    assert_eq!(flow.phase(), Phase::SafeRetreat);
    // The observation during the retreat is no capacity.
    assert_eq!(flow.recovery.path_state(flow.now), None);

    // Neither starts again in what is no first slow start any more.
    flow.run(60.0, |_| false);
    assert_eq!(flow.phase(), Phase::Normal);
    assert_eq!(flow.end().map(|end| end.reason), Some(Loss));
}

/// Test 6 as well: the capacity is half of what it was, which is just what the
/// jump fills. The doubling after it ends in loss, and no exit hides that.
#[rstest]
fn jump_that_fills_a_narrower_path_loses(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values("hystart", "search", "search-3", "none")] exit: &str,
) {
    let mut flow = Flow::new(Setting {
        bdp: BDP / 2,
        buffer: BDP / 4,
        ..Setting::new(cc, exit).resumed(BDP)
    });
    flow.run(60.0, ended);
    assert_eq!(flow.end().map(|end| end.reason), Some(Loss));
}

/// Test 7: the RTT outgrows what is remembered.
#[rstest]
fn queue_of_many_rtts_does_no_harm(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let never = SearchConfig {
        threshold: 0.999,
        ..Default::default()
    };
    let mut flow = Flow::new(Setting {
        exit: SlowStartExit::Search(never),
        bdp: 100,
        buffer: 2000,
        ..Setting::new(cc, "search")
    });
    flow.run(100.0, ended);
    assert!(flow.queue_max > 700, "{}", flow.queue_max);
    assert_eq!(flow.end().map(|end| end.reason), Some(Loss));
}

/// What is observed after an exit is the path's capacity, not the window that
/// overshot it, and it is not limited: it replaces what is held.
#[rstest]
fn exit_shows_the_capacity(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut flow = Flow::new(Setting {
        buffer: DEEP,
        ..Setting::new(cc, "search").resumed(24)
    });
    flow.run(60.0, ended);
    let window = flow.end().unwrap().congestion_window / MDS;
    assert!(window > 2 * BDP, "{window}");
    flow.run(1.5, |_| false);

    let observed = flow.recovery.path_state(flow.now).unwrap();
    let saved = observed.saved_cwnd as usize / MDS;
    assert!((800..1200).contains(&saved), "{saved}");
    assert!(!observed.limited);
}

/// With the ceiling, slow start after a jump ends at what was saved; statistics
/// know of no exit, and what is observed there is limited.
#[rstest]
fn slow_start_ends_at_the_ceiling(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values("hystart", "none", "search")] exit: &str,
) {
    for after_jump in [AfterJump::None, AfterJump::Ceiling] {
        let ceiling = after_jump == AfterJump::Ceiling;
        let mut flow = Flow::new(Setting {
            bdp: 4 * BDP,
            ..Setting::new(cc, exit).resumed_with(BDP, after_jump)
        });
        flow.run(6.0, |flow| flow.window() > 2 * BDP);
        let is_beyond = flow.window() > 2 * BDP;
        assert_eq!(is_beyond, !ceiling, "{}", flow.window());
        assert_eq!((flow.end(), flow.recovery.startup_exit()), (None, None));

        if ceiling {
            let observed = flow.recovery.path_state(flow.now).unwrap();
            assert!(observed.limited, "{observed:?}");
        }
    }
}

/// A queue that stands ends slow start before the buffer overflows.
#[rstest]
fn standing_queue_ends_slow_start_without_loss(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut flow = Flow::new(Setting {
        buffer: BDP * 5 / 4,
        ..Setting::new(cc, "queue")
    });
    flow.run(60.0, ended);

    let end = flow.end().unwrap();
    assert_eq!((end.reason, flow.dropped), (Queue, 0));
    let window = end.ssthresh / MDS;
    assert!((BDP..BDP * 9 / 4).contains(&window), "{window}");

    flow.run(3.0, |_| false);
    assert_eq!(flow.dropped, 0);
}

/// What was sent before the exit may be lost after it: the first loss is
/// congestion (RFC 9002, 7.3.2).
#[rstest]
fn loss_after_the_exit_is_answered(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut flow = Flow::new(Setting {
        buffer: DEEP,
        ..Setting::new(cc, "queue")
    });
    flow.run(60.0, ended);
    flow.run(0.1, |_| false);
    assert_eq!(flow.end().map(|end| end.reason), Some(Queue));
    let window = flow.window();

    flow.lose(3);
    flow.run(0.5, |_| false);
    let after = flow.window();
    assert!(after < window * 3 / 4, "{window}, {after}");
}

/// After a jump to half of what the path holds, growth beyond the saved
/// capacity loses nothing, whatever else ends slow start; and what is observed
/// at its end is not limited.
#[rstest]
#[case(BDP)]
#[case(BDP * 3 / 4)]
fn soft_growth_ends_slow_start_without_loss(
    #[case] saved: usize, #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values("queue", "hystart", "search", "none")] exit: &str,
) {
    let mut flow =
        Flow::new(Setting::new(cc, exit).resumed_with(saved, AfterJump::Soft));
    flow.run(60.0, ended);

    assert_eq!(flow.end().map(|end| end.reason), Some(Queue));
    assert_eq!((flow.phase(), flow.dropped), (Phase::Normal, 0));

    flow.run(3.0, |_| false);
    let observed = flow.recovery.path_state(flow.now).unwrap();
    assert!(!observed.limited, "{observed:?}");
}

/// On a path so narrow that the initial window queues, HyStart++ notices that
/// before the jump, and cancels it.
#[rstest]
#[case("hystart", Trigger::SlowStartExit)]
#[case("none", Trigger::CongestionWindowLimited)]
fn exit_in_reconnaissance_cancels_the_jump(
    #[case] exit: &str, #[case] expected: Trigger,
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut flow = Flow::new(Setting {
        bdp: 5,
        buffer: 1000,
        ..Setting::new(cc, exit).resumed(2000)
    });
    flow.run(20.0, |flow| flow.phase() != Phase::Reconnaissance);

    assert_eq!(flow.is_conservative(), exit == "hystart");
    let resume = flow.recovery.careful_resume_mut().unwrap();
    let events = std::iter::from_fn(|| resume.next_event());
    assert_eq!(events.last().and_then(|e| e.trigger), Some(expected));
}

/// The window is three times what the receiver allows to be in flight, at most.
#[rstest]
fn flow_control_ends_growth(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values(500, 800)] receive_window: usize,
) {
    let mut flow = Flow::new(Setting {
        receive_window: Some(receive_window),
        ..Setting::new(cc, "queue")
    });

    flow.run(500.0, |_| false);

    let window = flow.window();
    assert!(window >= receive_window, "{window}");
    assert!(window <= 3 * receive_window + 2, "{window}");
}
