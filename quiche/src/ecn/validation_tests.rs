//! Tests of a path's validation.

use super::*;
use rstest::rstest;

const EPOCH: Epoch = Epoch::Application;

/// A path on which packets are sent one by one.
struct MarkedPath {
    ecn: PathEcn,
    next: u64,
}

impl MarkedPath {
    fn new() -> Self {
        MarkedPath {
            ecn: PathEcn::new(EcnConfig::default()),
            next: 0,
        }
    }

    /// Returns how many of so many packets were marked.
    fn send(&mut self, packets: u64) -> u64 {
        let mut marked = 0;
        for _ in 0..packets {
            self.ecn.begin_datagram();
            marked += u64::from(self.ecn.on_packet_sent(EPOCH, self.next));
            self.next += 1;
        }
        marked
    }

    /// Takes an ACK of these packets. Returns the marks to be answered.
    fn ack(&mut self, acked: Range<u64>, feedback: Feedback) -> u64 {
        self.ecn.set_feedback(feedback);
        self.ecn
            .on_acked(EPOCH, acked.clone().count(), |n| {
                (n.clamp(acked.start, acked.end) - acked.start) as usize
            })
            .ce
    }

    fn capable() -> Self {
        let mut path = MarkedPath::new();
        path.send(1);
        path.ack(0..1, new(1, 0));
        assert_eq!(path.ecn.state(), EcnState::Capable);
        path
    }
}

fn new(ect0: u64, ce: u64) -> Feedback {
    Feedback::New(Marks { ect0, ect1: 0, ce })
}

/// RFC 9000, A.4: the first packets are marked, the others when these arrived.
#[test]
fn first_packets_test_the_path() {
    let mut path = MarkedPath::new();
    assert_eq!(path.send(50), TEST_PACKETS);
    assert_eq!(path.ecn.state(), EcnState::Unknown);

    assert_eq!(path.ack(0..20, new(9, 1)), 1);
    assert_eq!(path.ecn.state(), EcnState::Capable);
    assert_eq!(path.send(50), 50);
    // Of the others none was marked.
    assert_eq!(path.ack(20..50, new(0, 0)), 0);
    assert_eq!(path.ecn.state(), EcnState::Capable);
    assert_eq!(path.ack(50..100, new(47, 3)), 3);
}

#[rstest]
#[case::cleared(Feedback::Missing)]
#[case::changed(Feedback::Impossible)]
#[case::cleared_for_some(new(3, 1))]
fn path_that_changes_marks_goes_on_without(#[case] feedback: Feedback) {
    for mut path in [MarkedPath::new(), MarkedPath::capable()] {
        let first = path.next;
        path.send(5);
        assert_eq!(path.ack(first..path.next, feedback), 0);
        assert_eq!(path.ecn.state(), EcnState::Failed);
        assert_eq!(path.send(5), 0);
        // It stays like that.
        assert_eq!(path.ack(first..path.next, new(5, 5)), 0);
        assert_eq!(path.ecn.state(), EcnState::Failed);
    }
}

#[test]
fn ack_of_unmarked_packets_needs_no_counts() {
    let mut path = MarkedPath::new();
    path.send(20);
    path.ack(10..20, Feedback::Missing);
    path.ack(3..10, Feedback::Stale);
    assert_eq!(path.ecn.state(), EcnState::Unknown);
    // Those of another packet number space are none of this one's.
    path.ecn.set_feedback(Feedback::Missing);
    path.ecn.on_acked(Epoch::Handshake, 20, |n| n as usize);
    assert_eq!(path.ecn.state(), EcnState::Unknown);
}

/// Every packet arrives as CE: that is the path's fault, or a queue of others.
#[test]
fn marks_of_every_packet_are_not_answered() {
    let mut path = MarkedPath::new();
    path.send(20);
    assert_eq!(path.ack(0..4, new(0, 4)), 0);
    assert_eq!(path.ecn.state(), EcnState::Unknown);
    let mut other = MarkedPath {
        ecn: path.ecn,
        ..path
    };
    assert_eq!(other.ack(4..10, new(0, 6)), 0);
    assert_eq!(other.ecn.state(), EcnState::Failed);

    let mut path = MarkedPath::new();
    path.send(20);
    path.ack(0..4, new(0, 4));
    assert_eq!(path.ack(4..10, new(1, 5)), 5);
    assert_eq!(path.ecn.state(), EcnState::Capable);
}

/// A path that drops marked packets costs one probe timeout.
#[test]
fn path_that_drops_marks_goes_on_without() {
    let mut path = MarkedPath::new();
    path.send(4);
    path.ecn.on_timeout(1);
    assert_eq!(path.send(10), 0);
    path.ack(4..14, Feedback::Missing);
    assert_eq!(path.ecn.state(), EcnState::Unknown);
    assert_eq!(path.send(10), 0);
}

