//! HTTP/3 on one connection: requests in, responses out, as far as the
//! transport takes them.

use std::collections::VecDeque;
use std::time::SystemTime;

use log::debug;
use quiche::h3;
use quiche::h3::NameValue;

use crate::body::Body;
use crate::files::Answer;
use crate::files::Site;

/// The most that one response writes before the next has its turn, in bytes.
const TURN_BYTES_MAX: usize = 256 << 10;

/// HTTP/3 error codes (RFC 9114, 8.1).
const H3_NO_ERROR: u64 = 0x100;
const H3_INTERNAL_ERROR: u64 = 0x102;

/// The longest frame header in front of a piece of a body, in bytes.
const FRAME_HEADER_BYTES_MAX: usize = 9;

/// The HTTP/3 side of a connection.
pub struct Http {
    h3: h3::Connection,

    /// Unfinished responses; the first has the next turn. Bounded by the number
    /// of requests that a client may have under way.
    responses: VecDeque<Response>,
}

struct Response {
    stream: u64,

    /// Headers that are not sent yet.
    head: Option<Vec<h3::Header>>,

    body: Body,
    length: u64,
    sent: u64,

    /// The capacity, in bytes, that was too small at the last attempt. Until it
    /// changes there is no other: each would tell the client once more that its
    /// limits block the stream, in a packet whose ACK would start the next.
    short_capacity: Option<usize>,
}

/// How far a response got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Wrote,
    Blocked,
    Finished,
}

impl Http {
    /// Starts HTTP/3 on an established connection.
    ///
    /// # Errors
    ///
    /// The transport's.
    pub fn new(quic: &mut quiche::Connection, config: &h3::Config) -> Result<Self, h3::Error> {
        let h3 = h3::Connection::with_transport(quic, config)?;
        Ok(Self { h3, responses: VecDeque::new() })
    }

    /// Bytes of responses that the transport has not taken yet.
    pub fn unsent_bytes(&self) -> u64 {
        self.responses.iter().map(|response| response.length - response.sent).sum()
    }

    /// Takes in what clients ask. Returns whether they asked anything.
    pub fn take_requests(
        &mut self,
        quic: &mut quiche::Connection,
        site: &Site,
        scratch: &mut [u8],
        wall_now: SystemTime,
    ) -> bool {
        let mut any = false;
        while let Some((stream, event)) = self.next_event(quic) {
            any = true;
            match event {
                h3::Event::Headers { .. } if self.is_answering(stream) => (),
                h3::Event::Headers { list, .. } => {
                    let response = respond(stream, &list, site, wall_now);
                    self.responses.push_back(response);
                }
                // No request has a body that matters.
                h3::Event::Data => while self.h3.recv_body(quic, stream, scratch).is_ok() {},
                h3::Event::Reset(_) => self.give_up(quic, stream, H3_NO_ERROR),
                h3::Event::Finished | h3::Event::PriorityUpdate | h3::Event::GoAway => (),
            }
        }
        any
    }

    /// Further headers on such a stream are the request's trailers (RFC 9114,
    /// 4.1), which change nothing.
    fn is_answering(&self, stream: u64) -> bool {
        self.responses.iter().any(|response| response.stream == stream)
    }

    fn next_event(&mut self, quic: &mut quiche::Connection) -> Option<(u64, h3::Event)> {
        match self.h3.poll(quic) {
            Ok(polled) => Some(polled),
            Err(h3::Error::Done) => None,
            Err(e) => {
                // The library has closed the connection with the code.
                debug!("{}: HTTP/3 failed: {e}", quic.trace_id());
                None
            }
        }
    }

    /// Gives each response its turn until none gets further, or `bytes_max` have
    /// been written. Returns whether any got further.
    pub fn write(
        &mut self,
        quic: &mut quiche::Connection,
        scratch: &mut [u8],
        bytes_max: u64,
    ) -> bool {
        let mut any = false;
        let mut blocked = 0;
        let mut written = 0;
        while blocked < self.responses.len() && written < bytes_max {
            let Some(mut response) = self.responses.pop_front() else {
                break;
            };
            let sent_before = response.sent;
            let step = response.step(&mut self.h3, quic, scratch);
            written += response.sent - sent_before;
            any |= step != Ok(Step::Blocked);
            match step {
                Ok(Step::Finished) => (),
                Ok(Step::Wrote) => {
                    blocked = 0;
                    self.responses.push_back(response);
                }
                Ok(Step::Blocked) => {
                    blocked += 1;
                    self.responses.push_back(response);
                }
                Err(None) => (),
                Err(Some(code)) => {
                    let _ = quic.stream_shutdown(response.stream, quiche::Shutdown::Write, code);
                }
            }
        }
        any
    }

