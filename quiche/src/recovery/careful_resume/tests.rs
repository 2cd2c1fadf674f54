//! Action tables: what is sent, acknowledged and lost, and the window and
//! phase that follow, for both controllers. Windows are in packets.

use super::test_sender::Sender;
use super::test_sender::IW;
use super::test_sender::MDS;
use super::test_sender::RTT;
use super::*;
use crate::packet::Epoch;
use crate::recovery::RecoveryOps;
use crate::CongestionControlAlgorithm;
use crate::CongestionControlAlgorithm::Bbr2Gcongestion;
use crate::CongestionControlAlgorithm::Reno;
use crate::CongestionControlAlgorithm::CUBIC;
use rstest::rstest;

use Phase::*;
use Trigger::*;

/// B8, C1, C2, C6, C9, C13, D1, D2, D4: the whole way, without congestion.
#[rstest]
fn path_that_takes_the_jump_validates_it(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::resumed(cc, 300);
    sender.reconnoitre();
    assert_eq!((sender.phase(), sender.window()), (Unvalidated, 150));
    assert_eq!(sender.pipe_size(), 0);

    assert_eq!(sender.fill(), 150);
    assert_eq!((sender.phase(), sender.window()), (Validating, 150));

    sender.wait(RTT);
    sender.ack(10..20);
    assert_eq!((sender.pipe_size(), sender.window()), (10, 160));

    sender.fill();
    sender.ack(20..159);
    assert_eq!(sender.phase(), Validating);
    sender.ack(159..160);
    assert_eq!((sender.phase(), sender.window()), (Normal, 300));

    assert_eq!(
        sender.triggers(),
        [
            (Reconnaissance, None),
            (Unvalidated, Some(CongestionWindowLimited)),
            (Validating, Some(LastUnvalidatedPacketSent)),
            (Normal, Some(LastUnvalidatedPacketAcknowledged)),
        ]
    );
    assert_eq!(sender.triggers(), []);
}

/// In congestion avoidance the window is the path's, from its first packet on.
#[rstest]
fn observation_in_congestion_avoidance_is_unlimited(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::new(cc);
    sender.fill();
    sender.wait(RTT);
    // The rest is lost, before anything is observed.
    sender.ack(3..10);

    for _ in 0..2 {
        let first = sender.next;
        sender.fill();
        sender.wait(RTT);
        sender.ack(first..sender.next);
    }
    let observed = sender.careful_resume().observer.observed().unwrap();
    assert!(!observed.limited);
}

/// RFC 9002, 5.1: a sample is that of the largest packet acknowledged so far,
/// and of an ACK-eliciting one.
#[rstest]
fn late_acks_are_no_rtt_samples(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::resumed(cc, 300);
    let current = |sender: &Sender| sender.current_rtt();
    sender.send(2);
    sender.send_ack_only();
    assert_eq!(current(&sender), None);

    sender.wait(RTT / 4);
    sender.ack(2..3);
    assert_eq!(current(&sender), None);
    sender.wait(RTT / 4);
    sender.ack(0..1);
    assert_eq!(current(&sender), None);

    sender.send(1);
    sender.wait(RTT);
    sender.ack(1..4);
    assert_eq!(current(&sender), Some(RTT));
}

/// Of packets of this size, after how many the next full one may be the last of
/// the initial window.
#[rstest]
#[case(1200, 9)]
#[case(1000, 10)]
#[case(700, 14)]
#[case(601, 16)]
fn packet_that_fills_the_initial_window_is_foreseen(
    #[case] size: usize, #[case] packets: usize,
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::resumed(cc, 300);

    for sent in 1..packets {
        sender.send_sized(size);
        assert!(!sender.careful_resume().needs_prompt_ack(), "{sent}");
    }
    sender.send_sized(size);
    assert!(sender.careful_resume().needs_prompt_ack());

    sender.send(1);
    assert!(!sender.careful_resume().needs_prompt_ack());
}

/// The path has shown what it holds: nothing limits growth any longer, and what
/// is observed is not limited.
#[rstest]
fn exit_after_the_jump_lifts_growth_limits(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values(AfterJump::Soft, AfterJump::Ceiling)] after_jump: AfterJump,
) {
    let config = CarefulResumeConfig {
        after_jump,
        ..Default::default()
    };
    let mut sender = Sender::with_config(cc, Some(config), false);
    assert!(sender.careful_resume_from(300));
    sender.reconnoitre();
    sender.fill();
    sender.wait(RTT);
    sender.ack(10..160);
    assert_eq!((sender.phase(), sender.window()), (Normal, 300));
    let is_limited =
        |sender: &Sender| sender.recovery.path_state(sender.now).unwrap().limited;
    let limits = |sender: &Sender| {
        let resume = sender.careful_resume();
        (resume.limits_growth(), resume.ceiling().is_some())
    };
    assert!(is_limited(&sender));
    let is_soft = after_jump == AfterJump::Soft;
    assert_eq!(limits(&sender), (is_soft, !is_soft));

    sender
        .recovery
        .careful_resume_mut()
        .unwrap()
        .on_slow_start_exit();
    assert_eq!(limits(&sender), (false, false));

    for _ in 0..4 {
        let first = sender.next;
        sender.fill();
        sender.wait(RTT);
        sender.ack(first..sender.next);
    }
    assert!(!is_limited(&sender));
}

