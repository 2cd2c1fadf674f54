//! Application: transfers that a scenario's load describes.

use super::quiche;
use crate::scenario::Endpoint;
use crate::scenario::Load;
use crate::scenario::Priorities;
use crate::scenario::Requests;
use crate::scenario::Scenario;
use crate::trace;
use anyhow::Result;
use quiche::h3;
use quiche::h3::NameValue;
use std::collections::BTreeMap;
use std::io::Write;

const MS: u64 = 1_000_000;

/// From one small write to the next, in ns.
const SMALL_WRITE_INTERVAL: u64 = 50_000;

/// Longest write of an application.
const CHUNK: usize = 16_384;

/// Rest of the applications without a transfer, in ns.
const IDLE: u64 = 300 * MS;

/// What one endpoint transfers.
pub struct Application {
    endpoint: Endpoint,
    load: Load,
    http3: Option<h3::Connection>,
    begun: u64,

    /// Bytes sent and to be sent, by stream.
    writes: BTreeMap<u64, (u64, u64)>,

    /// Streams that nothing has been written to.
    new: Vec<u64>,

    /// Streams whose response headers are not sent yet.
    responses: Vec<u64>,
    received: u64,
    finished: u64,
    datagrams_received: u64,
    pub is_paused: bool,
}

impl Application {
    pub fn new(endpoint: Endpoint, scenario: &Scenario) -> Self {
        Self {
            endpoint,
            load: scenario.load,
            http3: None,
            begun: 0,
            writes: BTreeMap::new(),
            new: Vec::new(),
            responses: Vec::new(),
            received: 0,
            finished: 0,
            datagrams_received: 0,
            is_paused: false,
        }
    }

    pub fn is_done(&self, elapsed: u64) -> bool {
        match self.load {
            Load::Nothing => elapsed >= IDLE,
            Load::Streams(requests) | Load::Http3(requests) => {
                self.endpoint == Endpoint::Server || self.finished >= requests.count
            }
            Load::Unidirectional(requests) => self.finished >= requests.count,
            Load::Datagrams { count, .. } => elapsed >= count * MS + IDLE,
            Load::SmallWrites { .. } => self.endpoint == Endpoint::Client || self.finished > 0,
        }
    }

    pub fn next_start(&self, elapsed: u64) -> Option<u64> {
        let (count, interval) = match self.load {
            Load::Nothing => return Some(IDLE).filter(|at| *at > elapsed),
            Load::Streams(r) | Load::Http3(r) | Load::Unidirectional(r) => {
                (r.count, r.interval_ms * MS)
            }
            Load::Datagrams { count, .. } if self.begun == count => {
                return Some(count * MS + IDLE).filter(|at| *at > elapsed);
            }
            Load::Datagrams { count, .. } => (count, MS),
            Load::SmallWrites { .. } if self.endpoint == Endpoint::Server => return None,
            Load::SmallWrites { count, .. } => (count, SMALL_WRITE_INTERVAL),
        };
        Some(self.begun * interval).filter(|at| self.begun < count && *at > elapsed)
    }

    /// Reads and writes what is possible.
    pub fn step(
        &mut self,
        conn: &mut quiche::Connection,
        elapsed: u64,
        trace: &mut dyn Write,
    ) -> Result<()> {
        if !conn.is_established() && !conn.is_in_early_data() {
            return Ok(());
        }
        match self.load {
            Load::Nothing => Ok(()),
            Load::Datagrams { count, bytes } => {
                self.exchange_datagrams(conn, elapsed, count, bytes, trace)
            }
            Load::SmallWrites { count, bytes } => {
                self.write_small(conn, elapsed, count, bytes, trace)?;
                self.read(conn, Requests::new(0, 0, 0), trace)
            }
            Load::Http3(requests) => self.step_http3(conn, elapsed, requests, trace),
            Load::Streams(requests) | Load::Unidirectional(requests) => {
                self.begin_streams(conn, elapsed, requests, trace)?;
                self.read(conn, requests, trace)?;
                self.write(conn, trace)
            }
        }
    }

