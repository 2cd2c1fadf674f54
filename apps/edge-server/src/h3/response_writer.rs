//! Writer of one response into the transport.

use std::io;
use std::time::Instant;
use std::time::SystemTime;

use bytes::Bytes;
use log::debug;
use quiche::h3;
use quiche::h3::NameValue;
use quiche::h3::WireErrorCode;

use crate::h3::priority::Priority;
use crate::http::body::Body;
use crate::http::body::Chunk;
use crate::http::body::PendingChunk;
use crate::http::date::http_date;
use crate::http::response::Field;
use crate::http::response::Response;
use crate::http::response_rate::ResponseRate;
use crate::quic::Quic;

quiche::stand_ins!();

/// Status, Date and Content-Length.
const OWN_FIELDS: usize = 3;

/// The longest body that is sent together with its header section, in bytes: to copy it costs
/// less than a write of its own.
const FAST_PATH_BYTES_MAX: u64 = 2 << 10;

/// The longest frame header in front of a chunk of a body, in bytes.
const FRAME_HEADER_BYTES_MAX: usize = 9;

/// A response under way.
pub struct ResponseWriter {
    pub stream: u64,
    pub priority: Priority,

    /// The field lines of its header section, until they are sent.
    head: Option<Vec<Field>>,

    /// Whether an interim response has been sent.
    continued: bool,

    body: Body,

    /// Absent if only the end of the body tells.
    length: Option<u64>,
    sent: u64,

    /// Capacity in bytes that was too small at the last attempt. There is no other until it
    /// changes: each would send STREAM_DATA_BLOCKED again, in a packet whose ACK would start
    /// the next.
    short_capacity: Option<usize>,

    fetch: Fetch,

    /// Absent if the response is sent as fast as the client takes it.
    rate: Option<Box<ResponseRate>>,
}

/// State of getting a chunk of the body from disk or a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fetch {
    None,
    UnderWay,
    Failed,
}

/// Progress of one turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Wrote,
    Blocked,

    /// A chunk is being read from disk, or has not come yet.
    Fetching,

    /// Its rate allows more from then on.
    Limited(Instant),

    Finished,
}

impl NameValue for Field {
    fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn value(&self) -> &[u8] {
        self.value.as_bytes()
    }
}

impl ResponseWriter {
    /// Returns the writer of a response on `stream`; to a HEAD, without its body.
    pub fn new(
        stream: u64,
        response: Response,
        with_body: bool,
        priority: Priority,
        wall_now: SystemTime,
    ) -> Self {
        // With trailers the end of the body is not that of the response.
        let length = response.body.length().filter(|_| !response.body.has_trailers());
        let mut head = Vec::with_capacity(response.fields.len() + OWN_FIELDS);
        head.push(Field::new(":status", response.status.to_string()));
        head.extend(response.fields);
        let date = response.date.map_or_else(|| http_date(wall_now), String::from);
        head.push(Field::new("date", date));
        // RFC 9110, 8.6: a 304 has the length of the representation, or none; a 204 has none.
        if let Some(length) = length.filter(|_| ![204, 304].contains(&response.status)) {
            head.push(Field::new("content-length", length.to_string()));
        }
        let length = if with_body { length } else { Some(0) };
        Self {
            stream,
            priority,
            head: Some(head),
            continued: false,
            body: response.body,
            length,
            sent: 0,
            short_capacity: None,
            fetch: Fetch::None,
            rate: response.rate,
        }
    }

    /// Returns the writer of a response that may follow an interim one.
    pub fn after_interim(self, continued: bool) -> Self {
        Self { continued, ..self }
    }

    /// Returns the bytes of the body that the transport has not taken. Without a length, those that
    /// are there.
    pub fn unsent_bytes(&self) -> u64 {
        match self.length {
            Some(length) => length - self.sent,
            None => self.body.queued_bytes(),
        }
    }

    /// Returns the length of the body, if it is known by now.
    fn known_length(&self) -> Option<u64> {
        self.length.or_else(|| self.body.length())
    }

    /// Returns the bytes of the body that the transport has taken.
    pub fn sent_bytes(&self) -> u64 {
        self.sent
    }

    /// Returns whether the transport has taken the header section.
    pub fn has_sent_head(&self) -> bool {
        self.head.is_none()
    }

    /// Returns the bytes of the body that were fetched and not taken yet.
    pub fn fetched_bytes(&self) -> u64 {
        self.body.fetched_bytes()
    }

    /// Returns whether it waits for the disk or a stream instead of the client.
    pub fn is_fetching(&self) -> bool {
        self.fetch == Fetch::UnderWay
    }

    /// Returns how many bytes of the body could be written now if the transport took them.
    pub fn sendable_bytes(&self, now: Instant) -> u64 {
        let available = self.rate.as_ref().map(|rate| rate.available_bytes(now));
        self.unsent_bytes().min(available.unwrap_or(u64::MAX))
    }