/// B8: all of the initial window, in any order.
#[rstest]
fn jump_waits_for_the_whole_initial_window(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::resumed(cc, 300);
    sender.fill();
    sender.wait(RTT);

    for acked in [1..3, 0..1, 4..6, 3..4, 7..9, 6..7] {
        sender.ack(acked);
        assert_eq!(sender.phase(), Reconnaissance);
    }

    sender.ack(9..10);
    assert_eq!(sender.phase(), Unvalidated);
}

/// C1: packets in flight at the jump are the first of the pipe size.
#[rstest]
fn pipe_size_starts_from_bytes_in_flight(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::resumed(cc, 300);
    sender.fill();
    sender.wait(RTT);

    for i in 0..IW as u64 {
        assert_eq!(sender.phase(), Reconnaissance);
        sender.ack(i..i + 1);
        if sender.phase() == Reconnaissance {
            sender.fill();
        }
    }

    // Nine ACKs let two packets go each; the tenth brings the jump.
    assert_eq!((sender.phase(), sender.window()), (Unvalidated, 150));
    assert_eq!(sender.pipe_size(), 18);
    assert_eq!(sender.fill(), 150 - 18);
    assert_eq!(sender.unvalidated_packets(), (Some(28), Some(159)));
}

/// Vector 3 (C10, C11, C13): what is in flight is the window.
#[rstest]
fn jump_used_in_part_validates_the_flight(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values(FirstUnvalidatedPacketAcknowledged, RttExceeded)] exit: Trigger,
) {
    let mut sender = Sender::resumed(cc, 300);
    sender.reconnoitre();
    sender.send(50);
    assert_eq!((sender.phase(), sender.window()), (Unvalidated, 150));

    match exit {
        RttExceeded => {
            sender.wait(RTT + Duration::from_millis(1));
            sender.send(1);
            assert_eq!(sender.window(), 51);
        },
        _ => {
            sender.wait(RTT);
            sender.ack(10..11);
            assert_eq!(sender.window(), 49);
        },
    }

    assert_eq!(sender.phase(), Validating);
    assert_eq!(sender.triggers().last(), Some(&(Validating, Some(exit))));
}

/// C10: an ACK of a packet before the jump shows that the RTT of the jump is
/// over.
#[rstest]
fn late_old_ack_ends_unvalidated(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::resumed(cc, 300);
    sender.fill();
    sender.wait(RTT);
    sender.ack(0..5);
    sender.fill();
    sender.ack(5..10);
    sender.send(50);
    assert_eq!(sender.phase(), Unvalidated);

    sender.wait(RTT + Duration::from_millis(1));
    sender.ack(10..11);
    let last = sender.triggers().pop();
    assert_eq!(last, Some((Validating, Some(RttExceeded))));
}

/// Vector 5 (C12): nothing more than before was sent.
#[rstest]
fn unused_jump_ends_at_the_pipe_size(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::resumed(cc, 300);
    sender.reconnoitre();
    sender.send(3);
    sender.wait(RTT);
    sender.ack(10..13);

    assert_eq!((sender.phase(), sender.window()), (Normal, IW));
    assert_eq!(sender.triggers().last(), Some(&(Normal, Some(RateLimited))));
}

/// Vector 4 (C8, E2 to E8): a packet of the jump is lost.
#[rstest]
fn path_that_refuses_the_jump_retreats(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::resumed(cc, 300);
    sender.reconnoitre();
    sender.fill();
    sender.wait(RTT);

    // 63 packets arrive, one is lost, three more show it.
    sender.ack(10..73);
    assert_eq!((sender.phase(), sender.pipe_size()), (Validating, 63));
    sender.ack(74..77);

    assert_eq!(sender.phase(), SafeRetreat);
    assert_eq!(sender.pipe_size(), 66);
    assert_eq!(sender.window(), 33);

    // Frozen, and no proportional rate reduction, while the pipe size grows.
    for i in 77..159 {
        sender.ack(i..i + 1);
        assert_eq!((sender.phase(), sender.window()), (SafeRetreat, 33));
        let available = 33_usize
            .saturating_sub(sender.recovery.bytes_in_flight().div_ceil(MDS));
        assert_eq!(sender.recovery.cwnd_available() / MDS, available);
    }

    sender.ack(159..160);
    assert_eq!((sender.phase(), sender.window()), (Normal, 33));

    let resume = sender.recovery.careful_resume_mut().unwrap();
    let events = std::iter::from_fn(|| resume.next_event());
    let end = events.last().unwrap();
    assert_eq!(end.trigger, Some(ExitRecovery));
    assert_eq!(end.ssthresh / MDS, (66 + 83) / 2);
}

