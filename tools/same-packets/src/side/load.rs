//! Application: transfers that a scenario's load describes.
//!
//! It must read what the other endpoint's application writes: anything else is a fault in the
//! trace, and each unexpected error is an event there.

mod http3;

use super::quiche;
use crate::content;
use crate::scenario::Endpoint;
use crate::scenario::Load;
use crate::scenario::Priorities;
use crate::scenario::Requests;
use crate::scenario::Scenario;
use crate::trace;
use anyhow::Result;
use quiche::h3;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fmt::Display;
use std::io::Write;

const MS: u64 = 1_000_000;

/// From one small write to the next, in ns.
const SMALL_WRITE_INTERVAL: u64 = 50_000;

/// Longest write of an application.
const CHUNK: usize = 16_384;

/// Rest of the applications without a transfer, in ns.
const IDLE: u64 = 300 * MS;

/// What is written to a stream.
struct Outgoing {
    data: Vec<u8>,
    sent: usize,
}

/// Bytes that a stream has taken; no text in the error if it takes none now.
type Written = std::result::Result<usize, Option<String>>;

/// What one endpoint transfers.
pub struct Application {
    endpoint: Endpoint,
    load: Load,
    http3: Option<h3::Connection>,
    begun: u64,

    writes: BTreeMap<u64, Outgoing>,

    /// Streams that nothing has been written to.
    new: Vec<u64>,

    /// Streams whose response headers are not sent yet.
    responses: Vec<u64>,

    /// Bytes read, by stream.
    reads: BTreeMap<u64, u64>,

    /// Streams that this endpoint no longer reads.
    stopped: BTreeSet<u64>,