    /// Returns whether it waits for the rate of another response.
    pub fn has_rate_of(&self, other: &Self) -> bool {
        let rates = self.rate.as_ref().zip(other.rate.as_ref());
        self.has_sent_head() && rates.is_some_and(|(own, its)| own.has_buckets_of(its))
    }

    /// Notes that it waits for that.
    pub fn note_wait(&mut self) {
        if let Some(rate) = &mut self.rate {
            rate.note_wait();
        }
    }

    /// Returns whether it has waited for its rate since the last call.
    pub fn take_waited(&mut self) -> bool {
        self.rate.as_mut().is_some_and(|rate| rate.take_waited())
    }

    /// Takes the chunk that the last [`Step::Fetching`] waits for.
    pub fn on_fetched(&mut self, bytes: io::Result<Bytes>) {
        match bytes {
            Ok(bytes) => {
                self.body.supply(self.sent, bytes);
                self.fetch = Fetch::None;
            }
            Err(e) => {
                debug!("stream {}: cannot read the file: {e}", self.stream);
                self.fetch = Fetch::Failed;
            }
        }
    }

    /// Notes that there is more of the stream that the last [`Step::Fetching`] waits for, or its end.
    pub fn on_woken(&mut self) {
        if self.fetch == Fetch::UnderWay {
            self.fetch = Fetch::None;
        }
    }

    /// Writes up to `bytes_max` bytes, as far as its rate allows and the transport takes them. What is
    /// not in memory is requested by `fetch`.
    ///
    /// # Errors
    ///
    /// The response cannot be finished: the code to reset the stream with, or `None` if the
    /// stream is closed.
    pub fn step(
        &mut self,
        h3: &mut h3::Connection,
        quic: &mut Quic,
        bytes_max: usize,
        now: Instant,
        fetch: &mut dyn FnMut(u64, PendingChunk),
    ) -> Result<Step, Option<WireErrorCode>> {
        match self.fetch {
            Fetch::None => (),
            Fetch::UnderWay => return self.await_fetch(h3, quic),
            Fetch::Failed => return Err(Some(WireErrorCode::InternalError)),
        }
        let capacity = quic.stream_capacity(self.stream).ok();
        if capacity.is_some() && capacity == self.short_capacity {
            return Ok(Step::Blocked);
        }
        let allowed = self.allowed_bytes(now);
        let bytes_max = match allowed {
            Ok(bytes) => bytes_max.min(bytes as usize),
            Err(from) if self.head.is_none() => return Ok(Step::Limited(from)),
            Err(_) => 0,
        };
        if self.send_fast_path(h3, quic, capacity.unwrap_or(0).min(bytes_max))? {
            return Ok(Step::Finished);
        }
        let step = self.send_part(h3, quic, bytes_max, fetch);
        self.short_capacity = capacity.filter(|_| step == Ok(Step::Blocked));
        step
    }

    /// Waits for a chunk, unless the client has stopped reading.
    fn await_fetch(
        &self,
        h3: &mut h3::Connection,
        quic: &mut Quic,
    ) -> Result<Step, Option<WireErrorCode>> {
        let Err(e) = quic.stream_capacity(self.stream) else { return Ok(Step::Fetching) };
        // Fails the same way, and frees the stream's state in the library.
        let _ = h3.send_body(quic, self.stream, b"", true);
        Err(self.error_code(quic, e.into()))
    }

    /// Returns how many bytes of the body the rate allows, or from when on it does.
    fn allowed_bytes(&mut self, now: Instant) -> Result<u64, Instant> {
        let left_bytes = self.length.map_or(u64::MAX, |length| length - self.sent);
        self.rate.as_mut().map_or(Ok(u64::MAX), |rate| rate.poll(left_bytes, now))
    }

    /// Writes a small response at once, if the transport takes it. Returns whether it did:
    /// otherwise it is sent in parts.
    fn send_fast_path(
        &mut self,
        h3: &mut h3::Connection,
        quic: &mut Quic,
        bytes_max: usize,
    ) -> Result<bool, Option<WireErrorCode>> {
        let length_max = FAST_PATH_BYTES_MAX.min(bytes_max as u64);
        let small = self.length.filter(|length| *length <= length_max && !self.continued);
        let Some((head, length)) = self.head.as_ref().zip(small) else { return Ok(false) };
        let body = match self.body.chunk(0, length as usize) {
            Ok(Chunk::Ready(body)) if body.len() as u64 == length => body,
            _ => return Ok(false),
        };
        let priority = self.priority.for_http();
        match h3.send_response_with_body(quic, self.stream, head, &priority, &body) {
            Ok(()) => (),
            Err(h3::Error::StreamBlocked) => return Ok(false),
            Err(e) => return Err(self.error_code(quic, e)),
        }
        self.head = None;
        self.note_sent(length);
        Ok(true)
    }

    fn note_sent(&mut self, bytes: u64) {
        self.sent += bytes;
        if let Some(rate) = &mut self.rate {
            rate.on_sent(bytes);
        }
    }

