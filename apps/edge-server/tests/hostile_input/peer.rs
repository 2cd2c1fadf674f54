//! QUIC client that gives tests control of every packet and frame. rustls performs the TLS
//! handshake and provides the keys.
//!
//! The client follows a regular connection up to the point at which a test deviates. It reads no
//! clock: timeouts are numbers of polls.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::UdpGsoSegment;
use rustls::quic::ClientConnection;
use rustls::quic::DirectionalKeys;
use rustls::quic::KeyChange;
use rustls::quic::Keys;
use rustls::quic::PacketKey;
use rustls::quic::PacketKeySet;
use rustls::quic::Version;
use rustls::Side;

use crate::credentials;
use crate::packet;
use crate::packet::PlainPacket;
use crate::packet::Space;
use crate::packet::SPACES;
use crate::packet::VERSION;
use crate::received::Received;
use crate::received::StreamBuffer;
use crate::wire::crypto;
use crate::wire::numbers;
use crate::wire::stream;
use crate::wire::varint;
use crate::wire::with_bytes;
use crate::wire::Reader;

const POLL_INTERVAL: Duration = Duration::from_millis(10);
const POLLS_MAX: usize = 3000;
const POLLS_BRIEF: usize = 50;

/// Smallest datagram with an Initial packet (RFC 9000, 14.1).
pub const INITIAL_BYTES: usize = 1200;

/// Largest payload of a packet, in bytes.
const PAYLOAD_BYTES: usize = 1160;

/// Largest number of packets in flight: more do not fit into a socket's buffer.
const BURST: u64 = 50;

/// Limit on the ranges of an ACK frame.
const RANGES_MAX: usize = 16;

/// Number of prepared key updates.
pub const KEY_UPDATES: usize = 8;

/// Idle timeout, in milliseconds.
const IDLE_MS: u64 = 20_000;

const PING: u8 = 0x01;
const PATH_RESPONSE: u64 = 0x1b;
const CONNECTION_CLOSE: u64 = 0x1c;

/// Flow-control window granted to the server, in bytes.
pub const WINDOW_BYTES: u64 = 1 << 20;

/// State of a packet number space.
#[derive(Default)]
struct SpaceState {
    keys: Option<Keys>,
    number_next: u64,
    received: BTreeSet<u64>,
    acknowledged: Option<u64>,
    crypto: StreamBuffer,
    crypto_sent: u64,
    ack_due: bool,
}

impl SpaceState {
    fn keys(&self) -> &Keys {
        self.keys.as_ref().expect("keys of this space")
    }
}

/// Client with at most one connection.
pub struct HostilePeer {
    socket: UdpSocket,
    server: SocketAddr,
    tls: ClientConnection,

    /// Source connection ID.
    pub source: Vec<u8>,

    /// Destination connection ID.
    pub destination: Vec<u8>,
    pub token: Vec<u8>,

    /// The ClientHello message, and the Finished message once the server's handshake has come.
    pub hello: Vec<u8>,
    pub finished: Vec<u8>,
    /// Whether the ClientHello was sent.
    pub sent_client_hello: bool,
    states: [SpaceState; 3],

    /// Packet keys after updates.
    updated: Vec<PacketKeySet>,

    /// Whether packets are acknowledged.
    pub sends_acks: bool,

    /// Stream whose first bytes are never acknowledged.
    pub withholds_start_ack_of: Option<u64>,
    sent_streams: Vec<(u64, u64)>,
    pub received: Received,
}

impl HostilePeer {
    /// Returns a client that has not sent a packet.
    pub fn new(server: SocketAddr) -> Self {
        Self::at(Ipv4Addr::LOCALHOST, server)
    }

