//! ACKs of skipped packet numbers that come after those of higher numbers (RFC
//! 9000, 21.4).

use super::*;
use crate::test_utils::Pipe;

fn pipe(cc_algorithm_name: &str) -> Pipe {
    let mut config = Pipe::default_config(cc_algorithm_name).unwrap();
    config.set_initial_max_data(100_000);
    config.set_initial_max_stream_data_bidi_remote(100_000);
    let mut pipe = Pipe::with_config(&mut config).unwrap();
    pipe.handshake().unwrap();
    pipe
}

/// Has the server send until it skips a number and the client acknowledges a
/// higher one. Returns the skipped number.
fn skip(pipe: &mut Pipe) -> u64 {
    for _ in 0..1000 {
        pipe.server.stream_send(1, &[42; 10], false).unwrap();
        let flight = test_utils::emit_flight(&mut pipe.server).unwrap();
        let skipped = pipe.server.pkt_num_manager.skip_pn();
        test_utils::process_flight(&mut pipe.client, flight).unwrap();
        pipe.advance().unwrap();

        if let Some(number) = skipped {
            assert_eq!(pipe.server.pkt_num_manager.skip_pn(), None);
            return number;
        }
    }

    panic!("no number was skipped");
}

fn ack(pipe: &mut Pipe, packets: std::ops::Range<u64>) -> Result<usize> {
    let mut ranges = ranges::RangeSet::default();
    ranges.insert(packets);
    let frame = frame::Frame::ACK {
        ack_delay: 15,
        ranges,
        ecn_counts: None,
    };

    pipe.send_pkt_to_server(Type::Short, &[frame], &mut [0; 2000])
}

#[rstest]
fn ack_that_fills_a_gap_later_closes_the_connection(
    #[values("cubic", "bbr2_gcongestion")] cc_algorithm_name: &str,
) {
    let mut pipe = pipe(cc_algorithm_name);
    let first = skip(&mut pipe);
    let second = skip(&mut pipe);
    let end = pipe.server.next_pkt_num;

    assert!(second > first);
    assert!(ack(&mut pipe, second + 1..end).is_ok());
    let filled = ack(&mut pipe, first - 1..end);
    assert_eq!(filled, Err(Error::OptimisticAckDetected));
}

#[test]
fn the_latest_skipped_numbers_are_remembered() {
    const REMEMBERED: usize = 32;

    let mut pipe = pipe("cubic");
    let skipped: Vec<u64> = (0..40).map(|_| skip(&mut pipe)).collect();
    let (forgotten, remembered) = skipped.split_at(40 - REMEMBERED);

    for number in forgotten {
        assert!(ack(&mut pipe, *number..number + 1).is_ok());
    }
    for number in remembered {
        // Those beside it were sent.
        assert!(ack(&mut pipe, number - 1..*number).is_ok());
        assert!(ack(&mut pipe, number + 1..number + 2).is_ok());
    }
    let oldest = ack(&mut pipe, remembered[0]..remembered[0] + 1);
    assert_eq!(oldest, Err(Error::OptimisticAckDetected));
}