/// C8: what is lost of one flight is one event.
#[rstest]
fn further_losses_of_a_flight_change_nothing(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::resumed(cc, 300);
    sender.reconnoitre();
    sender.fill();
    sender.wait(RTT);
    sender.ack(10..73);
    sender.ack(74..77);
    assert_eq!((sender.phase(), sender.window()), (SafeRetreat, 33));

    for from in [80, 90, 100] {
        sender.ack(from..from + 4);
        assert_eq!((sender.phase(), sender.window()), (SafeRetreat, 33));
    }
}

/// A probe of the MTU that is lost is no congestion.
#[rstest]
fn lost_mtu_probe_is_no_congestion(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::resumed(cc, 300);
    sender.reconnoitre();
    sender.send_mtu_probe();
    sender.fill();
    assert_eq!(sender.phase(), Validating);

    sender.wait(RTT);
    sender.ack(11..160);
    assert_eq!(sender.phase(), Normal);
    assert_eq!(
        sender.triggers().last(),
        Some(&(Normal, Some(LastUnvalidatedPacketAcknowledged)))
    );
}

/// CUBIC remembers the pipe size of the retreat as its plateau, not the jump.
#[test]
fn plateau_after_a_retreat_is_the_pipe_size() {
    let mut sender = Sender::resumed(CUBIC, 300);
    sender.reconnoitre();
    sender.fill();
    sender.wait(RTT);
    sender.ack(10..73);
    sender.ack(74..77);
    assert_eq!(sender.pipe_size(), 66);

    let state = format!("{:?}", sender.recovery);
    let w_max = format!("w_max={} ", 66 * MDS);
    assert!(state.contains(&w_max), "{state}");
}

/// Vector 8 (F1): persistent congestion ends it in every phase, and nothing
/// revives it.
#[rstest]
fn persistent_congestion_ends_careful_resume(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values(Reconnaissance, Unvalidated, Validating, SafeRetreat)] phase: Phase,
) {
    let mut sender = in_phase(cc, phase);
    let c = sender.conditions();
    let resume = sender.recovery.careful_resume_mut().unwrap();
    let action = resume.on_persistent_congestion(&c);

    match phase {
        SafeRetreat => assert!(matches!(action, Action::EndRetreat { .. })),
        _ => assert_eq!(action, Action::Keep),
    }
    assert_eq!(
        sender.triggers().last(),
        Some(&(Normal, Some(PersistentCongestion)))
    );

    sender.wait(RTT);
    sender.ack(0..sender.next);
    sender.fill();
    assert_eq!(sender.phase(), Normal);
    assert_eq!(sender.triggers(), []);
}

/// F1: detected when packets that were sent over a long time are all lost.
#[rstest]
fn losses_over_a_long_time_end_careful_resume(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values(false, true)] one_in_between_arrives: bool,
) {
    let mut sender = in_phase(cc, Validating);
    sender.wait(Duration::from_secs(1));
    sender.send(1);
    sender.wait(Duration::from_secs(1));
    sender.send(4);

    if one_in_between_arrives {
        sender.ack(160..161);
    }
    sender.ack(164..165);

    let (phase, trigger) = match one_in_between_arrives {
        false => (Normal, PersistentCongestion),
        true => (Normal, ExitRecovery),
    };
    assert_eq!(sender.triggers().last(), Some(&(phase, Some(trigger))));
}

/// F1: the event that ends Careful Resume tells the window after it.
#[rstest]
fn event_of_persistent_congestion_has_the_minimum_window(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::resumed(cc, 100);
    for (packets, acked) in [(10, 10), (30, 20)] {
        let first = sender.next;
        sender.send(packets);
        sender.wait(RTT);
        for number in first..first + acked {
            sender.ack(number..number + 1);
        }
    }
    for (packets, rtts) in [(10, 5), (1, 5), (1, 2), (1, 1)] {
        sender.send(packets);
        sender.wait(RTT * rtts);
    }
    sender.ack(sender.next - 1..sender.next);

    let resume = sender.recovery.careful_resume_mut().unwrap();
    let mut events: Vec<_> = std::iter::from_fn(|| resume.next_event()).collect();
    let end = events.pop().unwrap();
    assert_eq!(end.trigger, Some(PersistentCongestion));
    assert_eq!(end.congestion_window, 2 * MDS);
    // Those before it keep theirs.
    let jump = events.iter().find(|e| e.new == Unvalidated).unwrap();
    assert_eq!(jump.congestion_window, 50 * MDS);
}

