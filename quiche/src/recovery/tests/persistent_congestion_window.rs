//! The window after persistent congestion: packets sent over a long time were
//! all lost, or one of them was not. Windows are in packets.

use std::ops::Range;

use super::*;
use crate::CongestionControlAlgorithm::Reno;
use crate::CongestionControlAlgorithm::CUBIC;

const MDS: usize = 1200;
const RTT: Duration = Duration::from_millis(100);

/// A sender whose time moves when told.
struct TimedSender {
    recovery: Recovery,
    now: Instant,
    /// The number of the next packet.
    next: u64,
}

impl TimedSender {
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn new(cc: CongestionControlAlgorithm) -> Self {
        let mut config = Config::new(crate::PROTOCOL_VERSION).unwrap();
        config.set_cc_algorithm(cc);
        config.set_max_send_udp_payload_size(MDS);
        config.set_initial_congestion_window_packets(10);

        TimedSender {
            recovery: Recovery::new(&config),
            now: Instant::now(),
            next: 0,
        }
    }

    fn send(&mut self, packets: usize) {
        for _ in 0..packets {
            let sent = test_utils::helper_packet_sent(self.next, self.now, MDS);
            self.recovery.on_packet_sent(
                sent,
                packet::Epoch::Application,
                HandshakeStatus::default(),
                self.now,
                "",
            );
            self.recovery.update_app_limited(false);
            self.next += 1;
        }
    }

    fn ack(&mut self, packets: Range<u64>) {
        let mut ranges = RangeSet::default();
        ranges.insert(packets);

        self.recovery
            .on_ack_received(
                &ranges,
                0,
                packet::Epoch::Application,
                HandshakeStatus::default(),
                self.now,
                None,
                "",
            )
            .unwrap();
    }

    fn window(&self) -> usize {
        self.recovery.cwnd() / MDS
    }
}

/// Three times smoothed RTT and four times its variation, which 40 equal
/// samples have all but taken away: a bit more than 300 ms.
const DURATION: Duration = Duration::from_millis(310);

/// Returns a sender with a window of 40 packets, none of them in flight.
fn sender(cc: CongestionControlAlgorithm) -> TimedSender {
    let mut sender = TimedSender::new(cc);

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
fn ack_each(sender: &mut TimedSender, packets: Range<u64>) {
    for number in packets {
        sender.ack(number..number + 1);
    }
}

fn ack_last(sender: &mut TimedSender) {
    sender.ack(sender.next - 1..sender.next);
}

/// Two packets, and one for the packet whose ACK tells of the loss.
const MINIMUM: usize = 3;

/// Ten packets, one after half of `span`, one after all of it, and another one
/// that arrives. Returns the number of the first.
fn outage(sender: &mut TimedSender, span: Duration) -> u64 {
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

    for (span, window) in [(DURATION, MINIMUM), (RTT * 3, reduced)] {
        let mut sender = sender(cc);
        outage(&mut sender, span);
        sender.now += RTT;
        ack_last(&mut sender);
        assert_eq!(sender.window(), window, "{span:?}");
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
        let mut sender = sender(cc);
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
    let mut sender = sender(cc);
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
    let mut sender = sender(cc);
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
    let mut sender = sender(cc);
    let first = outage(&mut sender, DURATION);
    sender.now += RTT;
    ack_last(&mut sender);
    assert_eq!(sender.window(), MINIMUM);

    ack_each(&mut sender, first..first + 12);
    assert_eq!(sender.window(), MINIMUM);
}
