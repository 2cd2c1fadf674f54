//! Fast path for small responses: header section and body in one write to the
//! stream.

use smallvec::SmallVec;

use super::*;

impl Connection {
    /// Sends a response with its whole body, which is copied, or nothing.
    ///
    /// The peer gets the same bytes as from [`send_response_with_priority()`]
    /// and [`send_body()`] with `fin` set.
    ///
    /// # Errors
    ///
    /// [`StreamBlocked`] if the stream does not take all of it: use those two
    /// functions then. Otherwise the errors of these.
    ///
    /// [`send_response_with_priority()`]: Connection::send_response_with_priority
    /// [`send_body()`]: Connection::send_body
    /// [`StreamBlocked`]: Error::StreamBlocked
    pub fn send_response_with_body<T: NameValue, F: BufFactory>(
        &mut self, conn: &mut crate::Connection<F>, stream_id: u64,
        headers: &[T], priority: &Priority, body: &[u8],
    ) -> Result<()> {
        let stream = self.streams.get(&stream_id);
        if stream.is_none_or(|stream| stream.local_initialized()) {
            return Err(Error::FrameUnexpected);
        }

        self.send_headers_with_body(conn, stream_id, headers, body, true)?;
        if !body.is_empty() {
            self.log_body(conn, stream_id, body.len());
        }
        let (urgency, incremental) =
            (transport_urgency(priority), priority.incremental);
        conn.stream_priority(stream_id, urgency, incremental)?;
        Ok(())
    }

    fn log_body<F: BufFactory>(
        &self, _conn: &mut crate::Connection<F>, _stream_id: u64, _len: usize,
    ) {
        qlog_with_type!(QLOG_FRAME_CREATED, _conn.qlog, q, {
            let created = FrameCreated {
                stream_id: _stream_id,
                length: Some(_len as u64),
                frame: Http3Frame::Data { raw: None },
                ..Default::default()
            };
            let event = EventData::Http3FrameCreated(created);
            q.add_event_data_with_instant(event, crate::clock::now())
                .ok();
        });
    }
}

/// Frames of one write. Nearly all of them need no allocation.
pub(super) type FrameBuf = SmallVec<[u8; 4 << 10]>;

/// Adds room, many bytes at a time: `resize()` writes each byte.
pub(super) fn add_room(frames: &mut FrameBuf, mut len: usize) {
    const ROOM: [u8; 512] = [0; 512];

    while len > 0 {
        let part = len.min(ROOM.len());
        frames.extend_from_slice(&ROOM[..part]);
        len -= part;
    }
}

/// Adds a DATA frame, unless the body is empty (RFC 9114, 7.2.1).
pub(super) fn add_data_frame(frames: &mut FrameBuf, body: &[u8]) -> Result<()> {
    if body.is_empty() {
        return Ok(());
    }
    let mut header = [0; 9];
    let mut b = octets::OctetsMut::with_slice(&mut header);
    b.put_varint(frame::DATA_FRAME_TYPE_ID)?;
    b.put_varint(body.len() as u64)?;
    let length = b.off();
    frames.extend_from_slice(&header[..length]);
    frames.extend_from_slice(body);
    Ok(())
}

