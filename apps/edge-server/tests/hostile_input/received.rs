//! Frames and packets received from the server.

use std::collections::BTreeMap;
use std::collections::HashMap;

use quiche::h3::qpack;
use quiche::h3::NameValue;

use crate::wire::Reader;

/// Error of a CONNECTION_CLOSE frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    Transport(u64),
    Application(u64),
}

/// State of a connection, as received from the server.
#[derive(Debug, Default)]
pub struct Received {
    pub close: Option<Close>,
    pub handshake_done: bool,

    /// Codes of RESET_STREAM and STOP_SENDING frames, by stream.
    pub resets: HashMap<u64, u64>,
    pub stops: HashMap<u64, u64>,
    pub streams: HashMap<u64, StreamBuffer>,

    /// Data of unanswered PATH_CHALLENGE frames, and the number of PATH_RESPONSE frames.
    pub challenges: Vec<Vec<u8>>,
    pub responses: usize,

    /// Connection IDs and tokens of NEW_CONNECTION_ID frames, by sequence number.
    pub ids: BTreeMap<u64, (Vec<u8>, Vec<u8>)>,
    pub retired: Vec<u64>,

    /// Connection IDs of a Version Negotiation packet.
    pub negotiated: Option<[Vec<u8>; 2]>,

    /// Source connection ID and token of a Retry packet.
    pub retry: Option<(Vec<u8>, Vec<u8>)>,

    pub datagrams: usize,
    pub bytes: usize,

    /// The last datagram.
    pub last: Vec<u8>,
}

/// Contents of a packet that concern the peer's own state.
#[derive(Default)]
pub struct PayloadSummary {
    pub ack_eliciting: bool,
    pub acknowledged: Option<u64>,
    pub crypto: Vec<(u64, Vec<u8>)>,

    /// Streams whose first bytes the packet carries.
    pub started: Vec<u64>,
}

/// Received part of a response.
#[derive(Debug, Default)]
pub struct ReceivedResponse {
    pub status: Option<String>,
    pub body: Vec<u8>,
}

impl Received {
    /// Handles the frames of a packet (RFC 9000, 19).
    pub fn on_payload(&mut self, payload: &[u8]) -> PayloadSummary {
        let mut summary = PayloadSummary::default();
        let mut reader = Reader(payload);
        while !reader.is_empty() {
            self.on_frame(&mut reader, &mut summary);
        }
        summary
    }

    fn on_frame(&mut self, reader: &mut Reader<'_>, summary: &mut PayloadSummary) {
        let kind = reader.varint();
        summary.ack_eliciting |= !matches!(kind, 0x00 | 0x02 | 0x03 | 0x1c | 0x1d);
        match kind {
            0x00 | 0x01 => (),
            0x02 | 0x03 => {
                summary.acknowledged = summary.acknowledged.max(Some(reader.varint()));
                reader.varint();
                let ranges = reader.varint();
                let rest = if kind == 0x03 { 3 } else { 0 };
                for _ in 0..1 + 2 * ranges + rest {
                    reader.varint();
                }
            }
            0x04 => {
                let (stream, code) = (reader.varint(), reader.varint());
                reader.varint();
                self.resets.insert(stream, code);
            }
            0x05 => {
                let (stream, code) = (reader.varint(), reader.varint());
                self.stops.insert(stream, code);
            }
            0x06 => {
                let offset = reader.varint();
                summary.crypto.push((offset, reader.counted().to_vec()));
            }
            0x07 => {
                reader.counted();
            }
            0x08..=0x0f => {
                let stream = reader.varint();
                let offset = if kind & 4 == 0 { 0 } else { reader.varint() };
                let bytes =
                    if kind & 2 == 0 { reader.take(reader.0.len()) } else { reader.counted() };
                if offset == 0 {
                    summary.started.push(stream);
                }
                self.streams.entry(stream).or_default().put(offset, bytes, kind & 1 == 1);
            }
            0x10 | 0x12..=0x14 | 0x16 | 0x17 => {
                reader.varint();
            }
            0x11 | 0x15 => {
                reader.varint();
                reader.varint();
            }
            0x18 => {
                let number = reader.varint();
                reader.varint();
                let length = usize::from(reader.byte());
                let id = reader.take(length).to_vec();
                self.ids.insert(number, (id, reader.take(16).to_vec()));
            }
            0x19 => self.retired.push(reader.varint()),
            0x1a => self.challenges.push(reader.take(8).to_vec()),
            0x1b => {
                reader.take(8);
                self.responses += 1;
            }
            0x1c => {
                let code = reader.varint();
                reader.varint();
                reader.counted();
                self.close = self.close.or(Some(Close::Transport(code)));
            }
            0x1d => {
                let code = reader.varint();
                reader.counted();
                self.close = self.close.or(Some(Close::Application(code)));
            }
            0x1e => self.handshake_done = true,
            other => panic!("the server sent a frame of unknown type {other:#x}"),
        }
    }