    /// Stops to read from a stream, or to write to it.
    pub fn forget(&mut self, stream: u64, reading: bool) {
        if reading {
            self.finished += 1;
        } else {
            self.writes.remove(&stream);
        }
    }

    pub fn summary(&self) -> String {
        format!(
            "{} transfers begun, {} finished, {} bytes and {} datagrams received",
            self.begun, self.finished, self.received, self.datagrams_received
        )
    }

    fn is_due(&self, elapsed: u64, requests: Requests) -> bool {
        self.begun < requests.count && self.begun * requests.interval_ms * MS <= elapsed
    }

    fn begin_streams(
        &mut self,
        conn: &mut quiche::Connection,
        elapsed: u64,
        requests: Requests,
        trace: &mut dyn Write,
    ) -> Result<()> {
        let is_unidirectional = matches!(self.load, Load::Unidirectional(_));
        if !is_unidirectional && self.endpoint == Endpoint::Server {
            return Ok(());
        }
        while self.is_due(elapsed, requests) {
            let left = if is_unidirectional {
                conn.peer_streams_left_uni()
            } else {
                conn.peer_streams_left_bidi()
            };
            if left == 0 {
                break;
            }
            let kind =
                u64::from(is_unidirectional) * 2 + u64::from(self.endpoint == Endpoint::Server);
            let stream = self.begun * 4 + kind;
            let bytes = if self.endpoint == Endpoint::Client { requests.up } else { requests.down };
            self.prioritize(conn, stream, requests.priorities, trace)?;
            self.begin_write(stream, bytes);
            self.begun += 1;
        }
        Ok(())
    }

    fn prioritize(
        &self,
        conn: &mut quiche::Connection,
        stream: u64,
        priorities: Priorities,
        trace: &mut dyn Write,
    ) -> Result<()> {
        let set = match priorities {
            Priorities::Default => return Ok(()),
            Priorities::Incremental => conn.stream_priority(stream, 127, true),
            Priorities::ByUrgency => {
                conn.stream_priority(stream, urgency(stream), (stream / 4).is_multiple_of(2))
            }
        };
        self.note_error(set, stream, "priority", trace)
    }