    fn give_up(&mut self, quic: &mut quiche::Connection, stream: u64, code: u64) {
        self.responses.retain(|response| response.stream != stream);
        let _ = quic.stream_shutdown(stream, quiche::Shutdown::Write, code);
    }
}

/// Closes with `H3_NO_ERROR`: the server stops.
pub fn close(quic: &mut quiche::Connection) {
    let _ = quic.close(true, H3_NO_ERROR, b"server stops");
}

impl Response {
    /// Passes on what the transport takes, one turn at most.
    ///
    /// # Errors
    ///
    /// The response cannot be finished: the code to reset the stream with, or
    /// `None` when the client has stopped it or it is gone.
    fn step(
        &mut self,
        h3: &mut h3::Connection,
        quic: &mut quiche::Connection,
        scratch: &mut [u8],
    ) -> Result<Step, Option<u64>> {
        let capacity = quic.stream_capacity(self.stream).ok();
        if capacity.is_some() && capacity == self.short_capacity {
            return Ok(Step::Blocked);
        }
        let step = self.attempt(h3, quic, scratch);
        self.short_capacity = capacity.filter(|_| step == Ok(Step::Blocked));
        step
    }

    fn attempt(
        &mut self,
        h3: &mut h3::Connection,
        quic: &mut quiche::Connection,
        scratch: &mut [u8],
    ) -> Result<Step, Option<u64>> {
        if let Some(head) = &self.head {
            match h3.send_response(quic, self.stream, head, self.length == 0) {
                Ok(()) => self.head = None,
                Err(h3::Error::StreamBlocked | h3::Error::Done) => return Ok(Step::Blocked),
                Err(e) => return Err(self.cannot_send(quic, e)),
            }
            return Ok(if self.length == 0 { Step::Finished } else { Step::Wrote });
        }

        let bytes_max = match self.capacity(h3, quic) {
            Ok(0) => return Ok(Step::Blocked),
            Ok(capacity) => capacity.min(TURN_BYTES_MAX),
            Err(e) => return Err(self.cannot_send(quic, e)),
        };
        let piece = match self.body.piece(self.sent, bytes_max, scratch) {
            Ok(piece) => piece,
            Err(e) => {
                debug!("{}: a file cannot be read on: {e}", quic.trace_id());
                return Err(Some(H3_INTERNAL_ERROR));
            }
        };
        let last = self.sent + piece.len() as u64 == self.length;
        match h3.send_body(quic, self.stream, piece, last) {
            Ok(count) => self.sent += count as u64,
            Err(h3::Error::Done) => return Ok(Step::Blocked),
            Err(e) => return Err(self.cannot_send(quic, e)),
        }
        Ok(if self.sent == self.length { Step::Finished } else { Step::Wrote })
    }

    /// How many bytes of the body the transport takes now. When it is none, the
    /// client is told that the stream is blocked, if its limits are why.
    fn capacity(
        &self,
        h3: &mut h3::Connection,
        quic: &mut quiche::Connection,
    ) -> Result<usize, h3::Error> {
        match quic.stream_capacity(self.stream) {
            Ok(capacity) if capacity > FRAME_HEADER_BYTES_MAX => {
                Ok(capacity - FRAME_HEADER_BYTES_MAX)
            }
            Ok(_) => {
                quic.stream_writable(self.stream, FRAME_HEADER_BYTES_MAX + 1)?;
                Ok(0)
            }
            Err(e) => {
                // Fails the same way, and frees what is kept of the stream.
                h3.send_body(quic, self.stream, b"", true)?;
                Err(e.into())
            }
        }
    }

