//! Tests of the answer to marks, of each controller. Windows are in packets.

use super::*;
use crate::careful_resume::CarefulResumeConfig;
use crate::careful_resume::Phase;
use crate::careful_resume::Trigger;
use crate::recovery::careful_resume::test_sender::Sender;
use crate::recovery::careful_resume::test_sender::IW;
use crate::recovery::careful_resume::test_sender::MDS;
use crate::recovery::careful_resume::test_sender::RTT;
use crate::CongestionControlAlgorithm;
use crate::CongestionControlAlgorithm::*;
use rstest::rstest;
use std::ops::Range;
use std::time::Duration;

fn config(cc: CongestionControlAlgorithm) -> Config {
    let mut config = Config::new(crate::PROTOCOL_VERSION).unwrap();
    config.set_cc_algorithm(cc);
    config.set_max_send_udp_payload_size(MDS);
    config.set_initial_congestion_window_packets(IW);
    config.enable_hystart(false);
    config.set_ecn(Some(EcnConfig::default()));
    config
}

/// A sender on a path that is known to carry marks.
struct MarkedSender(Sender);

impl MarkedSender {
    fn new(config: &Config) -> Self {
        let mut sender = MarkedSender(Sender::of(config));
        sender.send(1);
        sender.0.wait(RTT);
        sender.ack(0..1, 0);
        sender
    }

    /// Returns a sender whose marks are ECT(1).
    fn of_l4s(config: &Config) -> Self {
        let mut sender = MarkedSender(Sender::of(config));
        sender.send(1);
        sender.0.wait(RTT);
        sender.ack_l4s(0..1, 0);
        sender
    }

    /// Acknowledges these packets, sent with ECT(1).
    fn ack_l4s(&mut self, packets: Range<u64>, ce: u64) {
        let ect1 = packets.end - packets.start - ce;
        let marks = Marks { ect0: 0, ect1, ce };
        self.0.recovery.set_ecn_feedback(Feedback::New(marks));
        self.0.ack(packets);
    }

    fn send(&mut self, packets: usize) -> Range<u64> {
        let first = self.0.next;
        for _ in 0..packets {
            self.0.recovery.begin_ecn_datagram();
            self.0.send(1);
            // CUBIC lets a recovery period last until the first packet after an
            // idle time.
            self.0.wait(Duration::from_micros(1));
            self.follow_pacing();
        }
        first..self.0.next
    }

    /// Waits for the release time of packets of L4S.
    fn follow_pacing(&mut self) {
        let recovery = &self.0.recovery;
        if recovery.ecn().unwrap().config().l4s {
            self.0.now = recovery.get_packet_send_time(self.0.now);
        }
    }

    /// Fills the window. Returns the packets.
    fn fill(&mut self) -> Range<u64> {
        self.send(self.0.recovery.cwnd_available() / MDS)
    }

    /// Acknowledges these packets, `ce` of which arrived as CE.
    fn ack(&mut self, packets: Range<u64>, ce: u64) {
        let ect0 = packets.end - packets.start - ce;
        let marks = Marks { ect0, ect1: 0, ce };
        self.0.recovery.set_ecn_feedback(Feedback::New(marks));
        self.0.ack(packets);
    }

    /// Sends a window, one packet of which arrives as CE. Returns the window
    /// after it over that before.
    fn round_with_mark(&mut self) -> f64 {
        let sent = self.fill();
        self.0.wait(RTT);
        let before = self.0.recovery.cwnd() as f64;
        self.ack(sent, 1);
        self.0.recovery.cwnd() as f64 / before
    }
}

/// Windows of a few packets are whole ones.
fn assert_close_to(factor: f64, expected: f64) {
    assert!((factor - expected).abs() < 0.06, "{factor}");
}

fn assert_close(factor: f64, expected: f64) {
    assert!((factor - expected).abs() < 0.001, "{factor}");
}