/// Vector 9: a mark behaves as a loss.
#[rstest]
#[case(Reconnaissance, Normal)]
#[case(Unvalidated, SafeRetreat)]
#[case(Validating, SafeRetreat)]
fn congestion_mark_acts_as_a_loss(
    #[case] phase: Phase, #[case] then: Phase,
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = in_phase(cc, phase);
    let c = sender.conditions();
    let resume = sender.recovery.careful_resume_mut().unwrap();
    let action = resume.on_congestion(EcnCe, &c);

    let retreats = matches!(action, Action::Retreat { .. });
    assert_eq!(retreats, then == SafeRetreat);
    assert_eq!(sender.triggers().last(), Some(&(then, Some(EcnCe))));
}

/// Returns a sender with a saved capacity of 300 packets, in `phase`.
fn in_phase(cc: CongestionControlAlgorithm, phase: Phase) -> Sender {
    let mut sender = Sender::resumed(cc, 300);

    if phase != Reconnaissance {
        sender.reconnoitre();
    }
    match phase {
        Reconnaissance => sender.send(5),
        Unvalidated => sender.send(50),
        _ => sender.send(150),
    }
    if phase == SafeRetreat {
        sender.wait(RTT);
        sender.ack(13..14);
    }

    assert_eq!(sender.phase(), phase);
    sender
}

/// C7: the RTT tells that the jump goes into another path.
#[rstest]
fn much_shorter_rtt_in_unvalidated_retreats(
    #[values(Reno, CUBIC, Bbr2Gcongestion)] cc: CongestionControlAlgorithm,
    #[values(AfterJump::Soft, AfterJump::Ceiling)] after_jump: AfterJump,
) {
    for (rtt_percent, phase, trigger) in [
        (50, SafeRetreat, PathChanged),
        (51, Validating, FirstUnvalidatedPacketAcknowledged),
    ] {
        let config = CarefulResumeConfig {
            after_jump,
            ..Default::default()
        };
        let mut sender = Sender::with_config(cc, Some(config), false);
        assert!(sender.careful_resume_from(300));
        sender.reconnoitre();
        sender.send(50);
        sender.wait(RTT * rtt_percent / 100);
        sender.ack(10..11);

        assert_eq!(sender.triggers().last(), Some(&(phase, Some(trigger))));

        // What was saved of another path limits nothing.
        let has_ceiling = sender.careful_resume().ceiling().is_some();
        let is_kept = after_jump == AfterJump::Ceiling && phase == Validating;
        assert_eq!(has_ceiling, is_kept);
    }
}

/// F1: Careful Resume ends once, and does not begin again.
#[rstest]
fn normal_phase_ignores_all_events(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::new(cc);
    sender.reconnoitre();
    sender.fill();
    sender.wait(RTT);
    sender.ack(10..30);
    assert_eq!(sender.triggers(), [(Normal, Some(NoSavedSet))]);
    let c = sender.conditions();

    let resume = sender.recovery.careful_resume_mut().unwrap();
    for action in [
        resume.on_congestion(PacketLoss, &c),
        resume.on_persistent_congestion(&c),
        resume.on_path_change(&c),
        resume.on_packet_sent(99, false, &c),
    ] {
        assert_eq!(action, Action::Keep);
    }
    assert!(!sender.careful_resume_from(300));
    assert_eq!((sender.phase(), sender.triggers()), (Normal, vec![]));
}

/// E2: QUIC's floor, where half the pipe size is less.
#[rstest]
fn retreat_leaves_at_least_two_packets(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::resumed(cc, 300);
    sender.reconnoitre();
    sender.fill();
    sender.wait(RTT);
    sender.ack(13..14);

    assert_eq!((sender.phase(), sender.window()), (SafeRetreat, 2));
}

/// A late ACK of the lost packet must not bring the jumped window back.
#[rstest]
fn spurious_loss_does_not_restore_the_jump(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::resumed(cc, 300);
    sender.reconnoitre();
    sender.fill();
    sender.wait(RTT);
    sender.ack(10..73);
    sender.ack(74..77);
    assert_eq!(sender.phase(), SafeRetreat);

    sender.ack(73..160);
    assert_eq!(sender.phase(), Normal);
    assert!(sender.window() <= 33);

    for _ in 0..3 {
        sender.wait(RTT);
        let from = sender.next;
        sender.fill();
        sender.ack(from..sender.next);
        assert!(sender.window() < 150);
    }
}