    fn cannot_send(&self, quic: &quiche::Connection, error: h3::Error) -> Option<u64> {
        debug!("{}: stream {}: {error}", quic.trace_id(), self.stream);
        match error {
            h3::Error::TransportError(quiche::Error::StreamStopped(_)) => Some(H3_NO_ERROR),
            h3::Error::TransportError(_) => None,
            // It has been answered: these headers were the request's trailers.
            h3::Error::FrameUnexpected if self.head.is_some() => None,
            _ => Some(H3_INTERNAL_ERROR),
        }
    }
}

fn respond(stream: u64, request: &[h3::Header], site: &Site, wall_now: SystemTime) -> Response {
    let method = only(request, b":method");
    let (answer, allow) = match (method, only(request, b":path")) {
        (Some("GET" | "HEAD"), Some(path)) => (site.answer(path), false),
        (Some(_), Some(_)) => (Answer::refusal(405, "Method Not Allowed"), true),
        _ => (Answer::refusal(400, "Bad Request"), false),
    };

    let header = |name: &str, value: &str| h3::Header::new(name.as_bytes(), value.as_bytes());
    let length = answer.body.length();
    let mut head = vec![
        header(":status", &answer.status.to_string()),
        header("content-type", &answer.content_type),
        header("content-length", &length.to_string()),
        header("date", &httpdate::fmt_http_date(wall_now)),
    ];
    if let Some(modified) = answer.modified {
        // RFC 9110, 8.8.2.1: never later than the response.
        head.push(header("last-modified", &httpdate::fmt_http_date(modified.min(wall_now))));
    }
    if allow {
        head.push(header("allow", "GET, HEAD"));
    }
    let length = if method == Some("HEAD") { 0 } else { length };
    Response { stream, head: Some(head), body: answer.body, length, sent: 0, short_capacity: None }
}

/// The value of a header that must be there once.
fn only<'a>(headers: &'a [h3::Header], name: &[u8]) -> Option<&'a str> {
    let mut values = headers.iter().filter(|header| header.name() == name);
    let value = values.next()?.value();
    match values.next() {
        None => std::str::from_utf8(value).ok(),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn respond_to(headers: &[(&str, &str)]) -> Response {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("x.txt"), "hello").unwrap();
        let site = Site::open(dir.path(), false).unwrap();
        let list: Vec<_> = headers
            .iter()
            .map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()))
            .collect();
        respond(0, &list, &site, SystemTime::UNIX_EPOCH)
    }

    fn value<'a>(response: &'a Response, name: &str) -> Option<&'a str> {
        only(response.head.as_ref().unwrap(), name.as_bytes())
    }

    #[test]
    fn a_get_has_headers_and_body() {
        let response = respond_to(&[(":method", "GET"), (":path", "/x.txt")]);
        assert_eq!(value(&response, ":status"), Some("200"));
        assert_eq!(value(&response, "content-type"), Some("text/plain"));
        assert_eq!(value(&response, "content-length"), Some("5"));
        assert_eq!(value(&response, "last-modified"), Some("Thu, 01 Jan 1970 00:00:00 GMT"));
        assert_eq!(response.length, 5);
    }

    #[test]
    fn a_head_has_the_headers_of_a_get_and_no_body() {
        let response = respond_to(&[(":method", "HEAD"), (":path", "/x.txt")]);
        assert_eq!(value(&response, ":status"), Some("200"));
        assert_eq!(value(&response, "content-length"), Some("5"));
        assert_eq!(response.length, 0);
    }

    #[test]
    fn other_methods_and_malformed_requests_are_refused() {
        let table: [(&[(&str, &str)], &str); 5] = [
            (&[(":method", "POST"), (":path", "/x.txt")], "405"),
            (&[(":method", "GET")], "400"),
            (&[(":path", "/x.txt")], "400"),
            (&[(":method", "GET"), (":path", "/x.txt"), (":path", "/y")], "400"),
            (&[(":method", "GET"), (":method", "GET"), (":path", "/x.txt")], "400"),
        ];
        for (request, status) in table {
            let response = respond_to(request);
            assert_eq!(value(&response, ":status"), Some(status), "{request:?}");
            assert_eq!(value(&response, "allow").is_some(), status == "405");
        }
    }
}