/// RFC 9002, 7.1: a mark reduces the window as a loss does, once an RTT, and
/// nothing is lost or sent again.
#[rstest]
#[case(Reno, 0.5)]
#[case(CUBIC, 0.7)]
fn mark_reduces_the_window_once_an_rtt(
    #[case] cc: CongestionControlAlgorithm, #[case] factor: f64,
) {
    let mut sender = MarkedSender::new(&config(cc));
    let sent = sender.fill();
    let middle = sent.start + 3;
    sender.0.wait(RTT);

    let reduced = (sender.0.window() as f64 * factor) as usize;
    sender.ack(sent.start..middle, 1);
    assert_eq!(sender.0.window(), reduced);
    sender.ack(middle..sent.end, 2);
    assert_eq!(sender.0.window(), reduced);

    sender.0.wait(RTT);
    assert_close(sender.round_with_mark(), factor);
    assert_eq!(sender.0.recovery.lost_count(), 0);
}

/// RFC 8511: less of a reduction in congestion avoidance, but not at the end of
/// slow start.
#[rstest]
#[case(Reno, 0.5, 0.8)]
#[case(CUBIC, 0.7, 0.85)]
fn alternative_backoff_keeps_more_in_avoidance(
    #[case] cc: CongestionControlAlgorithm, #[case] loss: f64, #[case] mark: f64,
) {
    let mut config = config(cc);
    config.set_ecn(Some(EcnConfig {
        alternative_backoff: true,
        ..Default::default()
    }));
    let mut sender = MarkedSender::new(&config);

    for factor in [loss, mark, mark] {
        assert_close(sender.round_with_mark(), factor);
        sender.0.wait(RTT);
    }
}

/// No packet is lost, which upstream's CUBIC takes for a spurious event.
#[test]
fn marks_are_not_undone() {
    let mut sender = MarkedSender::new(&config(CUBIC));
    sender.round_with_mark();
    sender.round_with_mark();
    let reduced = sender.0.window();

    for _ in 0..3 {
        sender.0.wait(RTT);
        let sent = sender.fill();
        sender.0.wait(RTT);
        sender.ack(sent, 0);
        let window = sender.0.window();
        assert!((reduced..reduced + 3).contains(&window), "{window}");
    }
}

/// Returns a sender with a saved capacity of 300 packets.
fn resumed(
    mut config: Config, start: fn(&Config) -> MarkedSender,
) -> MarkedSender {
    let resume = CarefulResumeConfig::default();
    config.set_careful_resume(resume).unwrap();
    let mut sender = start(&config);
    assert!(sender.0.careful_resume_from(300));
    sender
}

/// Vector 9 of RFC 9959: a mark acts as a loss in each phase.
#[rstest]
fn mark_ends_a_jump(
    #[values(Reno, CUBIC, Bbr2Gcongestion)] cc: CongestionControlAlgorithm,
    #[values(Phase::Reconnaissance, Phase::Unvalidated, Phase::Validating)]
    phase: Phase,
) {
    let mut sender = resumed(config(cc), MarkedSender::new);

    let initial = sender.fill();
    sender.0.wait(RTT);
    let marks = u64::from(phase == Phase::Reconnaissance);
    sender.ack(initial, marks);

    let next = match phase {
        Phase::Reconnaissance => Phase::Normal,
        _ => {
            let packets = if phase == Phase::Unvalidated { 50 } else { 150 };
            let jump = sender.send(packets);
            assert_eq!(phase_of(&sender), phase);
            sender.0.wait(RTT / 2);
            sender.ack(jump.start..jump.start + 3, 1);
            assert!(sender.0.window() < 150 / 2);
            Phase::SafeRetreat
        },
    };

    assert_eq!(phase_of(&sender), next);
    let resume = sender.0.recovery.careful_resume_mut().unwrap();
    let last = std::iter::from_fn(|| resume.next_event()).last().unwrap();
    assert_eq!(last.trigger, Some(Trigger::EcnCe));
    assert_eq!(sender.0.recovery.lost_count(), 0);
}