/// Vector 6 (B2): the controller answers, as without Careful Resume.
#[rstest]
fn loss_in_reconnaissance_ends_careful_resume(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let window_after_loss = |mut sender: Sender| {
        sender.fill();
        sender.wait(RTT);
        sender.ack(1..10);
        assert_eq!(sender.phase(), Normal);
        (sender.triggers().last().copied(), sender.window())
    };

    let (trigger, with) = window_after_loss(Sender::resumed(cc, 300));
    let (_, without) = window_after_loss(Sender::new(cc));

    assert_eq!(trigger, Some((Normal, Some(PacketLoss))));
    assert_eq!(with, without);
}

/// H: an event has the window that the controller made of what happened.
#[rstest]
fn event_has_the_state_after_the_controller(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let beta = if cc == Reno { 0.5 } else { 0.7 };
    let share = |packets: usize| (packets as f64 * beta) as usize;

    for (phase, event) in [
        (Reconnaissance, (Normal, share(IW), share(IW))),
        (Unvalidated, (SafeRetreat, 2, 2)),
        (Validating, (SafeRetreat, 33, share(66))),
    ] {
        let mut sender = in_phase(cc, phase);
        sender.wait(RTT);
        match phase {
            Reconnaissance => sender.ack(1..5),
            Unvalidated => sender.ack(13..14),
            _ => {
                sender.ack(10..73);
                sender.ack(74..77);
            },
        }

        let resume = sender.recovery.careful_resume_mut().unwrap();
        let last = std::iter::from_fn(|| resume.next_event()).last().unwrap();
        let state = (last.congestion_window, last.ssthresh);
        assert_eq!((last.new, state.0 / MDS, state.1 / MDS), event);
        assert_eq!(state.0, sender.recovery.cwnd());
    }
}

/// B4 and C7.
#[rstest]
fn path_change_ends_or_retreats(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let change = |sender: &mut Sender| {
        let now = sender.now;
        sender.recovery.on_path_change(Epoch::Application, now, "");
        sender.triggers().last().copied()
    };

    let mut sender = Sender::resumed(cc, 300);
    assert_eq!(change(&mut sender), Some((Normal, Some(PathChanged))));

    let mut sender = Sender::resumed(cc, 300);
    sender.reconnoitre();
    sender.send(50);
    assert_eq!(change(&mut sender), Some((SafeRetreat, Some(PathChanged))));
    assert_eq!(sender.window(), 2);
}

/// B9: no jump before more is waiting than the window lets go.
#[rstest]
fn jump_waits_for_data(#[values(Reno, CUBIC)] cc: CongestionControlAlgorithm) {
    let mut sender = Sender::resumed(cc, 300);
    sender.fill();
    sender.wait(RTT);
    sender.recovery.update_app_limited(true);
    sender.ack(0..10);
    assert_eq!((sender.phase(), sender.window()), (Reconnaissance, IW));

    sender.fill();
    sender.wait(RTT);
    sender.ack(10..20);
    assert_eq!((sender.phase(), sender.window()), (Unvalidated, 150));
}

/// B9: a document of little more than the initial window is no reason to ask for
/// saved parameters. They may come with what the page needs next.
#[rstest]
fn jump_follows_a_small_document(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values(11, 15, 20)] document: u64, #[values(1, 3, 10)] acked_at_once: u64,
) {
    let mut sender = Sender::new(cc);
    sender.fill();
    sender.wait(RTT);
    let initial = sender.next;
    for first in (0..initial).step_by(acked_at_once as usize) {
        sender.ack(first..initial.min(first + acked_at_once));
        let fits = sender.recovery.cwnd_available() / MDS;
        let left = (document - sender.next) as usize;
        sender.send(left.min(fits));
        sender.recovery.update_app_limited(left <= fits);
    }
    sender.wait(RTT);
    sender.ack(initial..document);
    assert_eq!(sender.phase(), Reconnaissance);

    assert!(sender.careful_resume_from(300));
    sender.fill();
    sender.wait(RTT);
    sender.ack(document..document + 1);
    assert_eq!((sender.phase(), sender.window()), (Unvalidated, 150));
}

#[rstest]
fn without_saved_parameters_no_jump_follows(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::new(cc);
    sender.reconnoitre();
    assert_eq!((sender.phase(), sender.window()), (Reconnaissance, 2 * IW));
    sender.fill();
    sender.wait(RTT);
    sender.ack(10..30);
    assert_eq!((sender.phase(), sender.window()), (Normal, 4 * IW));
    assert_eq!(sender.triggers(), [(Normal, Some(NoSavedSet))]);

    // Too late, and never twice.
    assert!(!sender.careful_resume_from(300));

    let mut sender = Sender::resumed(cc, 300);
    assert!(!sender.careful_resume_from(400));
}

