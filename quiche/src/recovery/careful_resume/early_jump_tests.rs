//! Jump on the handshake's ACKs alone, an experiment. Windows are in packets.

use super::test_sender::Sender;
use super::test_sender::IW;
use super::test_sender::MDS;
use super::test_sender::RTT;
use super::*;
use crate::packet::Epoch;
use crate::CongestionControlAlgorithm;
use crate::CongestionControlAlgorithm::Reno;
use crate::CongestionControlAlgorithm::CUBIC;
use rstest::rstest;

use Phase::*;
use Trigger::*;

/// The first packet after the handshake's.
const FIRST: u64 = 1;

/// The initial window, which the ACK of the handshake's packet has opened by one.
const WINDOW: usize = IW + 1;
const WINDOW_END: u64 = FIRST + WINDOW as u64;

/// Returns a sender whose handshake is under way.
fn sender(cc: CongestionControlAlgorithm, early_jump: bool) -> Sender {
    let config = CarefulResumeConfig {
        early_jump,
        ..Default::default()
    };
    let mut sender = Sender::with_config(cc, Some(config), false);
    sender.send_in(Epoch::Initial);
    sender
}

/// Acknowledges the handshake after `rtt`.
fn shake_hands(sender: &mut Sender, rtt: Duration) {
    sender.wait(rtt);
    sender.ack_in(Epoch::Initial, 0..FIRST, Duration::ZERO);
}

/// The window is sent, and saved parameters are given, in either order.
fn begin(sender: &mut Sender, saved_first: bool) {
    if saved_first {
        assert!(sender.careful_resume_from(300));
    }
    sender.send(WINDOW);
    if !saved_first {
        assert!(sender.careful_resume_from(300));
    }
}

/// A quarter of the saved window, and validation as for any jump.
#[rstest]
fn early_jump_is_validated_as_any(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values(false, true)] saved_first: bool,
) {
    let mut sender = sender(cc, true);
    shake_hands(&mut sender, RTT);
    begin(&mut sender, saved_first);
    assert_eq!((sender.phase(), sender.window()), (Unvalidated, 75));
    assert_eq!(sender.pipe_size(), WINDOW);
    let rate = sender.careful_resume().pace().unwrap().rate;
    assert_eq!(rate as usize, 75 * MDS * 10);

    assert_eq!(sender.fill(), 75 - WINDOW);
    assert_eq!((sender.phase(), sender.window()), (Validating, 75));
    sender.wait(RTT);
    let end = sender.next;
    sender.ack(FIRST..WINDOW_END);
    assert_eq!(sender.phase(), Validating);
    sender.ack(WINDOW_END..end);
    assert_eq!(sender.phase(), Normal);

    assert_eq!(
        sender.triggers(),
        [
            (Reconnaissance, None),
            (Unvalidated, Some(HandshakeAcknowledged)),
            (Validating, Some(LastUnvalidatedPacketSent)),
            (Normal, Some(LastUnvalidatedPacketAcknowledged)),
        ]
    );
}

/// Otherwise the initial window's ACKs decide, as RFC 9959, 3.2 says.
#[rstest]
#[case::off(false, RTT, Unvalidated)]
#[case::twice_the_saved_rtt(true, 2 * RTT, Unvalidated)]
#[case::half_the_saved_rtt(true, RTT / 2, Normal)]
fn early_jump_needs_the_option_and_a_like_rtt(
    #[case] early_jump: bool, #[case] rtt: Duration, #[case] then: Phase,
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = sender(cc, early_jump);
    shake_hands(&mut sender, rtt);
    begin(&mut sender, false);
    assert_eq!((sender.phase(), sender.window()), (Reconnaissance, WINDOW));

    sender.wait(rtt);
    sender.ack(FIRST..WINDOW_END);
    assert_eq!(sender.phase(), then);
    assert!(!sender
        .triggers()
        .contains(&(Unvalidated, Some(HandshakeAcknowledged))));
}

#[rstest]
fn early_jump_needs_an_rtt_just_within_the_bounds(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values(
        RTT / 2 + Duration::from_micros(1),
        2 * RTT - Duration::from_micros(1)
    )]
    rtt: Duration,
) {
    let mut sender = sender(cc, true);
    shake_hands(&mut sender, rtt);
    begin(&mut sender, true);
    assert_eq!(sender.phase(), Unvalidated);
}

/// A response to early data is sent before the handshake is acknowledged: half
/// of the saved window is as near as a quarter.
#[rstest]
fn response_to_early_data_waits_for_its_acks(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = sender(cc, true);
    assert!(sender.careful_resume_from(300));
    assert_eq!(sender.fill(), IW - 1);
    shake_hands(&mut sender, RTT);
    assert_eq!(sender.phase(), Reconnaissance);
    sender.ack(FIRST..sender.next);
    assert_eq!((sender.phase(), sender.window()), (Unvalidated, 150));
}

/// Nor does it jump when ACKs of the initial window have begun to arrive.
#[rstest]
fn late_parameters_wait_for_all_acks(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = sender(cc, true);
    shake_hands(&mut sender, RTT);
    sender.send(WINDOW);
    sender.wait(RTT);
    sender.ack(FIRST..FIRST + 1);
    assert!(sender.careful_resume_from(300));
    assert_eq!(sender.phase(), Reconnaissance);
    sender.ack(FIRST + 1..WINDOW_END);
    assert_eq!(sender.phase(), Unvalidated);
}

/// Parameters to jump with may follow those of a dry run.
#[rstest]
fn dry_run_makes_no_early_decision(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = sender(cc, true);
    shake_hands(&mut sender, RTT);
    assert!(sender.careful_resume_dry_run(300));
    sender.send(WINDOW);
    assert_eq!(sender.phase(), Reconnaissance);
    assert!(sender.careful_resume_from(300));
    assert_eq!((sender.phase(), sender.window()), (Unvalidated, 75));
}

/// C8: a loss in the initial window is congestion, whatever the jump rests on.
#[rstest]
fn loss_in_the_initial_window_ends_an_early_jump_in_retreat(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = sender(cc, true);
    shake_hands(&mut sender, RTT);
    begin(&mut sender, true);
    sender.fill();
    sender.wait(RTT);
    sender.ack(FIRST + 4..WINDOW_END);
    assert_eq!(sender.phase(), SafeRetreat);
    assert!(sender.window() < IW);
}
