//! GOAWAY (RFC 9114, 5): which requests still get a response.

use std::time::Instant;

use quiche::h3::WireErrorCode;

use crate::h3::response_writer::ResponseWriter;
use crate::h3::Session;
use crate::http::exchange::FinishedRequest;
use crate::quic::Quic;

quiche::stand_ins!();

/// The first stream that the server opens is HTTP/3's control stream (RFC 9114, 6.2.1).
const CONTROL_STREAM: u64 = 3;

/// Stream ID of a GOAWAY that another one will follow (RFC 9114, 5.2).
const STREAM_ID_MAX: u64 = (1 << 62) - 4;

impl Session {
    /// Takes the finished requests.
    pub fn take_finished(&mut self) -> impl ExactSizeIterator<Item = FinishedRequest> + '_ {
        self.exchanges.take_finished()
    }

    /// Finishes every exchange, as the connection has ended. A client that closed it
    /// without an error has what it was sent: the end `is_clean`.
    pub fn on_connection_end(&mut self, is_clean: bool, now: Instant) {
        let responses = &self.responses;
        let sent = |stream| responses.get(stream).map(ResponseWriter::sent_bytes);
        self.exchanges.finish_all(is_clean, sent, now);
    }

    /// Returns whether every response is finished and acknowledged.
    pub fn is_idle(&self) -> bool {
        self.exchanges.is_empty()
    }

    /// Sends GOAWAY, once each for the first and the last (RFC 9114, 5.2). Requests that
    /// arrive before the last one are answered, later ones are rejected.
    pub fn go_away(&mut self, quic: &mut Quic, is_final: bool) {
        let id = if is_final { self.next_stream } else { STREAM_ID_MAX };
        let is_lower = self.goaway_id.is_none_or(|sent| id < sent);
        if is_lower && self.h3.send_goaway(quic, id).is_ok() {
            self.goaway_id = Some(id);
        }
    }

    /// Returns whether the client has acknowledged every GOAWAY.
    pub fn is_goaway_acknowledged(&self, quic: &Quic) -> bool {
        quic.stream_unacknowledged(CONTROL_STREAM) == 0
    }

    /// Rejects a request, which the client may make again elsewhere (RFC 9114, 4.1.1).
    pub(super) fn reject(&mut self, quic: &mut Quic, stream: u64) {
        self.stop_reading(quic, stream, WireErrorCode::RequestRejected);
        self.cancel(quic, stream, WireErrorCode::RequestRejected);
    }
}

/// Returns whether an endpoint closed the connection without an error.
pub fn is_no_error(error: &quiche::ConnectionError) -> bool {
    let no_error = match error.is_app {
        true => WireErrorCode::NoError as u64,
        false => quiche::WireErrorCode::NoError as u64,
    };
    error.error_code == no_error
}

/// Closes with `H3_NO_ERROR`: the client may connect again, here or elsewhere.
///
/// # Errors
///
/// The connection has been closed before.
pub fn close(quic: &mut Quic) -> quiche::Result<()> {
    quic.close(true, WireErrorCode::NoError as u64, b"connect again")
}