    fn send_part(
        &mut self,
        h3: &mut h3::Connection,
        quic: &mut Quic,
        bytes_max: usize,
        fetch: &mut dyn FnMut(u64, PendingChunk),
    ) -> Result<Step, Option<WireErrorCode>> {
        let sends_head = self.head.is_some();
        if let Some(head) = &self.head {
            match self.send_head(head, h3, quic) {
                Ok(()) => self.head = None,
                Err(h3::Error::StreamBlocked | h3::Error::Done) => return Ok(Step::Blocked),
                Err(e) => return Err(self.error_code(quic, e)),
            }
            if self.length == Some(0) {
                return Ok(Step::Finished);
            }
            if bytes_max == 0 {
                return Ok(Step::Wrote);
            }
        }
        match self.send_chunk(h3, quic, bytes_max, fetch) {
            Ok(Step::Blocked) if sends_head => Ok(Step::Wrote),
            step => step,
        }
    }

    fn send_head(
        &self,
        head: &[Field],
        h3: &mut h3::Connection,
        quic: &mut Quic,
    ) -> h3::Result<()> {
        let (stream, priority, last) =
            (self.stream, self.priority.for_http(), self.length == Some(0));
        match self.continued {
            false => h3.send_response_with_priority(quic, stream, head, &priority, last),
            true => {
                h3.send_additional_headers_with_priority(quic, stream, head, &priority, false, last)
            }
        }
    }

    fn send_chunk(
        &mut self,
        h3: &mut h3::Connection,
        quic: &mut Quic,
        bytes_max: usize,
        fetch: &mut dyn FnMut(u64, PendingChunk),
    ) -> Result<Step, Option<WireErrorCode>> {
        let bytes_max = match self.capacity(h3, quic) {
            Ok(0) => return Ok(Step::Blocked),
            Ok(capacity) => capacity.min(bytes_max),
            Err(e) => return Err(self.error_code(quic, e)),
        };
        let mut chunk = match self.body.chunk(self.sent, bytes_max) {
            Ok(Chunk::Ready(chunk)) => chunk,
            Ok(Chunk::Pending(pending)) => {
                self.fetch = Fetch::UnderWay;
                fetch(self.stream, pending);
                return Ok(Step::Fetching);
            }
            Err(e) => {
                debug!("{}: the body ends early: {e}", quic.trace_id());
                return Err(Some(WireErrorCode::InternalError));
            }
        };
        if self.known_length() == Some(self.sent) && self.body.has_trailers() {
            return self.send_trailers(h3, quic);
        }
        let end = self.sent + chunk.len() as u64;
        let last = self.known_length() == Some(end) && !self.body.has_trailers();
        match h3.send_body_zc(quic, self.stream, &mut chunk, last) {
            Ok(count) => self.note_sent(count as u64),
            Err(h3::Error::Done) => return Ok(Step::Blocked),
            Err(e) => return Err(self.error_code(quic, e)),
        }
        self.body.release(self.sent);
        Ok(if last && self.sent == end { Step::Finished } else { Step::Wrote })
    }

    /// Sends the fields that follow the body, and ends the stream.
    fn send_trailers(
        &self,
        h3: &mut h3::Connection,
        quic: &mut Quic,
    ) -> Result<Step, Option<WireErrorCode>> {
        let trailers = self.body.trailers();
        match h3.send_additional_headers(quic, self.stream, &trailers, true, true) {
            Ok(()) => Ok(Step::Finished),
            Err(h3::Error::StreamBlocked | h3::Error::Done) => Ok(Step::Blocked),
            Err(e) => Err(self.error_code(quic, e)),
        }
    }

    /// Returns how many bytes of the body the transport takes now. If the client's limits
    /// allow none, STREAM_DATA_BLOCKED is sent.
    fn capacity(&self, h3: &mut h3::Connection, quic: &mut Quic) -> Result<usize, h3::Error> {
        match quic.stream_capacity(self.stream) {
            Ok(capacity) if capacity > FRAME_HEADER_BYTES_MAX => {
                Ok(capacity - FRAME_HEADER_BYTES_MAX)
            }
            Ok(_) => {
                quic.stream_writable(self.stream, FRAME_HEADER_BYTES_MAX + 1)?;
                Ok(0)
            }
            Err(e) => {
                // Fails the same way, and frees the stream's state in the library.
                h3.send_body(quic, self.stream, b"", true)?;
                Err(e.into())
            }
        }
    }

    /// Returns the code to reset the stream with, unless it is closed.
    fn error_code(&self, quic: &Quic, error: h3::Error) -> Option<WireErrorCode> {
        debug!("{}: stream {}: {error}", quic.trace_id(), self.stream);
        match error {
            h3::Error::TransportError(quiche::Error::StreamStopped(_)) => {
                Some(WireErrorCode::NoError)
            }
            h3::Error::TransportError(_) => None,
            _ => Some(WireErrorCode::InternalError),
        }
    }
}
