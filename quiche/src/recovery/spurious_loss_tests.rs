//! CUBIC undoes what was spurious, and nothing else. Windows are in packets.

use std::ops::Range;
use std::time::Duration;
use std::time::Instant;

use crate::clock;
use crate::packet::Epoch;
use crate::ranges::RangeSet;
use crate::recovery::careful_resume::test_sender::packet;
use crate::recovery::HandshakeStatus;
use crate::recovery::Recovery;
use crate::recovery::RecoveryOps;
use crate::recovery::Sent;
use crate::CongestionControlAlgorithm::CUBIC;

const MDS: usize = 1200;
const RTT: Duration = Duration::from_millis(100);

/// A sender whose window is always full, in congestion avoidance.
struct Sender {
    recovery: Recovery,
    now: Instant,
    next: u64,
}

impl Sender {
    fn new(is_evidence_required: bool) -> Self {
        let mut config = crate::Config::new(crate::PROTOCOL_VERSION).unwrap();
        config.set_cc_algorithm(CUBIC);
        config.set_max_send_udp_payload_size(MDS);
        config.set_spurious_loss_evidence(is_evidence_required);

        let mut sender = Sender {
            recovery: Recovery::new(&config),
            now: clock::now() + Duration::from_secs(1),
            next: 0,
        };

        for _ in 0..3 {
            let sent = sender.fill();
            sender.ack(sent);
        }

        // CUBIC never goes back to slow start.
        let sent = sender.fill();
        sender.ack(sent.start + 1..sent.end);
        assert_eq!(sender.window(), 56);
        sender
    }

    /// Sends what the window takes; an RTT passes. Returns the packets.
    fn fill(&mut self) -> Range<u64> {
        let first = self.next;

        while self.recovery.cwnd_available() >= MDS {
            let (epoch, status) = (Epoch::Application, Default::default());
            let sent = packet(self.next, MDS, self.now);
            self.recovery
                .on_packet_sent(sent, epoch, status, self.now, "");
            self.recovery.update_app_limited(false);
            self.next += 1;

            // CUBIC lets a recovery period last until the first packet after
            // an idle time.
            self.now += Duration::from_millis(1);
        }

        self.now += RTT;
        first..self.next
    }

    fn ack(&mut self, packets: Range<u64>) {
        let mut ranges = RangeSet::default();
        ranges.insert(packets);
        let (epoch, status) = (Epoch::Application, HandshakeStatus::default());

        self.recovery
            .on_ack_received(&ranges, 0, epoch, status, self.now, None, "")
            .unwrap();
    }

    /// One round, of which only the packets `lost` do not arrive. Returns the
    /// number of the first.
    fn lose(&mut self, lost: &[u64]) -> u64 {
        let sent = self.fill();
        let first = sent.start;
        let mut from = first;

        for gap in lost {
            if first + gap > from {
                self.ack(from..first + gap);
            }
            from = first + gap + 1;
        }
        self.ack(from..sent.end);
        first
    }

    fn window(&self) -> usize {
        self.recovery.cwnd() / MDS
    }
}

#[test]
fn a_short_recovery_is_no_evidence() {
    for (is_required, window) in [(false, 56), (true, 39)] {
        let mut sender = Sender::new(is_required);
        sender.lose(&[3]);
        assert_eq!(sender.window(), 39);

        // The recovery ends with the first packet that was sent after it began.
        let sent = sender.fill();
        sender.ack(sent.start + 1..sent.start + 2);
        assert_eq!(sender.window(), window);
    }
}

#[test]
fn an_event_is_undone_when_all_its_packets_are_acknowledged() {
    let mut sender = Sender::new(true);
    let first = sender.lose(&[3, 5]);
    assert_eq!(sender.window(), 39);

    sender.ack(first + 3..first + 4);
    assert_eq!(sender.window(), 39);
    sender.ack(first + 5..first + 6);
    assert_eq!(sender.window(), 56);
}

/// Upstream's way: one is enough.
#[test]
fn without_the_setting_one_late_packet_undoes_an_event() {
    let mut sender = Sender::new(false);
    let first = sender.lose(&[3, 5]);
    sender.ack(first + 3..first + 4);
    assert_eq!(sender.window(), 56);
}

#[test]
fn what_is_lost_later_in_a_recovery_counts() {
    let mut sender = Sender::new(true);
    let sent = sender.fill();
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
fn a_late_packet_of_an_earlier_event_is_no_evidence_for_this_one() {
    let mut sender = Sender::new(true);
    let first = sender.lose(&[3]);
    let second = sender.lose(&[3]);
    assert_eq!(sender.window(), 27);

    sender.ack(first + 3..first + 4);
    assert_eq!(sender.window(), 27);
    sender.ack(second + 3..second + 4);
    assert_eq!(sender.window(), 39);
}

#[test]
fn what_another_reduction_followed_is_not_undone() {
    let mut sender = Sender::new(true);
    let first = sender.lose(&[3]);
    sender
        .recovery
        .on_abandoned_path_timeout(HandshakeStatus::default(), sender.now);

    sender.ack(first + 3..first + 4);
    assert_eq!(sender.window(), 39);
}

/// The loss of an MTU probe was never a reason.
#[test]
fn a_late_mtu_probe_is_no_evidence() {
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