    /// Returns a client at a loopback address that has not sent a packet.
    pub fn at(address: Ipv4Addr, server: SocketAddr) -> Self {
        let source = b"a client";
        let socket = UdpSocket::bind((address, 0)).unwrap();
        socket.set_read_timeout(Some(POLL_INTERVAL)).unwrap();
        let (tls, hello) = begin(&parameters(source, &[]));
        // Unique in this process.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let destination = COUNT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let mut peer = Self {
            socket,
            server,
            tls,
            source: source.to_vec(),
            destination: Vec::new(),
            token: Vec::new(),
            hello,
            finished: Vec::new(),
            sent_client_hello: false,
            states: Default::default(),
            updated: Vec::new(),
            sends_acks: true,
            withholds_start_ack_of: None,
            sent_streams: Vec::new(),
            received: Received::default(),
        };
        peer.set_destination_id(&destination);
        peer
    }

    /// Sets the source connection ID and the transport parameters.
    pub fn set_source_id(&mut self, source: &[u8], parameters: &[u8]) {
        self.source = source.to_vec();
        (self.tls, self.hello) = begin(parameters);
    }

    /// Sets the destination connection ID of the first packets, and the Initial keys.
    pub fn set_destination_id(&mut self, destination: &[u8]) {
        self.destination = destination.to_vec();
        let suite = credentials::initial_suite();
        self.state(Space::Initial).keys = Some(suite.keys(destination, Side::Client, Version::V1));
    }

    fn state(&mut self, space: Space) -> &mut SpaceState {
        &mut self.states[space as usize]
    }

    /// Sends a datagram as it is.
    pub fn send_datagram(&mut self, datagram: &[u8]) {
        self.socket.send_to(datagram, self.server).unwrap();
    }

    /// Sends datagrams of one size together: the server reads them before it answers one.
    pub fn send_together(&mut self, datagrams: &[Vec<u8>]) {
        let size = i32::try_from(datagrams[0].len()).unwrap();
        setsockopt(&self.socket, UdpGsoSegment, &size).unwrap();
        self.send_datagram(&datagrams.concat());
        setsockopt(&self.socket, UdpGsoSegment, &0).unwrap();
    }

    /// Returns a packet with the next number.
    pub fn packet(&mut self, space: Space, payload: &[u8]) -> PlainPacket {
        let state = self.state(space);
        let number = state.number_next;
        state.number_next += 1;
        PlainPacket {
            first: PlainPacket::first_byte(space),
            version: VERSION,
            destination: self.destination.clone(),
            source: self.source.clone(),
            token: self.token.clone(),
            number,
            payload: payload.to_vec(),
            length: None,
        }
    }

    /// Returns the protected packet.
    pub fn seal(&self, space: Space, packet: &PlainPacket) -> Vec<u8> {
        let DirectionalKeys { packet: key, header } = &self.states[space as usize].keys().local;
        packet.seal(key.as_ref(), header.as_ref())
    }

    /// Sends packets in one datagram, padded with zeros if the first is an Initial packet.
    pub fn send_packets(&mut self, packets: &[(Space, PlainPacket)]) {
        let sealed = packets.iter().map(|(space, packet)| self.seal(*space, packet));
        let mut datagram: Vec<u8> = sealed.collect::<Vec<_>>().concat();
        if packets[0].0 == Space::Initial && datagram.len() < INITIAL_BYTES {
            datagram.resize(INITIAL_BYTES, 0);
        }
        self.send_datagram(&datagram);
    }

    /// Sends a packet after `change` has modified it.
    pub fn send_modified(
        &mut self,
        space: Space,
        payload: &[u8],
        change: impl FnOnce(&mut PlainPacket),
    ) {
        let mut packet = self.packet(space, payload);
        change(&mut packet);
        self.send_packets(&[(space, packet)]);
    }

    /// Sends a packet with these frames.
    pub fn send(&mut self, space: Space, frames: &[u8]) {
        self.send_modified(space, frames, |_| ());
    }

    /// Sends many packets in bursts.
    pub fn send_many(&mut self, payloads: impl IntoIterator<Item = Vec<u8>>) {
        for (n, payload) in (1..).zip(payloads) {
            self.send(Space::Data, &payload);
            if n % BURST == 0 {
                self.round_trip();
            }
            if self.received.close.is_some() {
                return;
            }
        }
    }

    /// Sends the next bytes of a stream.
    pub fn write(&mut self, id: u64, bytes: &[u8], last: bool) {
        let index = self.sent_streams.iter().position(|sent| sent.0 == id);
        let index = index.unwrap_or_else(|| {
            self.sent_streams.push((id, 0));
            self.sent_streams.len() - 1
        });
        let offset = self.sent_streams[index].1;
        self.sent_streams[index].1 += bytes.len() as u64;
        let mut stream_starts: Vec<&[u8]> = bytes.chunks(PAYLOAD_BYTES).collect();
        if stream_starts.is_empty() {
            stream_starts.push(&[]);
        }
        let count = stream_starts.len();
        let frames = stream_starts.into_iter().enumerate().map(|(n, chunk)| {
            let at = offset + (n * PAYLOAD_BYTES) as u64;
            stream(id, at, chunk, last && n + 1 == count)
        });
        self.send_many(frames.collect::<Vec<_>>());
    }

    /// Sends the next bytes of the TLS handshake.
    pub fn send_crypto(&mut self, space: Space, bytes: &[u8]) {
        for chunk in bytes.chunks(PAYLOAD_BYTES) {
            let state = self.state(space);
            let offset = state.crypto_sent;
            state.crypto_sent += chunk.len() as u64;
            self.send(space, &crypto(offset, chunk));
        }
    }

    /// Sends the ClientHello.
    pub fn send_client_hello(&mut self) {
        self.sent_client_hello = true;
        let hello = self.hello.clone();
        self.send_crypto(Space::Initial, &hello);
    }

    /// Sends the ClientHello and waits for the server's handshake messages, without sending
    /// Finished.
    pub fn await_server_handshake(&mut self) {
        self.send_client_hello();
        // The first Handshake packet would make the server discard its Initial keys.
        self.sends_acks = false;
        self.wait("the server's handshake", |peer| !peer.finished.is_empty());
    }

    /// Completes the handshake from its current state.
    pub fn complete(&mut self) {
        if !self.sent_client_hello {
            self.send_client_hello();
        }
        self.wait("the server's handshake", |peer| !peer.finished.is_empty());
        self.sends_acks = true;
        self.finish();
        self.wait("the end of the handshake", |peer| peer.received.handshake_done);
    }

    /// Sends the Finished message.
    pub fn finish(&mut self) {
        let finished = self.finished.clone();
        self.send_crypto(Space::Handshake, &finished);
    }

    /// Returns whether the handshake is confirmed.
    pub fn is_complete(&self) -> bool {
        self.received.handshake_done
    }

    /// Waits until the server has acknowledged all packets, or has closed the connection.
    pub fn round_trip(&mut self) {
        let number = self.state(Space::Data).number_next;
        self.send(Space::Data, &[PING]);
        self.wait("an acknowledgement", |peer| {
            let acknowledged = peer.states[Space::Data as usize].acknowledged;
            acknowledged >= Some(number) || peer.received.close.is_some()
        });
    }

    /// Sends PING until a datagram arrives.
    ///
    /// # Panics
    ///
    /// No datagram arrives.
    pub fn ping_until_reply(&mut self) {
        let datagrams = self.received.datagrams;
        for _ in 0..POLLS_MAX {
            self.send(Space::Data, &[PING]);
            self.receive();
            if self.received.datagrams > datagrams {
                return;
            }
        }
        panic!("the server did not reply");
    }

    /// Skips a packet number.
    pub fn skip_number(&mut self, space: Space) {
        self.state(space).number_next += 1;
    }

    /// Returns the number of the last packet sent.
    pub fn last_number(&self, space: Space) -> Option<u64> {
        self.states[space as usize].number_next.checked_sub(1)
    }

    /// Returns the next packet, protected with the keys of the `generation`-th update (RFC 9001,
    /// 6).
    pub fn seal_updated(&mut self, generation: usize, payload: &[u8]) -> Vec<u8> {
        let mut packet = self.packet(Space::Data, payload);
        if generation % 2 == 1 {
            packet.first |= 0x04;
        }
        let header = &self.states[Space::Data as usize].keys().local.header;
        packet.seal(self.updated[generation - 1].local.as_ref(), header.as_ref())
    }

    /// Closes the connection, so that the server removes it.
    pub fn close(&mut self) {
        let space = match self.is_complete() {
            true => Space::Data,
            false => Space::Handshake,
        };
        if self.received.close.is_none() && self.states[space as usize].keys.is_some() {
            self.send(space, &numbers(&[CONNECTION_CLOSE, 0, 0, 0]));
        }
    }

    /// Migrates to another port.
    pub fn migrate(&mut self) {
        self.socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        self.socket.set_read_timeout(Some(POLL_INTERVAL)).unwrap();
    }

    /// Waits until `done` returns true.
    ///
    /// # Panics
    ///
    /// It does not, or the server closes the connection.
    pub fn wait(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        assert!(self.wait_until(done), "the server did not send {what}: {:?}", self.received);
    }

    /// Waits until `done` returns true or the server closes the connection. Returns which.
    pub fn wait_until(&mut self, done: impl Fn(&Self) -> bool) -> bool {
        self.poll_until(POLLS_MAX, done)
    }

    /// Waits like [`Self::wait_until()`], for about as long as a retransmission timer.
    pub fn wait_briefly(&mut self, done: impl Fn(&Self) -> bool) -> bool {
        self.poll_until(POLLS_BRIEF, done)
    }

    fn poll_until(&mut self, polls_max: usize, done: impl Fn(&Self) -> bool) -> bool {
        let mut polls = 0;
        loop {
            if done(self) {
                return true;
            }
            if self.received.close.is_some() || polls == polls_max {
                return false;
            }
            polls += usize::from(!self.receive());
        }
    }

    /// Receives a datagram. Returns whether one arrived within the poll interval.
    pub fn receive(&mut self) -> bool {
        let mut datagram = [0; 65_535];
        let Ok((length, _)) = self.socket.recv_from(&mut datagram) else { return false };
        self.received.datagrams += 1;
        self.received.bytes += length;
        self.on_datagram(&datagram[..length]);
        if self.sends_acks {
            self.acknowledge();
        }
        self.answer_challenges();
        true
    }

    fn on_datagram(&mut self, mut rest: &[u8]) {
        self.received.last = rest.to_vec();
        while let Some(first) = rest.first() {
            let length = match first & 0x80 {
                0 => {
                    let number_offset = 1 + self.source.len();
                    self.on_packet(Space::Data, rest, number_offset);
                    rest.len()
                }
                _ => self.on_long_header(rest),
            };
            rest = &rest[length..];
        }
    }

    /// Handles a packet with a long header. Returns its length.
    fn on_long_header(&mut self, bytes: &[u8]) -> usize {
        let mut reader = Reader(&bytes[1..]);
        let version = u32::from_be_bytes(reader.take(4).try_into().unwrap());
        let ids = [0; 2].map(|_| {
            let length = usize::from(reader.byte());
            reader.take(length).to_vec()
        });
        let kind = bytes[0] & 0x30;
        if version == 0 {
            self.received.negotiated = Some(ids);
            return bytes.len();
        }
        if kind == 0x30 {
            let token = reader.0.split_last_chunk::<16>().unwrap().0;
            self.received.retry = Some((ids[1].clone(), token.to_vec()));
            return bytes.len();
        }
        if kind == 0 {
            reader.counted();
        }
        let length = reader.varint() as usize;
        let number_offset = bytes.len() - reader.0.len();
        let end = number_offset + length;
        let space = if kind == 0 { Space::Initial } else { Space::Handshake };
        if self.on_packet(space, &bytes[..end], number_offset) && kind == 0 {
            // RFC 9000, 7.2: the server selects this ID.
            self.destination = ids[1].clone();
        }
        end
    }

    fn on_packet(&mut self, space: Space, packet: &[u8], number_offset: usize) -> bool {
        let state = &self.states[space as usize];
        let Some(keys) = &state.keys else { return false };
        let updated = self.updated.iter().filter(|_| space == Space::Data);
        let packet_keys: Vec<&dyn PacketKey> = std::iter::once(keys.remote.packet.as_ref())
            .chain(updated.map(|set| set.remote.as_ref()))
            .collect();
        let largest = state.received.last().copied();
        let header_key = keys.remote.header.as_ref();
        let opened = packet::open(packet, number_offset, &packet_keys, header_key, largest);
        let Some(opened) = opened else { return false };

        let state = self.state(space);
        if state.received.insert(opened.number) {
            let summary = self.received.on_payload(&opened.payload);
            let is_withheld =
                self.withholds_start_ack_of.is_some_and(|id| summary.started.contains(&id));
            let state = self.state(space);
            if is_withheld {
                state.received.remove(&opened.number);
            }
            state.ack_due |= summary.ack_eliciting;
            state.acknowledged = state.acknowledged.max(summary.acknowledged);
            for (offset, bytes) in summary.crypto {
                state.crypto.put(offset, &bytes, false);
            }
            self.on_crypto(space);
        }
        true
    }

    fn on_crypto(&mut self, space: Space) {
        let bytes = self.state(space).crypto.take();
        if bytes.is_empty() || self.tls.read_hs(&bytes).is_err() {
            return;
        }
        let mut own = Vec::new();
        while let Some(change) = self.tls.write_hs(&mut own) {
            match change {
                KeyChange::Handshake { keys } => self.state(Space::Handshake).keys = Some(keys),
                KeyChange::OneRtt { keys, mut next } => {
                    self.state(Space::Data).keys = Some(keys);
                    self.updated = (0..KEY_UPDATES).map(|_| next.next_packet_keys()).collect();
                }
            }
        }
        self.finished.extend(own);
    }

    /// Sends PATH_RESPONSE frames (RFC 9000, 8.2.2).
    fn answer_challenges(&mut self) {
        while let Some(challenge) = self.received.challenges.pop() {
            let mut frames = with_bytes(&[PATH_RESPONSE], &challenge);
            frames.resize(PAYLOAD_BYTES, 0);
            self.send(Space::Data, &frames);
        }
    }

    fn acknowledge(&mut self) {
        for space in SPACES {
            let state = self.state(space);
            if !std::mem::take(&mut state.ack_due) {
                continue;
            }
            let frame = acknowledgement(&state.received);
            // After the handshake the server has discarded the other keys.
            if space == Space::Data || !self.is_complete() {
                self.send(space, &frame);
            }
        }
    }
}