    /// DATAGRAM frames that may still arrive, and how many of each.
    expected_datagrams: BTreeMap<Vec<u8>, u64>,
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
            reads: BTreeMap::new(),
            stopped: BTreeSet::new(),
            expected_datagrams: expected_datagrams(endpoint, scenario.load),
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
            self.stopped.insert(stream);
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
        self.note_error(trace, format_args!("priority of {stream}"), set)
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
                        self.take(stream, &buf[..len], trace)?;
                        if is_end {
                            self.on_end(conn, stream, requests, trace)?;
                            break;
                        }
                    }
                    Err(quiche::Error::Done) => break,
                    Err(e) => {
                        self.note(trace, format_args!("stream {stream}: {e:?}"))?;
                        self.finished += 1;
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Compares what was read with what the other endpoint writes.
    fn take(&mut self, stream: u64, data: &[u8], trace: &mut dyn Write) -> Result<()> {
        let offset = self.reads.entry(stream).or_default();
        let wrong = content::first_wrong(self.endpoint.other(), stream, *offset, data);
        *offset += data.len() as u64;
        self.received += data.len() as u64;
        match wrong {
            None => Ok(()),
            Some(at) => {
                let text = format_args!("byte {at} of stream {stream} is not what was sent");
                trace::fault(trace, self.endpoint, text)
            }
        }
    }

    /// Counts a stream whose end was read. It must have all that the other endpoint writes.
    fn finish(&mut self, stream: u64, trace: &mut dyn Write) -> Result<()> {
        self.finished += 1;
        self.note(trace, format_args!("stream {stream} finished"))?;
        let bytes = self.reads.get(&stream).copied().unwrap_or_default();
        let expected = match (self.load, self.endpoint) {
            (Load::SmallWrites { count, bytes }, _) => count * bytes as u64,
            (Load::Streams(r) | Load::Http3(r) | Load::Unidirectional(r), Endpoint::Server) => r.up,
            (Load::Streams(r) | Load::Http3(r) | Load::Unidirectional(r), _) => r.down,
            (Load::Nothing | Load::Datagrams { .. }, _) => 0,
        };
        if bytes == expected || self.stopped.contains(&stream) {
            return Ok(());
        }
        let text = format_args!("stream {stream} ends after {bytes} bytes instead of {expected}");
        trace::fault(trace, self.endpoint, text)
    }

    fn on_end(
        &mut self,
        conn: &mut quiche::Connection,
        stream: u64,
        requests: Requests,
        trace: &mut dyn Write,
    ) -> Result<()> {
        self.finish(stream, trace)?;
        let has_response = matches!(self.load, Load::Streams(_)) && stream.is_multiple_of(4);
        if self.endpoint == Endpoint::Server && has_response {
            self.prioritize(conn, stream, requests.priorities, trace)?;
            self.begin_write(stream, requests.down);
        }
        Ok(())
    }

    fn begin_write(&mut self, stream: u64, bytes: u64) {
        let data = content::bytes(self.endpoint, stream, 0, bytes as usize);
        self.writes.insert(stream, Outgoing { data, sent: 0 });
        self.new.push(stream);
    }

    fn write(&mut self, conn: &mut quiche::Connection, trace: &mut dyn Write) -> Result<()> {
        let mut streams = std::mem::take(&mut self.new);
        while let Some(stream) = conn.stream_writable_next() {
            streams.push(stream);
        }
        for stream in streams {
            while let Some(outgoing) = self.writes.get_mut(&stream) {
                let rest = &outgoing.data[outgoing.sent..];
                let chunk = &rest[..rest.len().min(CHUNK)];
                let is_last = chunk.len() == rest.len();
                let written = match &mut self.http3 {
                    Some(http3) => send_body(http3, conn, stream, chunk, is_last),
                    None => send(conn, stream, chunk, is_last),
                };
                match written {
                    Ok(len) => {
                        let is_blocked = len < chunk.len();
                        outgoing.sent += len;
                        if outgoing.sent == outgoing.data.len() {
                            self.writes.remove(&stream);
                        } else if is_blocked {
                            break;
                        }
                    }
                    Err(None) => break,
                    Err(Some(error)) => {
                        self.writes.remove(&stream);
                        self.note(trace, format_args!("write to {stream}: {error}"))?;
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
            let sent = conn.dgram_send(&content::bytes(self.endpoint, self.begun, 0, bytes));
            self.note_error(trace, format_args!("DATAGRAM frame {}", self.begun), sent)?;
            self.begun += 1;
        }
        let mut buf = [0; 1500];
        loop {
            match conn.dgram_recv(&mut buf) {
                Ok(len) => self.take_datagram(&buf[..len], trace)?,
                Err(quiche::Error::Done) => return Ok(()),
                Err(e) => return self.note(trace, format_args!("DATAGRAM frames: {e:?}")),
            }
        }
    }

    fn take_datagram(&mut self, data: &[u8], trace: &mut dyn Write) -> Result<()> {
        self.datagrams_received += 1;
        self.received += data.len() as u64;
        self.note(trace, format_args!("DATAGRAM frame {:016x}", trace::hash(data)))?;
        match self.expected_datagrams.get_mut(data) {
            Some(count) if *count > 0 => *count -= 1,
            _ => {
                let text = format_args!("a DATAGRAM frame was not sent, or came before");
                trace::fault(trace, self.endpoint, text)?;
            }
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
            let content = content::bytes(self.endpoint, 2, self.begun * bytes as u64, bytes);
            match conn.stream_send(2, &content, self.begun + 1 == count) {
                Ok(len) if len == bytes => self.begun += 1,
                Err(quiche::Error::Done) => break,
                done => {
                    self.begun = count;
                    self.note(trace, format_args!("small write: {done:?}"))?;
                }
            }
        }
        Ok(())
    }

    fn note(&self, trace: &mut dyn Write, text: impl Display) -> Result<()> {
        trace::note(trace, &format!("{:?} {text}", self.endpoint))
    }

    fn note_error<T, E: Debug>(
        &self,
        trace: &mut dyn Write,
        what: impl Display,
        done: std::result::Result<T, E>,
    ) -> Result<()> {
        match done {
            Ok(_) => Ok(()),
            Err(e) => self.note(trace, format_args!("{what}: {e:?}")),
        }
    }
}

fn send(conn: &mut quiche::Connection, stream: u64, data: &[u8], is_last: bool) -> Written {
    match conn.stream_send(stream, data, is_last) {
        Err(quiche::Error::Done) => Err(None),
        done => done.map_err(|e| Some(format!("{e:?}"))),
    }
}

fn send_body(
    http3: &mut h3::Connection,
    conn: &mut quiche::Connection,
    stream: u64,
    data: &[u8],
    is_last: bool,
) -> Written {
    match http3.send_body(conn, stream, data, is_last) {
        Err(h3::Error::Done | h3::Error::StreamBlocked) => Err(None),
        done => done.map_err(|e| Some(format!("{e:?}"))),
    }
}

/// Returns the content of the DATAGRAM frames that the other endpoint sends.
fn expected_datagrams(endpoint: Endpoint, load: Load) -> BTreeMap<Vec<u8>, u64> {
    let mut expected = BTreeMap::new();
    if let Load::Datagrams { count, bytes } = load {
        for number in 0..count {
            let content = content::bytes(endpoint.other(), number, 0, bytes);
            *expected.entry(content).or_default() += 1;
        }
    }
    expected
}

fn urgency(stream: u64) -> u8 {
    (stream / 4 % 8) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiche::test_utils::Pipe;

    /// Returns the trace of a client that asks for 100 bytes, and gets `response`.
    fn trace_of(response: &[u8]) -> String {
        let load = Load::Streams(Requests::new(1, 10, 100));
        let scenario = Scenario { load, ..Scenario::new("test") };
        let mut config = super::super::config(&scenario, Endpoint::Server).unwrap();
        let mut pipe = Pipe::with_config(&mut config).unwrap();
        pipe.handshake().unwrap();
        let mut trace = Vec::new();
        let mut client = Application::new(Endpoint::Client, &scenario);
        client.step(&mut pipe.client, 0, &mut trace).unwrap();
        pipe.advance().unwrap();
        pipe.server.stream_send(0, response, true).unwrap();
        pipe.advance().unwrap();
        client.step(&mut pipe.client, 0, &mut trace).unwrap();
        String::from_utf8(trace).unwrap()
    }

    #[test]
    fn reader_of_what_was_sent_finds_no_fault() {
        let trace = trace_of(&content::bytes(Endpoint::Server, 0, 0, 100));
        assert!(trace.contains("Client stream 0 finished"), "{trace}");
        assert!(!trace.contains(trace::FAULT), "{trace}");
    }

    #[test]
    fn reader_of_other_data_finds_the_fault() {
        let mut swapped = content::bytes(Endpoint::Server, 0, 0, 100);
        swapped.swap(40, 60);
        let trace = trace_of(&swapped);
        assert!(trace.contains("Client FAULT: byte 40 of stream 0 is not what"), "{trace}");
        let trace = trace_of(&content::bytes(Endpoint::Server, 0, 0, 99));
        assert!(trace.contains("Client FAULT: stream 0 ends after 99 bytes"), "{trace}");
    }
}
