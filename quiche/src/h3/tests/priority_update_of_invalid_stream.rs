//! PRIORITY_UPDATE of streams that cannot exist (RFC 9218, 7.2).

use super::*;

const CONTROL: u64 = 2;

/// Returns the error code with which a server answers the frame.
fn error_of(frame: frame::Frame) -> Option<u64> {
    let mut s = Session::new().unwrap();
    s.handshake().unwrap();
    s.send_frame_client(frame, CONTROL, false).unwrap();
    while s.poll_server().is_ok() {}
    let error = s.pipe.server.local_error();
    error.map(|error| error.error_code)
}

fn of_request(prioritized_element_id: u64) -> frame::Frame {
    frame::Frame::PriorityUpdateRequest {
        prioritized_element_id,
        priority_field_value: b"u=3".to_vec(),
    }
}

#[test]
fn priority_update_of_an_invalid_stream_is_an_id_error() {
    let push = frame::Frame::PriorityUpdatePush {
        prioritized_element_id: 5,
        priority_field_value: b"u=3".to_vec(),
    };
    // The limit is 5 streams. Not a request's, the first beyond the limit, and
    // the next one.
    for frame in [of_request(2), of_request(4 * 5), of_request(4 * 6), push] {
        let id_error = Error::IdError.to_wire();
        assert_eq!(error_of(frame.clone()), Some(id_error), "{frame:?}");
    }
}

#[test]
fn priority_update_of_the_last_stream_is_valid() {
    assert_eq!(error_of(of_request(4 * 4)), None);
}
