//! Frame types of HTTP/2 that HTTP/3 reserves (RFC 9114, 7.2.8).

use super::*;

const CONTROL: u64 = 2;

#[test]
fn http2_frame_type_is_unexpected() {
    for ty in [0x02, 0x06, 0x08, 0x09] {
        let mut s = Session::new().unwrap();
        s.handshake().unwrap();
        s.send_arbitrary_stream_data_client(&[ty, 1, 0], CONTROL, false)
            .unwrap();
        assert_eq!(s.poll_server(), Err(Error::FrameUnexpected), "{ty:#x}");

        let mut s = Session::new().unwrap();
        s.handshake().unwrap();
        let (stream, _) = s.send_request(false).unwrap();
        s.send_arbitrary_stream_data_client(&[ty, 1, 0], stream, false)
            .unwrap();
        assert!(matches!(s.poll_server(), Ok((_, Event::Headers { .. }))));
        assert_eq!(s.poll_server(), Err(Error::FrameUnexpected), "{ty:#x}");
    }
}

#[test]
fn unknown_frame_type_is_ignored() {
    for ty in [0x21, 0x0a] {
        let mut s = Session::new().unwrap();
        s.handshake().unwrap();
        s.send_arbitrary_stream_data_client(&[ty, 1, 0], CONTROL, false)
            .unwrap();
        assert_eq!(s.poll_server(), Err(Error::Done), "{ty:#x}");
    }
}
