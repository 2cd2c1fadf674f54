//! Tests of counts of marks.

use super::*;
use rstest::rstest;

fn counts(ect0: u64, ect1: u64, ce: u64) -> EcnCounts {
    EcnCounts {
        ect0_count: ect0,
        ect1_count: ect1,
        ecn_ce_count: ce,
    }
}

fn sent(packets: u64) -> MarkCounters {
    let mut counters = MarkCounters::default();
    (0..packets).for_each(|_| counters.on_sent(Codepoint::Ect0));
    counters
}

#[test]
fn ack_has_counts_once_a_mark_arrived() {
    let mut counters = MarkCounters::default();
    counters.on_received(Codepoint::NotEct);
    assert_eq!(counters.to_report(), None);

    for ecn in [1, 2, 2, 3, 3, 3, 0].map(Codepoint::from_bits) {
        counters.on_received(ecn);
    }
    assert_eq!(counters.to_report(), Some(counts(2, 1, 3)));
}

#[test]
fn codepoints_have_their_bits() {
    // The other bits are those of DSCP.
    for bits in 0..=u8::MAX {
        assert_eq!(Codepoint::from_bits(bits) as u8, bits & 0b11);
    }
}

/// RFC 9000, 13.4.2.1.
#[rstest]
#[case::marks((3, 0, 1), Some((3, 0, 1)))]
#[case::all_marked((0, 0, 4), Some((0, 0, 4)))]
#[case::more_than_were_sent((5, 0, 0), None)]
#[case::more_ce_than_were_sent((0, 0, 5), None)]
#[case::codepoint_that_was_never_sent((3, 1, 0), None)]
fn counts_must_be_possible(
    #[case] (ect0, ect1, ce): (u64, u64, u64),
    #[case] new: Option<(u64, u64, u64)>,
) {
    let mut counters = sent(4);
    let expected = match new {
        Some((ect0, ect1, ce)) => Feedback::New(Marks { ect0, ect1, ce }),
        None => Feedback::Impossible,
    };
    let feedback = counters.on_ack(7, Some(&counts(ect0, ect1, ce)));
    assert_eq!(feedback, expected);
    let reported = Marks { ect0, ect1, ce };
    assert_eq!(
        counters.reported == reported,
        new.is_some(),
        "for statistics"
    );
}

#[test]
fn counts_are_compared_with_those_before() {
    let mut counters = sent(9);
    let new = |ect0, ce| Feedback::New(Marks { ect0, ect1: 0, ce });

    assert_eq!(counters.on_ack(3, Some(&counts(4, 0, 0))), new(4, 0));
    assert_eq!(counters.on_ack(6, Some(&counts(6, 0, 1))), new(2, 1));
    // An older one arrives late, and one that says the same again.
    assert_eq!(counters.on_ack(5, Some(&counts(5, 0, 0))), Feedback::Stale);
    assert_eq!(counters.on_ack(6, None), Feedback::Stale);
    assert_eq!(counters.on_ack(8, Some(&counts(7, 0, 2))), new(1, 1));
    assert_eq!(
        counters.on_ack(9, Some(&counts(6, 0, 2))),
        Feedback::Impossible
    );
    assert_eq!(counters.on_ack(10, None), Feedback::Missing);
    assert_eq!(
        counters.reported,
        Marks {
            ect0: 7,
            ect1: 0,
            ce: 2
        }
    );
}

/// What was sent as ECT(1) may not arrive as ECT(0).
#[rstest]
#[case::marks((0, 3, 1), true)]
#[case::changed_to_ect0((1, 3, 0), false)]
#[case::more_than_were_sent((0, 5, 0), false)]
#[case::more_ce_than_were_sent((0, 0, 5), false)]
fn counts_of_ect1_must_be_possible(
    #[case] (ect0, ect1, ce): (u64, u64, u64), #[case] is_possible: bool,
) {
    let mut counters = MarkCounters::default();
    (0..4).for_each(|_| counters.on_sent(Codepoint::Ect1));
    let feedback = counters.on_ack(7, Some(&counts(ect0, ect1, ce)));
    let new = Feedback::New(Marks { ect0, ect1, ce });
    assert_eq!(feedback == new, is_possible, "{feedback:?}");
}