/// A dry run decides as a jump does, and is slow start in all else.
#[rstest]
fn dry_run_ends_where_the_jump_would_begin(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut jumping = Sender::resumed(cc, 300);
    jumping.reconnoitre();
    assert_eq!(jumping.phase(), Unvalidated);

    let mut plain = Sender::new(cc);
    plain.reconnoitre();

    for (saved, expected) in [(300, DryRun), (3, JumpNotLarger)] {
        let mut sender = Sender::new(cc);
        assert!(sender.careful_resume_dry_run(saved));
        sender.reconnoitre();
        assert_eq!(sender.triggers(), [(Normal, Some(expected))]);
        assert_eq!(sender.window(), plain.window());
        assert!(!sender.careful_resume_dry_run(saved), "it is over");
    }
}

#[rstest]
fn parameters_for_a_jump_replace_those_of_a_dry_run(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values(false, true)] dry_run_is_first: bool,
) {
    let mut sender = Sender::new(cc);

    if dry_run_is_first {
        assert!(sender.careful_resume_dry_run(200));
    }
    assert!(sender.careful_resume_from(300));
    if !dry_run_is_first {
        assert!(sender.careful_resume_dry_run(200));
    }

    sender.reconnoitre();
    assert_eq!((sender.phase(), sender.window()), (Unvalidated, 150));
}

/// The release times of a jump since its begin, from a sender that is late at
/// each of them, by up to `late`.
fn jump_times(sender: &mut Sender, late: Duration) -> Vec<Duration> {
    let start = sender.now;
    let mut times = vec![];

    while sender.phase() == Unvalidated {
        let release = sender.recovery.get_next_release_time();

        if let Some(at) = release.time(sender.now) {
            let share = times.len() as u32 * 7919 % 1000;
            sender.now = at + late * share / 1000;
        }

        sender.send(1);
        let at = sender.recovery.get_packet_send_time(sender.now);
        assert_eq!(at, sender.now);
        times.push(at - start);
    }

    times
}

/// Sends what may leave now, by the window and by the pace.
fn send_at_once(sender: &mut Sender) -> usize {
    let mut sent = 0;

    while sender.recovery.cwnd_available() >= MDS {
        let release = sender.recovery.get_next_release_time();
        if release.time(sender.now).is_some() {
            break;
        }

        sender.send(1);
        sent += 1;
    }

    sent
}

/// C1: ACKs let the packets of a doubling window go, as without pacing, and
/// the pipe size begins with them.
#[rstest]
fn reconnaissance_is_clocked_by_acks(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::with_pacing(cc, true);
    sender.careful_resume_from(300);
    assert_eq!(send_at_once(&mut sender), IW);
    sender.wait(RTT);

    // The ACKs of a fast path.
    for first in [0, 2, 4, 6] {
        sender.wait(RTT / 1000);
        sender.ack(first..first + 2);
        assert_eq!(send_at_once(&mut sender), 4);
    }

    sender.wait(RTT / 1000);
    sender.ack(8..10);
    assert_eq!((sender.phase(), sender.pipe_size()), (Unvalidated, 16));
}

/// B1: bursts are of no use without a jump.
#[rstest]
fn reconnaissance_without_parameters_is_paced(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::with_pacing(cc, true);
    send_at_once(&mut sender);
    sender.wait(RTT);

    let mut sent = 0;
    for first in [0, 2, 4, 6] {
        sender.wait(RTT / 1000);
        sender.ack(first..first + 2);
        sent += send_at_once(&mut sender);
    }
    // Two for each that is acknowledged would be 16.
    assert!(sent < 14, "{sent}");
}

/// RFC 9002, 7.7: one ACK lets no more go at once than an initial window.
#[rstest]
fn burst_in_reconnaissance_is_an_initial_window(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::with_pacing(cc, true);
    sender.careful_resume_from(300);
    send_at_once(&mut sender);
    sender.wait(RTT);

    sender.ack(0..IW as u64 - 1);
    assert_eq!(sender.phase(), Reconnaissance);
    assert_eq!(sender.recovery.cwnd_available() / MDS, 18);
    // One batch follows the burst.
    assert_eq!(send_at_once(&mut sender), IW + 2);
}

