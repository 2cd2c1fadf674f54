//! The end of a connection's requests: that the client is told of it, and what became of
//! those that were made.

use std::time::Instant;

use quiche::h3::WireErrorCode;
use quiche::hooks;

use crate::h3::exchanges::FinishedRequest;
use crate::h3::response_writer::ResponseWriter;
use crate::h3::Session;
use crate::quic::Quic;

/// The first stream that the server opens is HTTP/3's control stream (RFC 9114, 6.2.1).
const CONTROL_STREAM: u64 = 3;

/// A GOAWAY with it says that there will be another (RFC 9114, 5.2).
const STREAM_ID_MAX: u64 = (1 << 62) - 4;

impl Session {
    /// The exchanges that are over and have not been told of.
    pub fn take_finished(&mut self) -> impl Iterator<Item = FinishedRequest> + '_ {
        self.exchanges.take_finished()
    }

    /// Finishes every exchange, as the connection has ended. A client that closed it
    /// without an error has what it was sent: the end `is_clean`.
    pub fn on_connection_end(&mut self, is_clean: bool, now: Instant) {
        let responses = &self.responses;
        let sent = |stream| responses.get(stream).map(ResponseWriter::sent_bytes);
        self.exchanges.finish_all(is_clean, sent, now);
    }

    /// Nothing that the client asked is unfinished, or not acknowledged.
    pub fn is_idle(&self) -> bool {
        self.exchanges.is_empty()
    }

    /// Tells the client to ask elsewhere from now on (RFC 9114, 5.2). What it asks all
    /// the same is answered until it is told for the `last` time, and rejected from
    /// then on.
    pub fn go_away(&mut self, quic: &mut Quic, last: bool) {
        let from = if last { self.next_stream } else { STREAM_ID_MAX };
        let is_news = self.refused_from.is_none_or(|told| from < told);
        if is_news && self.h3.send_goaway(quic, from).is_ok() {
            self.refused_from = Some(from);
        }
    }

    /// Returns whether the client has acknowledged every GOAWAY.
    pub fn is_goaway_acknowledged(&self, quic: &Quic) -> bool {
        hooks::stream_unacknowledged(quic, CONTROL_STREAM) == 0
    }

    /// The client may ask again elsewhere: nothing has been done (RFC 9114, 4.1.1).
    pub(super) fn reject(&mut self, quic: &mut Quic, stream: u64) {
        self.stop_reading(quic, stream, WireErrorCode::RequestRejected);
        self.give_up(quic, stream, WireErrorCode::RequestRejected);
    }
}

/// Whether who closed a connection with this error had nothing to complain of.
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