/// Starts a handshake. Returns it with its first message.
fn begin(parameters: &[u8]) -> (ClientConnection, Vec<u8>) {
    let mut tls = credentials::start(parameters.to_vec());
    let mut hello = Vec::new();
    assert!(tls.write_hs(&mut hello).is_none());
    (tls, hello)
}

/// Returns an ACK frame with the latest ranges of these numbers (RFC 9000, 19.3).
fn acknowledgement(received: &BTreeSet<u64>) -> Vec<u8> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in received.iter().rev() {
        match ranges.last_mut() {
            Some((smallest, _)) if *smallest == number + 1 => *smallest = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    ranges.truncate(RANGES_MAX);
    let (smallest, largest) = ranges[0];
    let mut frame = numbers(&[0x02, largest, 0, ranges.len() as u64 - 1, largest - smallest]);
    for pair in ranges.windows(2) {
        let ((before, _), (smallest, largest)) = (pair[0], pair[1]);
        frame.extend(numbers(&[before - largest - 2, largest - smallest]));
    }
    frame
}

/// Returns valid transport parameters followed by `more` (RFC 9000, 18).
pub fn parameters(source: &[u8], more: &[u8]) -> Vec<u8> {
    parameters_for(source, WINDOW_BYTES, more)
}

/// Returns transport parameters with a stream window of `response_bytes`.
pub fn parameters_for(source: &[u8], response_bytes: u64, more: &[u8]) -> Vec<u8> {
    parameters_with(source, response_bytes, IDLE_MS, more)
}

/// Returns transport parameters with a stream window of `response_bytes` and an idle timeout.
pub fn parameters_with(source: &[u8], response_bytes: u64, idle_ms: u64, more: &[u8]) -> Vec<u8> {
    let number = |id: u64, value: u64| with_bytes(&[id], &counted(&varint(value)));
    [
        with_bytes(&[0x0f], &counted(source)),
        number(0x04, response_bytes.max(WINDOW_BYTES)),
        number(0x05, response_bytes),
        number(0x07, WINDOW_BYTES),
        number(0x09, 3),
        number(0x01, idle_ms),
        more.to_vec(),
    ]
    .concat()
}

/// Returns bytes after their count.
pub fn counted(bytes: &[u8]) -> Vec<u8> {
    with_bytes(&[bytes.len() as u64], bytes)
}
