//! Validity of frames and field sections: rules of RFC 9114 and RFC 9204 that
//! the library's parsers do not check.

use super::*;

/// End of a request's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// After a frame, and a request.
    Whole,

    /// Within a frame.
    WithinFrame,

    /// Before a request began.
    WithoutRequest,
}

impl Connection {
    /// Returns how a finished stream has ended.
    pub(super) fn stream_end(&self, stream_id: u64) -> End {
        match self.streams.get(&stream_id) {
            Some(stream) if stream.ended_within_frame() => End::WithinFrame,

            Some(stream)
                if self.is_server && stream.headers_received_count() == 0 =>
            {
                End::WithoutRequest
            },

            _ => End::Whole,
        }
    }

    /// Tells the peer about an invalid end of a stream.
    pub(super) fn on_stream_end<F: BufFactory>(
        &mut self, conn: &mut crate::Connection<F>, stream_id: u64, end: End,
    ) {
        match end {
            End::Whole => (),

            // RFC 9114, 7.1.
            End::WithinFrame => {
                let code = Error::FrameError.to_wire();
                let _ = conn.close(true, code, b"Stream ends within a frame.");
            },

            // RFC 9114, 4.1: there is no request to answer, and nothing to
            // keep.
            End::WithoutRequest => {
                let code = Error::RequestIncomplete.to_wire();
                for way in [crate::Shutdown::Read, crate::Shutdown::Write] {
                    let _ = conn.stream_shutdown(stream_id, way, code);
                }
                self.streams.remove(&stream_id);
            },
        }
    }
}

/// Whether all of a stream has been read. After the application has stopped
/// reading, the end of the last frame is unknown.
pub(super) fn is_read_to_end<F: BufFactory>(
    conn: &crate::Connection<F>, stream_id: u64,
) -> bool {
    let stream = conn.streams.get(stream_id);
    conn.stream_finished(stream_id)
        && !stream.is_some_and(|stream| stream.recv.is_draining())
}

/// Whether HTTP/2 has this frame type, and HTTP/3 does not (RFC 9114, 7.2.8).
pub(super) fn is_of_http2(frame_type: u64) -> bool {
    matches!(frame_type, 0x02 | 0x06 | 0x08 | 0x09)
}

/// Returns the error of a frame that ends before its fields (RFC 9114, 7.1).
pub(super) fn frame_error(e: Error) -> Error {
    match e {
        Error::BufferTooShort => Error::FrameError,

        e => e,
    }
}

/// Checks that a frame of one integer has nothing else (RFC 9114, 7.1).
pub(super) fn check_payload(frame_type: u64, payload: &[u8]) -> Result<()> {
    let is_integer = matches!(
        frame_type,
        frame::CANCEL_PUSH_FRAME_TYPE_ID
            | frame::GOAWAY_FRAME_TYPE_ID
            | frame::MAX_PUSH_FRAME_TYPE_ID
    );
    let fits = |first: &u8| octets::varint_parse_len(*first) == payload.len();
    match payload.first() {
        Some(first) if is_integer && !fits(first) => Err(Error::FrameError),

        _ => Ok(()),
    }
}

/// Whether a field section refers to a dynamic table. There is none: its
/// capacity is 0 (RFC 9204, 4.5.1.1), and so is the largest base, which the
/// sign in the first byte makes negative (4.5.1.2).
pub(super) fn refers_to_dynamic_table(
    required_insert_count: u64, sign: u8,
) -> bool {
    const SIGN_BIT: u8 = 0x80;
    required_insert_count != 0 || sign & SIGN_BIT != 0
}

/// Returns why a string cannot be decoded: an invalid Huffman code (RFC 7541,
/// 5.2), or too long.
pub(super) fn huffman_error(encoded: &[u8]) -> qpack::Error {
    match octets::Octets::with_slice(encoded).get_huffman_decoded() {
        Ok(_) => qpack::Error::HeaderListTooLarge,

        Err(_) => qpack::Error::InvalidHuffmanEncoding,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h3::testing::Session;

    #[test]
    fn stopped_stream_may_end_within_a_frame() {
        for stopped in [false, true] {
            let mut session = Session::new().unwrap();
            session.handshake().unwrap();
            let (stream, _) = session.send_request(false).unwrap();
            session.send_body_client(stream, true).unwrap();
            while !matches!(session.poll_server(), Ok((_, Event::Data))) {}

            let quic = &mut session.pipe.server;
            if stopped {
                let way = crate::Shutdown::Read;
                quic.stream_shutdown(stream, way, 0x100).unwrap();
            }
            let body = session.recv_body_server(stream, &mut [0; 100]);
            assert_eq!(body.is_err(), stopped);
            let next = session.poll_server();
            let finished = Ok((stream, Event::Finished));
            assert_eq!(next == finished, !stopped, "{next:?}");
            assert_eq!(session.pipe.server.local_error(), None);
        }
    }
}
