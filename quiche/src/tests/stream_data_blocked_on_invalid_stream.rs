//! STREAM_DATA_BLOCKED for streams on which the peer cannot send (RFC 9000,
//! 19.13 and 4.6).

use super::*;
use crate::test_utils::Pipe;

/// Returns what a server answers to the frame on a stream.
fn blocked_on(stream_id: u64) -> Result<usize> {
    let mut pipe = Pipe::new("cubic").unwrap();
    pipe.handshake().unwrap();
    let frames = [frame::Frame::StreamDataBlocked {
        stream_id,
        limit: 10,
    }];
    pipe.send_pkt_to_server(Type::Short, &frames, &mut [0; 1500])
}

#[test]
fn stream_data_blocked_on_own_unidirectional_stream_is_an_error() {
    assert_eq!(blocked_on(3), Err(Error::InvalidStreamState(3)));
}

#[test]
fn stream_data_blocked_beyond_the_stream_limit_is_an_error() {
    // The limit is 3 streams of each type.
    assert_eq!(blocked_on(4 * 3), Err(Error::StreamLimit));
    assert_eq!(blocked_on(4 * 3 + 2), Err(Error::StreamLimit));
}

#[test]
fn stream_data_blocked_within_the_limits_is_valid() {
    for stream_id in [0, 2, 4 * 2] {
        assert!(blocked_on(stream_id).is_ok(), "{stream_id}");
    }
}