/// The queue of other flows reduces the known capacity after the jump as well.
#[rstest]
fn growth_is_careful_beside_a_queue(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    for (rtt, known, is_limit) in [
        (RTT, 300, true),
        (RTT * 6 / 5, 240, true),
        (RTT * 19 / 10, 75, true),
        (RTT * 2, 75, false),
    ] {
        let mut sender = Sender::resumed(cc, 300);
        sender.fill();
        sender.wait(rtt);
        sender.ack(0..IW as u64);
        assert_eq!(sender.phase(), Unvalidated);

        let soft_growth = sender.soft_growth().unwrap();
        assert_eq!(soft_growth.known / MDS, known, "{rtt:?}");
        assert_eq!(soft_growth.is_limit, is_limit, "{rtt:?}");
    }
}

/// The fewest and the most packets in any period that long.
fn extremes(times: &[Duration], period: Duration) -> (usize, usize) {
    let sent_before = |time| times.partition_point(|t| *t < time);
    let begins = times
        .iter()
        .flat_map(|t| [*t, *t + Duration::from_nanos(1)]);
    let sent: Vec<usize> = begins
        .filter(|begin| *begin + period <= *times.last().unwrap())
        .map(|begin| sent_before(begin + period) - sent_before(begin))
        .collect();

    (*sent.iter().min().unwrap(), *sent.iter().max().unwrap())
}

/// C3, C4, C5: any eighth of an RTT has its share of the jump, within a quarter
/// or two packets.
#[rstest]
fn jump_is_paced_over_one_rtt(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values(60, 300, 500, 3000, 20_000)] saved: usize,
    #[values(0, 60, 2000, 20_000)] late_us: u64,
) {
    let mut sender = Sender::with_pacing(cc, true);
    sender.careful_resume_from(saved);
    sender.reconnoitre();
    let jump = sender.recovery.cwnd() as f64 / MDS as f64;

    let times = jump_times(&mut sender, Duration::from_micros(late_us));
    let (fewest, most) = extremes(&times, RTT / 8);
    let off_max = (jump / 32.0).max(2.0);
    let said = format!("{fewest} to {most} of {}", jump / 8.0);

    assert!(most as f64 <= jump / 8.0 + off_max, "{said}");

    // A sender that is far too late may send less.
    if late_us <= 60 {
        assert!(fewest as f64 >= jump / 8.0 - off_max, "{said}");
    }
}

/// C3: a timer that is late now and then costs the jump nothing.
#[rstest]
fn jump_catches_up_after_a_late_timer(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values(300, 3000)] saved: usize,
) {
    let mut sender = Sender::with_pacing(cc, true);
    sender.careful_resume_from(saved);
    sender.reconnoitre();
    let mut wakes = 0;

    while sender.phase() == Unvalidated {
        let release = sender.recovery.get_next_release_time();

        if let Some(at) = release.time(sender.now) {
            wakes += 1;
            sender.now = match wakes % 16 {
                0 => at + RTT / 50,
                _ => at,
            };
        }
        sender.send(1);
    }

    let (first, last) = sender.unvalidated_packets();
    let sent = (last.unwrap() - first.unwrap()) as usize;
    assert!(sent >= saved / 2 - saved / 64, "{sent} of {}", saved / 2);
}

/// C3, C5: the jump over the RTT, without gain; a batch, and what a late sender
/// catches up with, are a quarter of an eighth of it, or two packets, together.
#[test]
fn jump_pace_has_its_batch_and_catch_up() {
    for (saved, batch, catch_up) in [
        (60, MDS, MDS),
        (300, 1406, 5625 - 1406),
        (500, 2343, 9375 - 2343),
        (3000, IW * MDS, 56_250 - IW * MDS),
    ] {
        let mut sender = Sender::resumed(Reno, saved);
        sender.reconnoitre();

        let pace = sender.careful_resume().pace().unwrap();
        assert_eq!(pace.rate as usize, saved / 2 * MDS * 10);
        assert_eq!(pace.batch, batch);
        assert_eq!(pace.catch_up, pace.duration(catch_up));
    }
}

/// E8: rate reduction is suppressed until the controller reduces by itself,
/// which it does not in the retreat.
#[rstest]
fn retreat_is_the_last_reduction_until_the_next(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = in_phase(cc, Validating);
    let was_retreat =
        |sender: &Sender| sender.careful_resume().last_reduction_was_retreat();
    assert!(!was_retreat(&sender));

    sender.wait(RTT);
    sender.ack(13..14);
    assert_eq!(sender.phase(), SafeRetreat);
    assert!(was_retreat(&sender));

    // Later packets are lost as well, which the end of the retreat reveals.
    sender.wait(RTT);
    sender.send(5);
    sender.wait(RTT);
    sender.ack(163..164);
    assert_eq!(sender.phase(), Normal);
    assert!(was_retreat(&sender));

    sender.wait(RTT);
    sender.send(5);
    sender.wait(RTT);
    sender.ack(168..169);
    assert!(!was_retreat(&sender));
}