/// A jump of 150 packets, whose queue marks all of them: what is sent behind
/// them is marked as well, and answered already. What is sent once they are
/// acknowledged is not.
#[rstest]
fn marks_of_the_queue_behind_a_jump_are_part_of_the_retreat(
    #[values(Reno, CUBIC, Bbr2Gcongestion)] cc: CongestionControlAlgorithm,
) {
    let mut sender = resumed(config(cc), MarkedSender::new);
    let initial = sender.fill();
    sender.0.wait(RTT);
    sender.ack(initial, 0);

    let jump = sender.send(150);
    sender.0.wait(RTT / 2);
    sender.ack(jump.start..jump.start + 60, 0);
    sender.ack(jump.start + 60..jump.start + 70, 10);
    assert_eq!(phase_of(&sender), Phase::SafeRetreat);
    sender.ack(jump.start + 70..jump.end - 4, 60);
    let behind = sender.fill();
    sender.0.wait(RTT);
    sender.ack(jump.end - 4..jump.end, 4);
    assert_eq!(phase_of(&sender), Phase::Normal);

    let after_retreat = sender.0.window();
    let later = sender.fill();
    sender.ack(behind, 4);
    let grown = sender.0.window();
    assert!(grown > after_retreat, "{after_retreat}, {grown}");

    // BBR answers marks when the bandwidth does not grow.
    if cc != Bbr2Gcongestion {
        sender.0.wait(RTT);
        sender.ack(later, 4);
        let reduced = sender.0.window();
        assert!(reduced < grown, "{grown}, {reduced}");
    }
}

fn phase_of(sender: &MarkedSender) -> Phase {
    sender.0.recovery.careful_resume().unwrap().phase()
}

/// BBR leaves Startup, and lowers its bounds, for marked bytes as for lost ones.
#[rstest]
#[case::unmarked(0, false)]
#[case::marked(1, true)]
fn bbr_leaves_startup_for_marks(#[case] marks: u64, #[case] is_over: bool) {
    let mut sender = MarkedSender::new(&config(Bbr2Gcongestion));

    // The bandwidth does not grow, or marks would not count.
    for _ in 0..2 {
        let sent = sender.send(40);
        for pkt_num in sent {
            sender.0.wait(RTT / 40);
            sender.ack(pkt_num..pkt_num + 1, marks.min(pkt_num % 2));
        }
    }

    let exit = sender.0.recovery.startup_exit();
    assert_eq!(exit.is_some(), is_over, "{exit:?}");
}

fn l4s_config(cc: CongestionControlAlgorithm) -> Config {
    let mut config = config(cc);
    config.set_ecn(Some(EcnConfig {
        l4s: true,
        ..Default::default()
    }));
    config
}

/// A sender in congestion avoidance, after its first mark, on a path of L4S.
fn l4s_sender(cc: CongestionControlAlgorithm) -> MarkedSender {
    let mut sender = MarkedSender::of_l4s(&l4s_config(cc));
    for _ in 0..4 {
        let sent = sender.fill();
        sender.0.wait(RTT);
        sender.ack_l4s(sent, 0);
    }
    let sent = sender.fill();
    sender.0.wait(RTT);
    let before = sender.0.window();
    sender.ack_l4s(sent, 1);
    // The first mark halves.
    assert!(sender.0.window() <= before / 2 + 4);
    sender
}

/// RFC 9331, 4.3: few marks cost little of the window, which grows in between.
#[rstest]
#[case(Reno)]
#[case(CUBIC)]
fn l4s_window_follows_the_share_of_marks(#[case] cc: CongestionControlAlgorithm) {
    let mut sender = l4s_sender(cc);
    let mut windows = Vec::new();
    for round in 0..60 {
        let sent = sender.fill();
        sender.0.wait(RTT);
        let ce = u64::from(round % 2 == 0);
        sender.ack_l4s(sent, ce);
        windows.push(sender.0.window());
    }
    // Half a mark a round trip is less than two, at which growth would end.
    let (first, last) = (windows[30], windows[59]);
    assert!(last > first, "{windows:?}");
    let steps = windows[30..].windows(2).map(|w| w[0].abs_diff(w[1]));
    assert!(steps.max().unwrap() <= 5, "{windows:?}");
    assert_eq!(sender.0.recovery.lost_count(), 0);
    assert_eq!(sender.0.recovery.next_ecn(), Codepoint::Ect1);
}

/// RFC 9331, 4.3: a loss is answered as by any other flow.
#[rstest]
#[case(Reno, 0.5)]
#[case(CUBIC, 0.7)]
fn l4s_flow_answers_a_loss_classically(
    #[case] cc: CongestionControlAlgorithm, #[case] factor: f64,
) {
    let mut sender = l4s_sender(cc);
    sender.0.wait(RTT);
    let sent = sender.fill();
    sender.0.wait(RTT);
    let before = sender.0.recovery.cwnd() as f64;
    // The first one is lost.
    sender.ack_l4s(sent.start + 1..sent.end, 0);
    assert_close_to(sender.0.recovery.cwnd() as f64 / before, factor);
    assert_eq!(sender.0.recovery.lost_count(), 1);
}