    fn read(
        &mut self,
        conn: &mut quiche::Connection,
        requests: Requests,
        trace: &mut dyn Write,
    ) -> Result<()> {
        let mut buf = [0; CHUNK];
        while !self.is_paused {
            let Some(stream) = conn.stream_readable_next() else {
                break;
            };
            loop {
                match conn.stream_recv(stream, &mut buf) {
                    Ok((len, is_end)) => {
                        self.received += len as u64;
                        if is_end {
                            self.on_end(conn, stream, requests, trace)?;
                            break;
                        }
                    }
                    Err(quiche::Error::Done) => break,
                    Err(e) => {
                        trace::note(trace, &format!("{:?} stream {stream}: {e:?}", self.endpoint))?;
                        self.finished += 1;
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    fn on_end(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        requests: Requests,
        trace: &mut dyn Write,
    ) -> Result<()> {
        self.finished += 1;
        trace::note(trace, &format!("{:?} stream {stream} finished", self.endpoint))?;
        let has_response = matches!(self.load, Load::Streams(_)) && stream.is_multiple_of(4);
        if self.endpoint == Endpoint::Server && has_response {
            self.prioritize(conn, stream, requests.priorities, trace)?;
            self.begin_write(stream, requests.down);
        }
        Ok(())
    }

    fn begin_write(&mut self, stream: u64, bytes: u64) {
        self.writes.insert(stream, (0, bytes));
        self.new.push(stream);
    }

    fn write(&mut self, conn: &mut quiche::Connection, trace: &mut dyn Write) -> Result<()> {
        let data = [7; CHUNK];
        let mut streams = std::mem::take(&mut self.new);
        while let Some(stream) = conn.stream_writable_next() {
            streams.push(stream);
        }
        for stream in streams {
            while let Some((sent, total)) = self.writes.get(&stream).copied() {
                let len = (total - sent).min(CHUNK as u64) as usize;
                let written = match &mut self.http3 {
                    Some(http3) => match http3.send_body(
                        conn,
                        stream,
                        &data[..len],
                        len as u64 == total - sent,
                    ) {
                        Err(h3::Error::Done | h3::Error::StreamBlocked) => Err(quiche::Error::Done),
                        Err(h3::Error::TransportError(e)) => Err(e),
                        other => other.map_err(|_| quiche::Error::InvalidState),
                    },
                    None => conn.stream_send(stream, &data[..len], len as u64 == total - sent),
                };
                match written {
                    Ok(n) if sent + n as u64 == total => {
                        self.writes.remove(&stream);
                    }
                    Ok(n) => {
                        self.writes.insert(stream, (sent + n as u64, total));
                        if n < len {
                            break;
                        }
                    }
                    Err(quiche::Error::Done | quiche::Error::StreamLimit) => break,
                    Err(e) => {
                        self.writes.remove(&stream);
                        trace::note(
                            trace,
                            &format!("{:?} write to {stream}: {e:?}", self.endpoint),
                        )?;
                    }
                }
            }
        }
        Ok(())
    }

    fn exchange_datagrams(
        &mut self,
        conn: &mut quiche::Connection,
        elapsed: u64,
        count: u64,
        bytes: usize,
        trace: &mut dyn Write,
    ) -> Result<()> {
        while self.begun < count && self.begun * MS <= elapsed {
            let content = vec![self.begun as u8; bytes];
            let sent = conn.dgram_send(&content);
            self.note_error(sent, self.begun, "datagram", trace)?;
            self.begun += 1;
        }
        let mut buf = [0; 1500];
        while let Ok(len) = conn.dgram_recv(&mut buf) {
            self.datagrams_received += 1;
            self.received += len as u64;
        }
        Ok(())
    }

    fn write_small(
        &mut self,
        conn: &mut quiche::Connection,
        elapsed: u64,
        count: u64,
        bytes: usize,
        trace: &mut dyn Write,
    ) -> Result<()> {
        while self.endpoint == Endpoint::Client
            && self.begun < count
            && self.begun * SMALL_WRITE_INTERVAL <= elapsed
        {
            let content = vec![self.begun as u8; bytes];
            match conn.stream_send(2, &content, self.begun + 1 == count) {
                Ok(len) if len == bytes => self.begun += 1,
                Err(quiche::Error::Done) => break,
                done => {
                    self.begun = count;
                    trace::note(trace, &format!("{:?} small write: {done:?}", self.endpoint))?;
                }
            }
        }
        Ok(())
    }

    fn note_error(
        &self,
        done: quiche::Result<()>,
        of: u64,
        what: &str,
        trace: &mut dyn Write,
    ) -> Result<()> {
        match done {
            Ok(()) => Ok(()),
            Err(e) => trace::note(trace, &format!("{:?} {what} of {of}: {e:?}", self.endpoint)),
        }
    }
}

/// The same over HTTP/3.
impl Application {
    fn step_http3(
        &mut self,
        conn: &mut quiche::Connection,
        elapsed: u64,
        requests: Requests,
        trace: &mut dyn Write,
    ) -> Result<()> {
        if self.http3.is_none() {
            let config = h3::Config::new()?;
            match h3::Connection::with_transport(conn, &config) {
                Ok(http3) => self.http3 = Some(http3),
                Err(e) => return trace::note(trace, &format!("{:?} HTTP/3: {e:?}", self.endpoint)),
            }
        }
        if self.endpoint == Endpoint::Client {
            self.send_requests(conn, elapsed, requests, trace)?;
        }
        if !self.is_paused {
            self.poll(conn, requests, trace)?;
        }
        self.send_responses(conn, requests, trace)?;
        self.write(conn, trace)
    }

    fn send_requests(
        &mut self,
        conn: &mut quiche::Connection,
        elapsed: u64,
        requests: Requests,
        trace: &mut dyn Write,
    ) -> Result<()> {
        while self.is_due(elapsed, requests) && conn.peer_streams_left_bidi() > 0 {
            let path = format!("/file/{}", self.begun);
            let priority = format!("u={}, i", urgency(self.begun * 4));
            let mut headers = vec![
                h3::Header::new(b":method", if requests.up > 0 { b"POST" } else { b"GET" }),
                h3::Header::new(b":scheme", b"https"),
                h3::Header::new(b":authority", b"quic.tech"),
                h3::Header::new(b":path", path.as_bytes()),
                h3::Header::new(b"user-agent", b"same-packets"),
                h3::Header::new(b"cookie", &[b'x'; 200]),
            ];
            if requests.priorities != Priorities::Default {
                headers.push(h3::Header::new(b"priority", priority.as_bytes()));
            }
            let Some(http3) = &mut self.http3 else { return Ok(()) };
            match http3.send_request(conn, &headers, requests.up == 0) {
                Ok(stream) => {
                    if requests.up > 0 {
                        self.begin_write(stream, requests.up);
                    }
                    self.begun += 1;
                }
                Err(h3::Error::StreamBlocked | h3::Error::Done) => break,
                Err(e) => {
                    self.begun += 1;
                    trace::note(trace, &format!("{:?} request: {e:?}", self.endpoint))?;
                }
            }
        }
        Ok(())
    }

    fn poll(
        &mut self,
        conn: &mut quiche::Connection,
        requests: Requests,
        trace: &mut dyn Write,
    ) -> Result<()> {
        let mut buf = [0; CHUNK];
        loop {
            let Some(http3) = &mut self.http3 else { return Ok(()) };
            match http3.poll(conn) {
                Ok((stream, h3::Event::Data)) => {
                    while let Ok(len) = http3.recv_body(conn, stream, &mut buf) {
                        self.received += len as u64;
                    }
                }
                Ok((stream, h3::Event::Headers { list, more_frames })) => {
                    let names: Vec<u8> =
                        list.iter().flat_map(|h| [h.name(), h.value()].concat()).collect();
                    let text = format!(
                        "stream {stream} headers {:016x} {more_frames}",
                        trace::hash(&names)
                    );
                    trace::note(trace, &format!("{:?} {text}", self.endpoint))?;
                }
                Ok((stream, h3::Event::Finished)) => {
                    self.finished += 1;
                    trace::note(trace, &format!("{:?} stream {stream} finished", self.endpoint))?;
                    if self.endpoint == Endpoint::Server {
                        self.prioritize(conn, stream, requests.priorities, trace)?;
                        self.responses.push(stream);
                    }
                }
                Ok((stream, event)) => {
                    if matches!(event, h3::Event::Reset(_)) {
                        self.finished += 1;
                    }
                    trace::note(trace, &format!("{:?} stream {stream} {event:?}", self.endpoint))?;
                }
                Err(h3::Error::Done) => return Ok(()),
                Err(e) => return trace::note(trace, &format!("{:?} poll: {e:?}", self.endpoint)),
            }
        }
    }

    fn send_responses(
        &mut self,
        conn: &mut quiche::Connection,
        requests: Requests,
        trace: &mut dyn Write,
    ) -> Result<()> {
        let length = requests.down.to_string();
        let headers = [
            h3::Header::new(b":status", b"200"),
            h3::Header::new(b"server", b"same-packets"),
            h3::Header::new(b"content-type", b"application/octet-stream"),
            h3::Header::new(b"content-length", length.as_bytes()),
        ];
        let mut blocked = Vec::new();
        for stream in std::mem::take(&mut self.responses) {
            let Some(http3) = &mut self.http3 else { break };
            match http3.send_response(conn, stream, &headers, requests.down == 0) {
                Ok(()) if requests.down > 0 => {
                    self.begin_write(stream, requests.down);
                }
                Ok(()) => {}
                Err(h3::Error::StreamBlocked | h3::Error::Done) => blocked.push(stream),
                Err(e) => {
                    trace::note(trace, &format!("{:?} response on {stream}: {e:?}", self.endpoint))?
                }
            }
        }
        self.responses = blocked;
        Ok(())
    }
}

fn urgency(stream: u64) -> u8 {
    (stream / 4 % 8) as u8
}
