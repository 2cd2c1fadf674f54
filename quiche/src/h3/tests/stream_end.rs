//! End of a request's stream: within a frame, or before the request (RFC 9114,
//! 4.1 and 7.1).

use super::*;

/// Polls the server until it has nothing to report. Returns its events and the
/// error at the end.
fn poll_to_the_end(s: &mut Session) -> (Vec<Event>, Error) {
    let mut events = vec![];
    loop {
        match s.poll_server() {
            Ok((_, event)) => events.push(event),
            Err(error) => return (events, error),
        }
    }
}

/// Returns a session whose server has the first half of a request's DATA frame,
/// and the stream.
fn within_data(is_end: bool) -> (Session, u64) {
    let mut s = Session::new().unwrap();
    s.handshake().unwrap();
    let (stream, _) = s.send_request(false).unwrap();
    let data = [frame::DATA_FRAME_TYPE_ID as u8, 4, b'd', b'a'];
    s.send_arbitrary_stream_data_client(&data, stream, is_end)
        .unwrap();
    poll_to_the_end(&mut s);
    (s, stream)
}

#[test]
fn stream_that_ends_within_a_frame_is_an_error() {
    let headers = frame::HEADERS_FRAME_TYPE_ID as u8;
    let ends: [&[u8]; 5] = [
        // Half a type, no length, half a length, no payload, half a payload.
        &[0x40],
        &[headers],
        &[headers, 0x40],
        &[headers, 20],
        &[0x21, 9, 0],
    ];
    for end in ends {
        let mut s = Session::new().unwrap();
        s.handshake().unwrap();
        s.send_arbitrary_stream_data_client(end, 0, true).unwrap();
        let polled = poll_to_the_end(&mut s);
        assert_eq!(polled, (vec![], Error::FrameError), "{end:?}");

        let error = s.pipe.server.local_error().map(|error| error.error_code);
        assert_eq!(error, Some(Error::FrameError.to_wire()), "{end:?}");
    }
}

#[test]
fn stream_that_ends_within_data_is_an_error() {
    let (mut s, stream) = within_data(true);
    let read = s.recv_body_server(stream, &mut [0; 10]);
    assert_eq!(read, Err(Error::FrameError));
    assert_eq!(poll_to_the_end(&mut s), (vec![], Error::Done));

    let error = s.pipe.server.local_error().map(|error| error.error_code);
    assert_eq!(error, Some(Error::FrameError.to_wire()));
}

#[test]
fn stream_without_a_request_is_reset_and_forgotten() {
    let unknown_frame = [0x21, 2, 7, 7];
    for bytes in [&[][..], &unknown_frame] {
        let mut s = Session::new().unwrap();
        s.handshake().unwrap();
        s.send_arbitrary_stream_data_client(bytes, 0, true).unwrap();
        let polled = poll_to_the_end(&mut s);
        assert_eq!(polled, (vec![], Error::Done), "{bytes:?}");
        s.advance().unwrap();

        let reset = s.pipe.client.stream_recv(0, &mut [0; 10]);
        let code = Error::RequestIncomplete.to_wire();
        assert_eq!(reset, Err(crate::Error::StreamReset(code)), "{bytes:?}");
        assert!(!s.server.streams.contains_key(&0), "{bytes:?}");
        assert_eq!(s.pipe.server.local_error(), None, "{bytes:?}");
    }
}

#[test]
fn stopped_stream_may_end_within_a_frame() {
    for stopped in [false, true] {
        let mut s = Session::new().unwrap();
        s.handshake().unwrap();
        let (stream, _) = s.send_request(false).unwrap();
        s.send_body_client(stream, true).unwrap();
        while !matches!(s.poll_server(), Ok((_, Event::Data))) {}

        let quic = &mut s.pipe.server;
        if stopped {
            let way = crate::Shutdown::Read;
            quic.stream_shutdown(stream, way, 0x100).unwrap();
        }
        let body = s.recv_body_server(stream, &mut [0; 100]);
        assert_eq!(body.is_err(), stopped);
        assert_eq!(s.poll_server(), Ok((stream, Event::Finished)));
        assert_eq!(s.pipe.server.local_error(), None);
    }
}

#[test]
fn reset_stream_may_end_within_a_frame() {
    let (mut s, stream) = within_data(false);
    assert_eq!(s.recv_body_server(stream, &mut [0; 10]), Ok(2));
    s.pipe
        .client
        .stream_shutdown(stream, crate::Shutdown::Write, 5)
        .unwrap();
    s.advance().unwrap();

    // However often the application asks.
    let reset = Err(Error::TransportError(crate::Error::StreamReset(5)));
    assert_eq!(s.recv_body_server(stream, &mut [0; 10]), reset);
    assert_eq!(s.recv_body_server(stream, &mut [0; 10]), Err(Error::Done));
    poll_to_the_end(&mut s);
    assert_eq!(s.pipe.server.local_error(), None);
}