/// RFC 9331, A.1: on a classic queue, ECT(0) and the classic answer.
#[rstest]
#[case(Reno, 0.5)]
#[case(CUBIC, 0.7)]
fn l4s_flow_becomes_classic_on_a_classic_queue(
    #[case] cc: CongestionControlAlgorithm, #[case] factor: f64,
) {
    let mut sender = l4s_sender(cc);
    let queue = Duration::from_millis(8);
    for _ in 0..8 {
        let sent = sender.fill();
        sender.0.wait(RTT + queue);
        let is_l4s = sender.0.recovery.next_ecn() == Codepoint::Ect1;
        match is_l4s {
            true => sender.ack_l4s(sent, 1),
            false => sender.ack(sent, 0),
        }
    }
    assert_eq!(sender.0.recovery.next_ecn(), Codepoint::Ect0);
    sender.0.wait(RTT);
    assert_close_to(sender.round_with_mark(), factor);

    // It grows from there, and not as if long had passed.
    let before = sender.0.window();
    sender.0.wait(RTT);
    let sent = sender.fill();
    sender.0.wait(RTT);
    sender.ack(sent, 0);
    assert!(sender.0.window() <= before + 2);
}

/// RFC 9331, 4.3: the initial window leaves over a good part of a round trip, and
/// not at once.
#[test]
fn l4s_flow_paces_its_initial_window() {
    for l4s in [true, false] {
        let mut config = config(CUBIC);
        config.set_reno_cubic_pacing(true);
        config.set_ecn(Some(EcnConfig {
            l4s,
            ..Default::default()
        }));
        let mut sender = match l4s {
            true => MarkedSender::of_l4s(&config),
            false => MarkedSender::new(&config),
        };
        let began = sender.0.now;
        sender.fill();
        let release = sender.0.recovery.get_packet_send_time(began) - began;
        assert_eq!(release > RTT / 4, l4s, "{release:?}");
    }
}

/// RFC 9959, 3.3: a mark ends a jump, of L4S or not.
#[rstest]
#[case(Reno)]
#[case(CUBIC)]
fn l4s_mark_ends_a_jump(#[case] cc: CongestionControlAlgorithm) {
    let mut sender = resumed(l4s_config(cc), MarkedSender::of_l4s);

    let initial = sender.fill();
    sender.0.wait(RTT);
    sender.ack_l4s(initial, 0);
    let jump = sender.send(50);
    assert_eq!(phase_of(&sender), Phase::Unvalidated);
    sender.0.wait(RTT / 2);
    sender.ack_l4s(jump.start..jump.start + 3, 1);
    assert_eq!(phase_of(&sender), Phase::SafeRetreat);
    assert!(sender.0.window() < 150 / 2);
    assert_eq!(sender.0.recovery.lost_count(), 0);
}

/// BBR2 has no scalable response, and marks with ECT(0).
#[test]
fn bbr_does_not_mark_ect1() {
    let config = l4s_config(Bbr2Gcongestion);
    let sender = MarkedSender::new(&config);
    assert_eq!(sender.0.recovery.next_ecn(), Codepoint::Ect0);
}

/// A packet that leaves at once with others, and seems to leave later, has an RTT
/// below the path's: every other RTT shows a queue then.
#[rstest]
#[case(Reno)]
#[case(CUBIC)]
fn l4s_packets_of_the_handshake_leave_at_once(
    #[case] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::of(&l4s_config(cc));
    let release =
        |sender: &Sender| sender.recovery.get_packet_send_time(sender.now);
    for _ in 0..5 {
        sender.recovery.begin_ecn_datagram();
        sender.send(1);
        assert_eq!(release(&sender), sender.now);
    }

    sender.wait(RTT);
    sender.ack(0..5);
    sender.recovery.begin_ecn_datagram();
    sender.send(2);
    sender.recovery.begin_ecn_datagram();
    sender.send(1);
    assert!(release(&sender) > sender.now, "the initial window is paced");
}
