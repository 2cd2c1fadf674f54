//! Spurious congestion events: CUBIC undoes them, and no others. Windows are in
//! packets.

use std::ops::Range;
use std::time::Duration;

use crate::clock;
use crate::recovery::careful_resume::test_sender::packet;
use crate::recovery::careful_resume::test_sender::Sender;
use crate::recovery::careful_resume::test_sender::MDS;
use crate::recovery::careful_resume::test_sender::RTT;
use crate::recovery::HandshakeStatus;
use crate::recovery::RecoveryOps;
use crate::recovery::Sent;
use crate::CongestionControlAlgorithm::CUBIC;

/// Returns a sender whose window is always full, in congestion avoidance.
fn sender(is_evidence_required: bool) -> Sender {
    let mut config = crate::Config::new(crate::PROTOCOL_VERSION).unwrap();
    config.set_cc_algorithm(CUBIC);
    config.set_max_send_udp_payload_size(MDS);
    config.set_spurious_loss_evidence(is_evidence_required);
    let mut sender = Sender::of(&config);

    for _ in 0..3 {
        let sent = send_window(&mut sender);
        sender.ack(sent);
    }

    // CUBIC never goes back to slow start.
    let sent = send_window(&mut sender);
    sender.ack(sent.start + 1..sent.end);
    assert_eq!(sender.window(), 56);
    sender
}

/// Sends until the window is full, and waits for an RTT. Returns the packets.
fn send_window(sender: &mut Sender) -> Range<u64> {
    let first = sender.next;

    while sender.recovery.cwnd_available() >= MDS {
        sender.send(1);

        // CUBIC lets a recovery period last until the first packet after
        // an idle time.
        sender.now += Duration::from_millis(1);
    }

    sender.now += RTT;
    first..sender.next
}

/// Sends a window, of which only the packets `lost` do not arrive. Returns the
/// number of the first.
fn lose(sender: &mut Sender, lost: &[u64]) -> u64 {
    let sent = send_window(sender);
    let first = sent.start;
    let mut from = first;

    for gap in lost {
        if first + gap > from {
            sender.ack(from..first + gap);
        }
        from = first + gap + 1;
    }
    sender.ack(from..sent.end);
    first
}

#[test]
fn short_recovery_is_no_evidence() {
    for (is_required, window) in [(false, 56), (true, 39)] {
        let mut sender = sender(is_required);
        lose(&mut sender, &[3]);
        assert_eq!(sender.window(), 39);

        // The recovery ends with the first packet that was sent after it began.
        let sent = send_window(&mut sender);
        sender.ack(sent.start + 1..sent.start + 2);
        assert_eq!(sender.window(), window);
    }
}

#[test]
fn event_is_undone_when_all_packets_are_acked() {
    let mut sender = sender(true);
    let first = lose(&mut sender, &[3, 5]);
    assert_eq!(sender.window(), 39);

    sender.ack(first + 3..first + 4);
    assert_eq!(sender.window(), 39);
    sender.ack(first + 5..first + 6);
    assert_eq!(sender.window(), 56);
}

/// Upstream's way: one is enough.
#[test]
fn without_the_option_one_late_ack_undoes_an_event() {
    let mut sender = sender(false);
    let first = lose(&mut sender, &[3, 5]);
    sender.ack(first + 3..first + 4);
    assert_eq!(sender.window(), 56);
}

#[test]
fn later_loss_in_a_recovery_counts() {
    let mut sender = sender(true);
    let sent = send_window(&mut sender);
    let first = sent.start;

    // Two losses of one flight, found one after the other.
    sender.ack(first..first + 1);
    sender.ack(first + 2..first + 10);
    assert_eq!(sender.window(), 39);
    sender.ack(first + 11..sent.end);

    sender.ack(first + 1..first + 2);
    assert_eq!(sender.window(), 39);
    sender.ack(first + 10..first + 11);
    assert_eq!(sender.window(), 56);
}

#[test]
fn late_packet_of_an_earlier_event_is_no_evidence() {
    let mut sender = sender(true);
    let first = lose(&mut sender, &[3]);
    let second = lose(&mut sender, &[3]);
    assert_eq!(sender.window(), 27);

    sender.ack(first + 3..first + 4);
    assert_eq!(sender.window(), 27);
    sender.ack(second + 3..second + 4);
    assert_eq!(sender.window(), 39);
}

#[test]
fn event_with_another_reduction_is_not_undone() {
    let mut sender = sender(true);
    let first = lose(&mut sender, &[3]);
    sender
        .recovery
        .on_abandoned_path_timeout(HandshakeStatus::default(), sender.now);

    sender.ack(first + 3..first + 4);
    assert_eq!(sender.window(), 39);
}

/// The loss of an MTU probe was never a reason.
#[test]
fn late_mtu_probe_is_no_evidence() {
    let now = clock::now();
    let mut losses = super::SpuriousLoss::new(true);
    losses.begin_event(now);
    losses.on_lost(MDS);

    for (is_pmtud_probe, undone) in [(true, false), (false, true)] {
        let mut late = super::LateAcks::default();
        late.push(&Sent {
            is_pmtud_probe,
            time_lost: Some(now),
            ..packet(0, MDS, now)
        });
        assert_eq!(losses.is_undone_by(&mut late), undone);
    }

    // It is over.
    assert!(!losses.is_undone_by(&mut Default::default()));
}