    /// Returns whether the last datagram is a stateless reset for a connection ID of the server.
    pub fn is_reset(&self) -> bool {
        let looks_short = self.last.first().is_some_and(|first| first & 0xc0 == 0x40);
        looks_short && self.ids.values().any(|(_, token)| self.last.ends_with(token))
    }

    /// Returns the received part of the final response on a stream.
    pub fn response(&self, stream: u64) -> ReceivedResponse {
        let mut response = ReceivedResponse::default();
        let bytes = self.streams.get(&stream).map(|buffer| buffer.bytes.as_slice());
        let mut reader = Reader(bytes.unwrap_or_default());
        while let Some((kind, payload)) = next_frame(&mut reader) {
            match kind {
                0 => response.body.extend(payload),
                1 => {
                    let fields = qpack::Decoder::new().decode(payload, u64::MAX).unwrap();
                    let status = fields.iter().find(|field| field.name() == b":status");
                    let status = status.map(|field| String::from_utf8_lossy(field.value()));
                    response.status = status.map(|status| status.into_owned());
                }
                _ => (),
            }
        }
        response
    }
}

/// Returns the next HTTP/3 frame, if it is complete.
fn next_frame<'a>(reader: &mut Reader<'a>) -> Option<(u64, &'a [u8])> {
    let whole = |bytes: &[u8]| bytes.first().is_some_and(|byte| bytes.len() >= 1 << (byte >> 6));
    let mut ahead = Reader(reader.0);
    whole(ahead.0).then_some(())?;
    let kind = ahead.varint();
    whole(ahead.0).then_some(())?;
    let length = ahead.varint() as usize;
    (ahead.0.len() >= length).then_some(())?;
    let payload = ahead.take(length);
    *reader = ahead;
    Some((kind, payload))
}

/// Reassembly buffer of a stream.
#[derive(Debug, Default)]
pub struct StreamBuffer {
    /// Contiguous bytes from the start.
    pub bytes: Vec<u8>,
    ahead: BTreeMap<u64, Vec<u8>>,
    end: Option<u64>,
    taken: usize,
}

impl StreamBuffer {
    pub fn put(&mut self, offset: u64, bytes: &[u8], last: bool) {
        self.ahead.insert(offset, bytes.to_vec());
        if last {
            self.end = Some(offset + bytes.len() as u64);
        }
        while let Some(entry) = self.ahead.first_entry() {
            let Some(known) = (self.bytes.len() as u64).checked_sub(*entry.key()) else { break };
            let bytes = entry.remove();
            self.bytes.extend(bytes.get(known as usize..).unwrap_or_default());
        }
    }

    /// Returns the contiguous bytes that were not taken before.
    pub fn take(&mut self) -> Vec<u8> {
        let taken = std::mem::replace(&mut self.taken, self.bytes.len());
        self.bytes[taken..].to_vec()
    }

    /// Returns whether the stream is complete.
    pub fn is_complete(&self) -> bool {
        self.end == Some(self.bytes.len() as u64)
    }
}