#[test]
fn timeouts_in_a_row_stop_marks_until_one_arrives() {
    let mut path = MarkedPath::capable();
    path.send(10);
    path.ecn.on_timeout(1);
    assert_eq!(path.send(1), 1);
    path.ecn.on_timeout(2);
    assert_eq!(path.send(3), 0);
    // An ACK of packets that were not marked says nothing.
    path.ack(12..15, new(0, 0));
    assert_eq!(path.send(3), 0);
    path.ack(1..12, new(11, 0));
    assert_eq!(path.send(3), 3);
}

#[test]
fn skipped_numbers_and_pauses_do_not_count() {
    let mut marked = MarkedPackets::default();
    let sent = [(0, true), (1, true), (5, true), (6, false), (9, true)];
    for (pkt_num, is_marked) in sent {
        marked.on_sent(pkt_num, is_marked);
    }

    let acked = [0, 1, 5, 6, 9];
    let below = |n| acked.partition_point(|acked| *acked < n);
    assert_eq!(marked.count(below), 4);
    assert_eq!(marked.count(|n| usize::from(n > 6)), 0);
}

/// Runs that are forgotten make validation less strict, never wrong.
#[test]
fn forgotten_runs_count_as_unmarked() {
    let mut marked = MarkedPackets::default();
    for run in 0..10 {
        marked.on_sent(2 * run, true);
        marked.on_sent(2 * run + 1, false);
    }
    assert_eq!(marked.count(|n| n as usize), RUNS_MAX as u64);
}

/// The way of most ACKs is a shorter one to what validation finds.
#[test]
fn expected_ack_is_answered_as_validation_answers_it() {
    let mut found = 0;
    for (sent, acked) in
        (1..5).flat_map(|sent| (1..=sent).map(move |a| (sent, a)))
    {
        for feedback in [
            Feedback::Stale,
            Feedback::Missing,
            new(acked, 0),
            new(acked + 1, 0),
            new(acked - 1, 0),
            new(acked - 1, 1),
            new(acked, 1),
        ] {
            let [mut path, mut validated] = [(); 2].map(|()| {
                let mut path = MarkedPath::capable();
                path.send(sent);
                path
            });
            let below = |n: u64| n.clamp(1, 1 + acked) as usize - 1;
            let marks = path.ack(1..1 + acked, feedback);
            let expected = validated.ecn.validate(EPOCH, feedback, below);
            assert_eq!(marks, expected.ce, "{acked} of {sent}, {feedback:?}");
            assert_eq!(path.ecn.state(), validated.ecn.state());
            found += u64::from(path.ecn.state() == EcnState::Capable);
        }
    }
    // Two kinds of feedback are too little, or missing.
    assert_eq!(found, 50);
}

/// Over a dual queue, the others would be overtaken.
#[test]
fn test_of_l4s_is_the_whole_first_flight() {
    let mut ecn = PathEcn::new(EcnConfig {
        l4s: true,
        ..Default::default()
    });
    let handshake_and_window = 17;
    let marked = (0..50).take_while(|number| {
        ecn.begin_datagram();
        ecn.on_packet_sent(EPOCH, *number)
    });
    let marked = marked.count() as u64;
    assert_eq!(marked, L4S_TEST_PACKETS);
    assert!(marked > handshake_and_window);
}

/// With the setting of L4S, packets are marked with ECT(1), and must arrive so.
#[test]
fn path_of_l4s_is_marked_with_ect1() {
    let mut ecn = PathEcn::new(EcnConfig {
        l4s: true,
        ..Default::default()
    });
    assert!(ecn.scalable().is_none());
    assert_eq!(ecn.begin_datagram(), Codepoint::Ect1);
    assert!(ecn.on_packet_sent(EPOCH, 0));
    let marks = Marks {
        ect0: 0,
        ect1: 1,
        ce: 0,
    };
    ecn.set_feedback(Feedback::New(marks));
    assert_eq!(ecn.on_acked(EPOCH, 1, |n| n.min(1) as usize), marks);
    assert_eq!(ecn.state(), EcnState::Capable);
    assert!(ecn.scalable().is_some());

    // A path that fails has no scalable response.
    ecn.begin_datagram();
    ecn.on_packet_sent(EPOCH, 1);
    ecn.set_feedback(Feedback::Missing);
    ecn.on_acked(EPOCH, 1, |n| n.saturating_sub(1).min(1) as usize);
    assert_eq!(ecn.state(), EcnState::Failed);
    assert!(ecn.scalable().is_none());
    assert_eq!(ecn.next_codepoint(), Codepoint::NotEct);
}