/// Returns the transport's urgency of a priority; some are above all of
/// HTTP/3's.
pub(super) fn transport_urgency(priority: &Priority) -> u8 {
    let urgency = priority
        .urgency
        .clamp(PRIORITY_URGENCY_LOWER_BOUND, PRIORITY_URGENCY_UPPER_BOUND);
    urgency + PRIORITY_URGENCY_OFFSET
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h3::testing::Session;
    use crate::test_utils::Pipe;

    const URGENT: Priority = Priority::new(1, false);

    fn head() -> [Header; 2] {
        [
            Header::new(b":status", b"200"),
            Header::new(b"server", b"quiche-test"),
        ]
    }

    /// Returns a session with a request, whose client takes `bytes_max` of the
    /// response.
    fn asked(bytes_max: u64) -> Session {
        let (mut config, http) = Session::default_configs().unwrap();
        config.set_initial_max_stream_data_bidi_local(bytes_max);
        let mut session = Session::with_configs(&mut config, &http).unwrap();
        session.handshake().unwrap();
        // Reserved frames are at one end of a connection's first response.
        session.server.frames_greased = true;
        session.send_request(true).unwrap();
        while session.poll_server().is_ok() {}
        session
    }

    fn send_whole(session: &mut Session, body: &[u8]) -> Result<()> {
        let Session {
            pipe: Pipe { server, .. },
            server: http,
            ..
        } = session;
        http.send_response_with_body(server, 0, &head(), &URGENT, body)
    }

    fn send_parts(session: &mut Session, body: &[u8]) -> Result<()> {
        let Session {
            pipe: Pipe { server, .. },
            server: http,
            ..
        } = session;
        let last = body.is_empty();
        http.send_response_with_priority(server, 0, &head(), &URGENT, last)?;
        if !last {
            assert_eq!(http.send_body(server, 0, body, true)?, body.len());
        }
        Ok(())
    }

    /// The client's stream, as it came.
    fn received(session: &mut Session) -> (Vec<u8>, bool) {
        session.advance().unwrap();
        let mut bytes = [0; 1000];
        match session.pipe.client.stream_recv(0, &mut bytes) {
            Ok((len, fin)) => (bytes[..len].to_vec(), fin),
            Err(_) => (Vec::new(), false),
        }
    }

    #[test]
    fn response_with_body_has_the_bytes_of_its_parts() {
        for body in [&b""[..], b"x", &[7; 63], &[7; 64], &[7; 300]] {
            let (mut whole, mut parts) = (asked(1000), asked(1000));
            send_whole(&mut whole, body).unwrap();
            send_parts(&mut parts, body).unwrap();
            let priority = |session: &Session| {
                let stream = session.pipe.server.streams.get(0).unwrap();
                (stream.urgency, stream.incremental)
            };
            assert_eq!(priority(&whole), priority(&parts));
            let bytes = received(&mut whole);
            assert_eq!(bytes, received(&mut parts), "{} bytes", body.len());
            assert!(bytes.1);
            for session in [&mut whole, &mut parts] {
                session.advance().unwrap();
                assert!(!session.server.streams.contains_key(&0));
                assert!(session.pipe.server.streams.is_collected(0));
            }
        }
    }

    #[test]
    fn response_that_does_not_fit_can_be_sent_in_parts() {
        let needed = {
            let mut session = asked(1000);
            send_whole(&mut session, &[7; 50]).unwrap();
            received(&mut session).0.len() as u64
        };
        assert_eq!(send_whole(&mut asked(needed), &[7; 50]), Ok(()));

        let mut session = asked(needed - 1);
        let blocked = Err(Error::StreamBlocked);
        assert_eq!(send_whole(&mut session, &[7; 50]), blocked);
        assert_eq!(received(&mut session), (vec![], false));
        let told = session.pipe.client.stats().stream_data_blocked_recv_count;
        assert_eq!(told, 0);

        let Session { pipe, server, .. } = &mut session;
        server
            .send_response(&mut pipe.server, 0, &head(), false)
            .unwrap();
        assert_eq!(
            server.send_body(&mut pipe.server, 0, &[7; 50], true),
            Ok(49)
        );
    }

    #[test]
    fn second_response_to_a_request_is_refused() {
        let mut session = asked(1000);
        let http = &mut session.server;
        let quic = &mut session.pipe.server;
        assert_eq!(
            http.send_response_with_body(quic, 4, &head(), &URGENT, b"x"),
            Err(Error::FrameUnexpected)
        );
        http.send_response(quic, 0, &head(), false).unwrap();
        assert_eq!(
            http.send_response_with_body(quic, 0, &head(), &URGENT, b"x"),
            Err(Error::FrameUnexpected)
        );
    }

    #[test]
    fn response_to_a_stopped_stream_is_refused() {
        let mut session = asked(1000);
        let client = &mut session.pipe.client;
        client
            .stream_shutdown(0, crate::Shutdown::Read, 0x10c)
            .unwrap();
        session.advance().unwrap();
        let stopped = crate::Error::StreamStopped(0x10c);
        assert_eq!(
            send_whole(&mut session, b"x"),
            Err(Error::TransportError(stopped))
        );
    }
}
