//! Fast path for a complete HEADERS frame: one read of the transport takes
//! type, length and payload, where the states in `stream.rs` take three.

use bytes::BufMut;

use super::*;

impl Stream {
    /// Takes the HEADERS frame that begins or ends a request, if it is next and
    /// lies in one buffer. Leaves anything else to the states, which report
    /// what is wrong with it.
    pub fn try_take_headers<F: BufFactory>(
        &mut self, conn: &mut crate::Connection<F>,
    ) -> Result<Option<(frame::Frame, u64)>> {
        debug_assert_eq!(self.state, State::FrameType);
        let front = conn.streams.get(self.id).and_then(|s| s.recv.front());
        let Some((header, payload)) = front.and_then(complete_headers) else {
            return Ok(None);
        };

        let is_good = self.ty == Some(Type::Request)
            && self.state_off == 0
            && payload as u64 <= self.max_encoded_headers_payload_size
            && payload <= MAX_STATE_BUF_SIZE
            && self
                .validate_request_frame_type(frame::HEADERS_FRAME_TYPE_ID)
                .is_ok();
        if !is_good {
            return Ok(None);
        }

        let length = header + payload;
        let mut header_block = Vec::with_capacity(length);
        conn.stream_recv_buf(self.id, (&mut header_block).limit(length))?;
        header_block.drain(..header);
        self.reset_data_event();
        Ok(Some((
            frame::Frame::Headers { header_block },
            payload as u64,
        )))
    }
}

/// Returns the lengths of header and payload, if `bytes` begin with a complete
/// HEADERS frame.
fn complete_headers(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut b = octets::Octets::with_slice(bytes);
    if b.get_varint().ok()? != frame::HEADERS_FRAME_TYPE_ID {
        return None;
    }
    let payload = b.get_varint().ok()?;
    (payload <= b.cap() as u64).then_some((b.off(), payload as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h3::testing::Session;
    use crate::h3::Event;
    use crate::h3::Header;

    const HEADERS: &[u8] = &[1, 6, 0, 0, 0xd1, 0xd7, 0x50, 0];
    const DATA: &[u8] = &[0, 3, 7, 8, 9];
    const RESERVED: &[u8] = &[0x21, 2, 5, 5];
    const LONG_TYPE: &[u8] = &[0x40, 1, 4, 0, 0, 0xd1, 0xd7];
    const LONG_LENGTH: &[u8] = &[1, 0x40, 4, 0, 0, 0xd1, 0xd7];

    #[derive(Debug, PartialEq)]
    enum ReceivedEvent {
        Headers(Vec<Header>),
        Data(Vec<u8>),
        Finished,
    }

    /// Returns what the server receives of a stream in these pieces, and the
    /// error of its connection, or of the client's.
    fn received(pieces: &[&[u8]]) -> (Vec<ReceivedEvent>, Option<u64>) {
        let (mut config, mut http) = Session::default_configs().unwrap();
        http.set_max_field_section_size(200);
        config.set_initial_max_stream_data_bidi_remote(1000);
        let mut session = Session::with_configs(&mut config, &http).unwrap();
        session.handshake().unwrap();

        let mut events = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            let fin = index == pieces.len() - 1;
            let _ = session.send_arbitrary_stream_data_client(piece, 0, fin);
            while let Ok((stream, event)) = session.poll_server() {
                assert_eq!(stream, 0);
                match (event, events.last_mut()) {
                    (Event::Headers { list, .. }, _) => {
                        events.push(ReceivedEvent::Headers(list))
                    },

                    (Event::Data, last) => {
                        let mut body = [0; 100];
                        let len = session.recv_body_server(0, &mut body);
                        let body = &body[..len.unwrap_or(0)];
                        match last {
                            Some(ReceivedEvent::Data(before)) => {
                                before.extend_from_slice(body)
                            },

                            _ if body.is_empty() => (),

                            _ => events.push(ReceivedEvent::Data(body.to_vec())),
                        }
                    },

                    (Event::Finished, _) => events.push(ReceivedEvent::Finished),

                    (event, _) => panic!("{event:?}"),
                }
            }
        }
        let error = session.pipe.server.local_error();
        (events, error.map(|error| error.error_code))
    }

    /// Frames, and what the connection ends with.
    fn streams() -> Vec<(Vec<u8>, Option<u64>)> {
        let too_long = [&[1, 0x41, 0x90][..], &[0; 400]].concat();
        let not_qpack = [1, 3, 0, 0, 0x80 | 0x3f];
        [
            (vec![HEADERS], None),
            (vec![LONG_TYPE], None),
            (vec![LONG_LENGTH], None),
            (vec![HEADERS, DATA], None),
            (vec![HEADERS, DATA, HEADERS], None),
            (vec![RESERVED, HEADERS, RESERVED, DATA, RESERVED], None),
            (vec![HEADERS, HEADERS], None),
            (
                vec![HEADERS, HEADERS, HEADERS],
                Some(Error::FrameUnexpected),
            ),
            (
                vec![HEADERS, DATA, HEADERS, HEADERS],
                Some(Error::FrameUnexpected),
            ),
            (vec![DATA], Some(Error::FrameUnexpected)),
            (vec![&[4, 0]], Some(Error::FrameUnexpected)),
            (vec![&[2, 0]], Some(Error::FrameUnexpected)),
            (vec![&too_long], Some(Error::ExcessiveLoad)),
            (vec![&not_qpack], Some(Error::QpackDecompressionFailed)),
            (vec![&[1, 0]], Some(Error::QpackDecompressionFailed)),
            (vec![&HEADERS[..1]], Some(Error::FrameError)),
            (vec![&HEADERS[..5]], Some(Error::FrameError)),
            (vec![HEADERS, &HEADERS[..2]], Some(Error::FrameError)),
        ]
        .map(|(frames, error)| (frames.concat(), error.map(Error::to_wire)))
        .to_vec()
    }

    #[test]
    fn events_are_the_same_however_a_stream_is_cut() {
        for (stream, error) in streams() {
            let whole = received(&[&stream]);
            assert_eq!(whole.1, error, "{stream:?}");
            for end in (1..stream.len()).take(40) {
                let (first, second) = stream.split_at(end);
                assert_eq!(received(&[first, second]), whole, "{stream:?} {end}");
            }
            let (start, rest) = stream.split_at(stream.len().min(40));
            let bytes: Vec<_> = start.chunks(1).chain([rest]).collect();
            assert_eq!(received(&bytes), whole, "{stream:?}");
        }
    }

    #[test]
    fn only_a_complete_headers_frame_is_taken() {
        for (bytes, expected) in [
            (HEADERS, Some((2, 6))),
            (LONG_TYPE, Some((3, 4))),
            (LONG_LENGTH, Some((3, 4))),
            (&[1, 0], Some((2, 0))),
            (&[1, 1, 5, 0, 0], Some((2, 1))),
            (&[], None),
            (&[1], None),
            (&HEADERS[..7], None),
            (DATA, None),
            (RESERVED, None),
        ] {
            assert_eq!(complete_headers(bytes), expected, "{bytes:?}");
        }
    }
}
