//! SEARCH in the recovery, event by event: a recovery is brought into a state,
//! and an ACK comes upon which SEARCH finds that slow start should end.

use super::*;
use crate::recovery::careful_resume::test_sender::legacy;
use crate::recovery::search::Search;
use crate::recovery::slow_start::test_path::*;
use crate::recovery::slow_start::SearchConfig;
use crate::CongestionControlAlgorithm::CUBIC;
use rstest::rstest;

/// Bytes that each ACK here is for.
const ACKED: usize = 3 * MDS;

/// A flow that is in slow start, in this phase of Careful Resume.
fn flow_in(phase: Phase) -> Flow {
    let setting = Setting::new(CUBIC, "search");
    let mut flow = Flow::new(match phase {
        Phase::Normal => setting,
        Phase::SafeRetreat => Setting {
            bdp: BDP / 4,
            buffer: BDP / 8,
            ..setting.resumed(2 * BDP)
        },
        _ => setting.resumed(BDP),
    });
    let rtts = if phase == Phase::Normal { 2.0 } else { 60.0 };
    flow.run(rtts, |flow| flow.phase() == phase && phase != Phase::Normal);
    assert_eq!(flow.phase(), phase);
    flow
}

/// SEARCH as it is just before it finds an exit. Returns when it does.
fn about_to_exit(form: SearchForm, now: Instant) -> (Box<Search>, Instant) {
    let mut search = Search::new(SearchConfig {
        form,
        ..Default::default()
    });
    let step = RTT / 20;

    // Nothing more arrives than did, however much is sent.
    let mut at = now;
    for tick in 0..400 {
        search.on_sent((tick + 1) * ACKED);
        at += step;
        let found = search.on_ack(&Ack {
            now: at,
            rtt: RTT,
            bytes: ACKED,
            limited: false,
        });
        if found.is_some_and(|evaluation| evaluation.is_exit) {
            return (Box::new(search), at + RTT / 2);
        }
    }
    panic!("SEARCH finds no exit");
}

/// Gives the flow's recovery that SEARCH, and an ACK upon which it finds an
/// exit.
fn exit_found(flow: &mut Flow, form: SearchForm) -> &mut LegacyRecovery {
    let (search, at) = about_to_exit(form, flow.now);
    let recovery = legacy(&mut flow.recovery);
    recovery.slow_start.search = Some(search);
    recovery.congestion.app_limited = false;
    recovery.search(ACKED, at);
    recovery
}

fn has_exited(recovery: &LegacyRecovery) -> bool {
    let exit = recovery.congestion.ssthresh.startup_exit;
    exit.is_some_and(|exit| exit.reason == StartupExitReason::BandwidthPlateau)
}

/// Upstream's reasons. A new one, with which this does not compile, would break
/// applications that name them all, as tokio-quiche does.
const _: fn(StartupExitReason) = |reason| match reason {
    StartupExitReason::Loss
    | StartupExitReason::BandwidthPlateau
    | StartupExitReason::PersistentQueue
    | StartupExitReason::ConservativeSlowStartRounds => (),
};

const FORMS: [SearchForm; 2] =
    [SearchForm::SentAgainstDelivered, SearchForm::DeliveredOnly];

#[test]
fn exit_in_slow_start_ends_it() {
    for form in FORMS {
        let mut flow = flow_in(Phase::Normal);
        let recovery = exit_found(&mut flow, form);
        assert!(has_exited(recovery), "{form:?}");
        assert!(recovery.slow_start.search.is_none());
    }
}

#[test]
fn search_at_the_threshold_is_over() {
    for form in FORMS {
        let mut flow = flow_in(Phase::Normal);
        let recovery = legacy(&mut flow.recovery);
        recovery.congestion.ssthresh.ssthresh =
            recovery.congestion.congestion_window;
        let recovery = exit_found(&mut flow, form);
        assert!(!has_exited(recovery), "{form:?}");
    }
}

/// 4.0 keeps what it collected, 3.x begins again.
#[test]
fn search_decides_nothing_in_unvalidated() {
    for form in FORMS {
        let mut flow = flow_in(Phase::Unvalidated);
        let recovery = exit_found(&mut flow, form);
        assert!(!has_exited(recovery), "{form:?}");

        let search = recovery.slow_start.search.as_ref().unwrap();
        assert_eq!(search.has_history(), form == FORMS[0], "{form:?}");
    }
}

#[test]
fn retreat_ends_search() {
    for form in FORMS {
        let mut flow = flow_in(Phase::SafeRetreat);
        let recovery = exit_found(&mut flow, form);
        assert!(!has_exited(recovery), "{form:?}");
        assert!(recovery.slow_start.search.is_none());
    }
}

/// One packet leaves for three that arrive, down to the target.
#[rstest]
#[case(100 * MDS, Some(90 * MDS), 98 * MDS, Some(90 * MDS))]
#[case(91 * MDS, Some(90 * MDS), 90 * MDS, None)]
#[case(92 * MDS, Some(90 * MDS), 90 * MDS, None)]
#[case(100 * MDS, None, 100 * MDS, None)]
fn window_drains_as_bytes_arrive(
    #[case] window: usize, #[case] target: Option<usize>, #[case] after: usize,
    #[case] left: Option<usize>,
) {
    let mut flow = flow_in(Phase::Normal);
    let recovery = legacy(&mut flow.recovery);
    recovery.congestion.congestion_window = window;
    recovery.slow_start.drain = target;

    recovery.drain(ACKED);
    assert_eq!(recovery.congestion.congestion_window, after);
    assert_eq!(recovery.slow_start.drain, left);
}

#[test]
fn loss_ends_the_drain_and_slow_start() {
    let mut flow = flow_in(Phase::Normal);
    let now = flow.now + Duration::from_millis(1);
    let recovery = legacy(&mut flow.recovery);
    recovery.slow_start.drain = Some(MDS);

    recovery.slow_start_on_loss(MDS, now);
    assert!(!recovery.slow_start.is_draining());
    assert_eq!(recovery.slow_start.stats().end, None);

    let exit = StartupExit::new(MDS, None, StartupExitReason::Loss);
    recovery.congestion.ssthresh.startup_exit = Some(exit);
    recovery.slow_start_on_loss(MDS, now);
    let end = recovery.slow_start.stats().end.unwrap();
    assert_eq!((end.reason, end.time), (SlowStartEndReason::Loss, now));

    recovery.slow_start_on_loss(MDS, now + RTT);
    assert_eq!(recovery.slow_start.stats().end, Some(end));
}