/// E8: nor does it reduce for what was sent before the retreat, and is found
/// lost after it.
#[rstest]
fn late_loss_of_the_jump_is_no_reduction(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = in_phase(cc, Validating);
    let last = sender.next - 1;
    sender.wait(RTT);
    sender.ack(13..14);
    assert_eq!(sender.phase(), SafeRetreat);

    // The two before it may still come.
    sender.ack(last..last + 1);
    assert_eq!(sender.phase(), Normal);
    let (lost, status) = (sender.recovery.lost_count(), Default::default());
    sender.wait(RTT / 4);
    let now = sender.now;
    sender.recovery.on_loss_detection_timeout(status, now, "");

    assert_eq!(sender.recovery.lost_count(), lost + 2);
    assert!(sender.careful_resume().last_reduction_was_retreat());
}

/// A5, A9: what is worth saving, after the end as well.
#[rstest]
fn observation_worth_saving_is_offered(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    for (packets, offered) in [(4 * IW - 1, None), (4 * IW, Some(4 * IW))] {
        let mut sender = Sender::new(cc);
        for _ in 0..3 {
            let from = sender.next;
            sender.send(packets);
            sender.wait(RTT);
            sender.ack(from..sender.next);
        }

        let state = sender.recovery.path_state(sender.now);
        let saved = state.map(|s| s.saved_cwnd as usize / MDS);
        assert_eq!(saved, offered);
        if let Some(state) = state {
            assert_eq!(state.saved_rtt, RTT);
            assert!(state.limited && !state.validated);
        }
    }

    let mut sender = Sender::new(cc);
    let mut filled = 0;
    for _ in 0..6 {
        let from = sender.next;
        filled = sender.fill();
        sender.wait(RTT);
        sender.ack(from..sender.next);
    }
    assert_eq!(sender.phase(), Normal);
    let saved = sender.recovery.path_state(sender.now).unwrap().saved_cwnd;
    assert_eq!(saved as usize / MDS, filled);
}

/// E1: neither during the retreat nor after it, whatever is observed.
#[rstest]
fn observation_after_a_retreat_is_not_offered(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values(Validating, SafeRetreat)] phase: Phase,
) {
    let mut sender = in_phase(cc, phase);

    sender.wait(RTT);
    sender.ack(10..14);
    for packet in 14..160 {
        sender.wait(RTT / 50);
        sender.ack(packet..packet + 1);
        if phase == SafeRetreat {
            assert_eq!(sender.recovery.path_state(sender.now), None);
        }
    }

    assert_eq!(sender.phase(), Normal);
    assert!(sender.careful_resume().observer.observed().is_some());
    let offered = sender.recovery.path_state(sender.now);
    assert_eq!(offered.is_some(), phase == Validating);
}

/// A7, A8: only a full window in congestion avoidance shows the path's limit,
/// and only as far as it is saved.
#[test]
fn observation_is_limited_by_all_but_the_path() {
    let unlimited = CarefulResumeConfig::default().max_jump;

    for (max_jump, limit, limited) in [
        (unlimited, FlightLimit::Path, false),
        (25 * MDS, FlightLimit::Path, false),
        (25 * MDS - 1, FlightLimit::Path, true),
        (unlimited, FlightLimit::Growth, true),
        (unlimited, FlightLimit::Application, true),
    ] {
        let mut resume = CarefulResume::new(CarefulResumeConfig {
            max_jump,
            ..Default::default()
        });
        let mut c = Conditions {
            min_rtt: Some(RTT),
            ..Sender::new(Reno).conditions()
        };

        for largest in 0..3 {
            let acked = Acknowledged {
                bytes: 50 * MDS,
                largest,
                rtt: RTT,
            };
            resume.observe(&acked, c.min_rtt, limit, c.now);
            c.now += RTT;
        }

        let state = resume.path_state(&c, crate::clock::wall_now()).unwrap();
        assert_eq!(state.limited, limited);
    }
}

/// C4: only what leaves together may be one burst.
#[rstest]
fn packet_that_has_to_wait_starts_another_burst(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::with_pacing(cc, true);
    let decision = |sender: &Sender| {
        let decision = sender.recovery.get_next_release_time();
        (decision.time(sender.now).is_some(), decision.can_burst())
    };
    sender.fill();
    sender.wait(RTT);
    sender.ack(0..5);

    let mut sent = 0;
    while decision(&sender) == (false, true) && sent < 100 {
        sender.send(1);
        sent += 1;
    }
    assert_eq!(decision(&sender), (true, false), "after {sent}");

    let unpaced = Sender::with_pacing(cc, false);
    assert_eq!(decision(&unpaced), (false, false));
}
