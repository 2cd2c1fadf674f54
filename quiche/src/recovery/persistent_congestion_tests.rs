//! Persistent congestion: packets sent over a long time were all lost, or one
//! of them was not. Windows are in packets.

use std::time::Duration;

use crate::clock;
use crate::path_state::PathState;
use crate::recovery::careful_resume::test_sender::Sender;
use crate::recovery::careful_resume::test_sender::MDS;
use crate::recovery::careful_resume::test_sender::RTT;
use crate::recovery::careful_resume::Phase;
use crate::recovery::careful_resume::Trigger;
use crate::recovery::RecoveryOps;
use crate::CongestionControlAlgorithm;
use crate::CongestionControlAlgorithm::Reno;
use crate::CongestionControlAlgorithm::CUBIC;
use rstest::rstest;

/// Three times smoothed RTT and four times its variation, which 40 equal
/// samples have all but taken away: a bit more than 300 ms.
const DURATION: Duration = Duration::from_millis(310);

/// Returns a sender with a window of 40 packets, none of them in flight.
fn sender(cc: CongestionControlAlgorithm, answers: bool) -> Sender {
    let mut config = config(cc);
    config.set_persistent_congestion(answers);
    let mut sender = Sender::of(&config);

    for packets in [10, 20] {
        let first = sender.next;
        sender.send(packets);
        sender.now += RTT;
        ack_each(&mut sender, first..first + packets as u64);
    }

    // Limited by the application, so that the window does not grow.
    for _ in 0..40 {
        sender.send(1);
        sender.recovery.update_app_limited(true);
        sender.now += RTT;
        ack_last(&mut sender);
    }
    assert_eq!(sender.window(), 40);
    sender
}

/// Acknowledges these packets, each with an ACK of its own.
fn ack_each(sender: &mut Sender, packets: std::ops::Range<u64>) {
    for number in packets {
        sender.ack(number..number + 1);
    }
}

fn ack_last(sender: &mut Sender) {
    sender.ack(sender.next - 1..sender.next);
}

fn config(cc: CongestionControlAlgorithm) -> crate::Config {
    let mut config = crate::Config::new(crate::PROTOCOL_VERSION).unwrap();
    config.set_cc_algorithm(cc);
    config.set_max_send_udp_payload_size(MDS);
    config.set_initial_congestion_window_packets(10);
    config
}

/// Two packets, and one for the packet whose ACK tells of the loss.
const MINIMUM: usize = 3;

/// Ten packets, one after half of `span`, one after all of it, and another one
/// that arrives. Returns the number of the first.
fn outage(sender: &mut Sender, span: Duration) -> u64 {
    let first = sender.next;
    sender.send(10);
    sender.now += span / 2;
    sender.send(1);
    sender.now += span / 2;
    sender.send(1);
    sender.now += RTT * 2;
    sender.send(1);
    first
}

#[rstest]
fn losses_over_a_long_time_leave_the_minimum(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let reduced = if cc == Reno { 20 } else { 28 };

    for (answers, span, window) in [
        (true, DURATION, MINIMUM),
        (true, RTT * 3, reduced),
        (false, DURATION, reduced),
    ] {
        let mut sender = sender(cc, answers);
        outage(&mut sender, span);
        sender.now += RTT;
        ack_last(&mut sender);
        assert_eq!(sender.window(), window, "{answers} {span:?}");
    }
}

/// RFC 9002, 7.6.1: the peer's delay counts as often as the RTT.
#[rstest]
fn ack_delay_extends_the_duration(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let delay = Duration::from_millis(25);

    for (span, is_persistent) in [
        (DURATION, false),
        (RTT * 3 + delay * 3, false),
        (DURATION + delay * 3, true),
    ] {
        let mut sender = sender(cc, true);
        sender.recovery.update_max_ack_delay(delay);
        outage(&mut sender, span);
        sender.now += RTT;
        ack_last(&mut sender);
        assert_eq!(sender.window() == MINIMUM, is_persistent, "{span:?}");
    }
}

#[rstest]
fn arrival_between_losses_prevents_it(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = sender(cc, true);
    let first = outage(&mut sender, DURATION);
    sender.now += RTT;
    sender.ack(first + 10..first + 11);
    ack_last(&mut sender);
    assert!(sender.window() >= 20);
}

/// RFC 9002, 7.6.2: as after a retransmission timeout of TCP.
#[rstest]
fn slow_start_follows_persistent_congestion(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = sender(cc, true);
    outage(&mut sender, DURATION);
    sender.now += RTT;
    ack_last(&mut sender);

    let threshold = if cc == Reno { 20 } else { 28 };
    for window in [6, 12, threshold.min(24), threshold] {
        sender.now += RTT;
        let first = sender.next;
        sender.send(sender.window());
        sender.now += RTT;
        let sent = first..sender.next;
        ack_each(&mut sender, sent);
        assert!(sender.window().abs_diff(window) <= 1, "{}", sender.window());
    }
}

#[rstest]
fn late_packet_does_not_restore_the_window(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = sender(cc, true);
    let first = outage(&mut sender, DURATION);
    sender.now += RTT;
    ack_last(&mut sender);
    assert_eq!(sender.window(), MINIMUM);

    ack_each(&mut sender, first..first + 12);
    assert_eq!(sender.window(), MINIMUM);
}

/// RFC 9959, 3.6: the event that ends Careful Resume tells the window after it.
#[rstest]
fn event_of_the_end_has_the_minimum_window(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut config = config(cc);
    config.set_persistent_congestion(true);
    config.set_careful_resume(Default::default()).unwrap();
    let mut sender = Sender::of(&config);
    let observed = clock::wall_now();
    let saved = PathState {
        saved_cwnd: 100 * MDS as u64,
        saved_rtt: RTT,
        observed,
        expires: observed + Duration::from_secs(60),
        limited: false,
        validated: false,
    };
    let jump_before = sender.now + Duration::from_secs(10);
    assert!(sender
        .recovery
        .careful_resume_from(saved, jump_before, sender.now));

    for (packets, acked) in [(10, 10), (30, 20)] {
        let first = sender.next;
        sender.send(packets);
        sender.now += RTT;
        ack_each(&mut sender, first..first + acked);
    }
    // The variation of the RTT is still large.
    outage(&mut sender, RTT * 10);
    sender.now += RTT;
    ack_last(&mut sender);

    let resume = sender.recovery.careful_resume_mut().unwrap();
    let mut events: Vec<_> = std::iter::from_fn(|| resume.next_event()).collect();
    let end = events.pop().unwrap();
    assert_eq!(end.trigger, Some(Trigger::PersistentCongestion));
    assert_eq!(end.congestion_window, 2 * MDS);
    // Those before it keep theirs.
    let jump = events.iter().find(|e| e.new == Phase::Unvalidated).unwrap();
    assert_eq!(jump.congestion_window, 50 * MDS);
}
