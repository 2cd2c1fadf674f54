//! A QUIC client whose every packet and frame is in the test's hands: rustls does
//! the TLS handshake and gives the keys, all else is made here.
//!
//! It takes the way of an ordinary connection to wherever a test wants to leave it.
//! No clock is read: patience is counted in naps.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustls::quic::ClientConnection;
use rustls::quic::DirectionalKeys;
use rustls::quic::KeyChange;
use rustls::quic::Keys;
use rustls::quic::PacketKey;
use rustls::quic::PacketKeySet;
use rustls::quic::Version;
use rustls::Side;

use crate::credentials;
use crate::heard::Heard;
use crate::heard::Inflow;
use crate::packet;
use crate::packet::Packet;
use crate::packet::Space;
use crate::packet::SPACES;
use crate::packet::VERSION;
use crate::wire::crypto;
use crate::wire::numbers;
use crate::wire::stream;
use crate::wire::varint;
use crate::wire::with_bytes;
use crate::wire::Reader;

const NAP: Duration = Duration::from_millis(10);
const NAPS_MAX: usize = 3000;
const NAPS_BRIEF: usize = 50;

/// Smallest datagram with an Initial packet (RFC 9000, 14.1).
pub const INITIAL_BYTES: usize = 1200;

/// The most that a packet carries here.
const PAYLOAD_BYTES: usize = 1160;

/// Packets that may be on their way at once: more do not fit into a socket's buffer.
const BURST: u64 = 50;

/// Ranges of an ACK frame.
const RANGES_MAX: usize = 16;

/// How often the keys can be updated here.
pub const KEY_UPDATES: usize = 8;

const PING: u8 = 0x01;
const PATH_RESPONSE: u64 = 0x1b;
const CONNECTION_CLOSE: u64 = 0x1c;

/// What this client grants a server.
pub const WINDOW_BYTES: u64 = 1 << 20;

/// A packet number space of the connection.
#[derive(Default)]
struct State {
    keys: Option<Keys>,
    number_next: u64,
    received: BTreeSet<u64>,
    acknowledged: Option<u64>,
    crypto: Inflow,
    crypto_sent: u64,
    due: bool,
}

impl State {
    fn keys(&self) -> &Keys {
        self.keys.as_ref().expect("keys of this space")
    }
}

/// One connection to a server, or less than one.
pub struct Peer {
    socket: UdpSocket,
    server: SocketAddr,
    tls: ClientConnection,

    /// What the server calls this client.
    pub source: Vec<u8>,

    /// What this client calls the server.
    pub destination: Vec<u8>,
    pub token: Vec<u8>,

    /// The ClientHello, and the Finished message once it is due.
    pub hello: Vec<u8>,
    pub finished: Vec<u8>,
    /// Whether the ClientHello is on its way.
    pub has_greeted: bool,
    states: [State; 3],

    /// Packet keys after updates.
    updated: Vec<PacketKeySet>,

    /// Whether it acknowledges what comes.
    pub acknowledges: bool,

    /// The stream of which it never acknowledges the beginning.
    pub lacks_start_of: Option<u64>,
    sent_streams: Vec<(u64, u64)>,
    pub heard: Heard,
}

impl Peer {
    /// A client that has sent nothing.
    pub fn new(server: SocketAddr) -> Self {
        let source = b"a client";
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(NAP)).unwrap();
        let (tls, hello) = begin(&parameters(source, &[]));
        // No other peer calls the server so, in this program.
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
            has_greeted: false,
            states: Default::default(),
            updated: Vec::new(),
            acknowledges: true,
            lacks_start_of: None,
            sent_streams: Vec::new(),
            heard: Heard::default(),
        };
        peer.address(&destination);
        peer
    }

    /// Calls itself so, and says these transport parameters.
    pub fn introduce(&mut self, source: &[u8], parameters: &[u8]) {
        self.source = source.to_vec();
        (self.tls, self.hello) = begin(parameters);
    }

    /// Calls the server so, from the first packet on.
    pub fn address(&mut self, destination: &[u8]) {
        self.destination = destination.to_vec();
        let suite = credentials::initial_suite();
        self.state(Space::Initial).keys = Some(suite.keys(destination, Side::Client, Version::V1));
    }

    fn state(&mut self, space: Space) -> &mut State {
        &mut self.states[space as usize]
    }

    /// Sends a datagram as it is.
    pub fn throw(&mut self, datagram: &[u8]) {
        self.socket.send_to(datagram, self.server).unwrap();
    }

    /// A packet with the next number.
    pub fn packet(&mut self, space: Space, payload: &[u8]) -> Packet {
        let state = self.state(space);
        let number = state.number_next;
        state.number_next += 1;
        Packet {
            first: Packet::first_byte(space),
            version: VERSION,
            destination: self.destination.clone(),
            source: self.source.clone(),
            token: self.token.clone(),
            number,
            payload: payload.to_vec(),
            length: None,
        }
    }

    /// What the packet is on the wire.
    pub fn seal(&self, space: Space, packet: &Packet) -> Vec<u8> {
        let DirectionalKeys { packet: key, header } = &self.states[space as usize].keys().local;
        packet.seal(key.as_ref(), header.as_ref())
    }

    /// Sends packets in one datagram, filled up with zeros if the first one is an
    /// Initial packet.
    pub fn send_packets(&mut self, packets: &[(Space, Packet)]) {
        let sealed = packets.iter().map(|(space, packet)| self.seal(*space, packet));
        let mut datagram: Vec<u8> = sealed.collect::<Vec<_>>().concat();
        if packets[0].0 == Space::Initial && datagram.len() < INITIAL_BYTES {
            datagram.resize(INITIAL_BYTES, 0);
        }
        self.throw(&datagram);
    }

    /// Sends a packet, changed.
    pub fn send_changed(&mut self, space: Space, payload: &[u8], change: impl FnOnce(&mut Packet)) {
        let mut packet = self.packet(space, payload);
        change(&mut packet);
        self.send_packets(&[(space, packet)]);
    }

    /// Sends a packet with these frames.
    pub fn send(&mut self, space: Space, frames: &[u8]) {
        self.send_changed(space, frames, |_| ());
    }

    /// Sends many packets, not all at once.
    pub fn send_many(&mut self, payloads: impl IntoIterator<Item = Vec<u8>>) {
        for (n, payload) in (1..).zip(payloads) {
            self.send(Space::Data, &payload);
            if n % BURST == 0 {
                self.round_trip();
            }
            if self.heard.close.is_some() {
                return;
            }
        }
    }

    /// Sends data of a stream where it has got to.
    pub fn write(&mut self, id: u64, bytes: &[u8], last: bool) {
        let place = self.sent_streams.iter().position(|sent| sent.0 == id);
        let place = place.unwrap_or_else(|| {
            self.sent_streams.push((id, 0));
            self.sent_streams.len() - 1
        });
        let offset = self.sent_streams[place].1;
        self.sent_streams[place].1 += bytes.len() as u64;
        let mut pieces: Vec<&[u8]> = bytes.chunks(PAYLOAD_BYTES).collect();
        if pieces.is_empty() {
            pieces.push(&[]);
        }
        let count = pieces.len();
        let frames = pieces.into_iter().enumerate().map(|(n, piece)| {
            let at = offset + (n * PAYLOAD_BYTES) as u64;
            stream(id, at, piece, last && n + 1 == count)
        });
        self.send_many(frames.collect::<Vec<_>>());
    }

    /// Sends bytes of the TLS handshake where it has got to.
    pub fn say(&mut self, space: Space, bytes: &[u8]) {
        for piece in bytes.chunks(PAYLOAD_BYTES) {
            let state = self.state(space);
            let offset = state.crypto_sent;
            state.crypto_sent += piece.len() as u64;
            self.send(space, &crypto(offset, piece));
        }
    }

    /// Begins the handshake.
    pub fn greet(&mut self) {
        self.has_greeted = true;
        let hello = self.hello.clone();
        self.say(Space::Initial, &hello);
    }

    /// Begins the handshake and waits for the server's side of it. The Finished message
    /// is not sent.
    pub fn meet(&mut self) {
        self.greet();
        // Upon the first Handshake packet the server forgets the keys of Initial packets.
        self.acknowledges = false;
        self.wait("the server's handshake", |peer| !peer.finished.is_empty());
    }

    /// Completes the handshake from wherever it has got to.
    pub fn complete(&mut self) {
        if !self.has_greeted {
            self.greet();
        }
        self.wait("the server's handshake", |peer| !peer.finished.is_empty());
        self.acknowledges = true;
        self.finish();
        self.wait("the end of the handshake", |peer| peer.heard.handshake_done);
    }

    /// Sends the Finished message.
    pub fn finish(&mut self) {
        let finished = self.finished.clone();
        self.say(Space::Handshake, &finished);
    }

    /// Whether 1-RTT packets can be sent.
    pub fn is_complete(&self) -> bool {
        self.heard.handshake_done
    }

    /// Waits until the server has acknowledged what came so far, or has closed.
    pub fn round_trip(&mut self) {
        let number = self.state(Space::Data).number_next;
        self.send(Space::Data, &[PING]);
        self.wait("an acknowledgement", |peer| {
            let acknowledged = peer.states[Space::Data as usize].acknowledged;
            acknowledged >= Some(number) || peer.heard.close.is_some()
        });
    }

    /// Sends until something comes.
    ///
    /// # Panics
    ///
    /// Nothing does.
    pub fn knock(&mut self) {
        let datagrams = self.heard.datagrams;
        for _ in 0..NAPS_MAX {
            self.send(Space::Data, &[PING]);
            self.receive();
            if self.heard.datagrams > datagrams {
                return;
            }
        }
        panic!("the server does not answer");
    }

    /// Leaves a packet number out.
    pub fn skip_number(&mut self, space: Space) {
        self.state(space).number_next += 1;
    }

    /// The number of the last packet sent.
    pub fn last_number(&self, space: Space) -> Option<u64> {
        self.states[space as usize].number_next.checked_sub(1)
    }

    /// Uses other keys from the next packet on, `generation` updates after the first
    /// (RFC 9001, 6). Returns the packet on the wire.
    pub fn seal_updated(&mut self, generation: usize, payload: &[u8]) -> Vec<u8> {
        let mut packet = self.packet(Space::Data, payload);
        if generation % 2 == 1 {
            packet.first |= 0x04;
        }
        let header = &self.states[Space::Data as usize].keys().local.header;
        packet.seal(self.updated[generation - 1].local.as_ref(), header.as_ref())
    }

    /// Ends the connection, so that the server has done with it.
    pub fn leave(&mut self) {
        let space = match self.is_complete() {
            true => Space::Data,
            false => Space::Handshake,
        };
        if self.heard.close.is_none() && self.states[space as usize].keys.is_some() {
            self.send(space, &numbers(&[CONNECTION_CLOSE, 0, 0, 0]));
        }
    }

    /// Moves to another port.
    pub fn move_away(&mut self) {
        self.socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        self.socket.set_read_timeout(Some(NAP)).unwrap();
    }

    /// Waits until something is the case.
    ///
    /// # Panics
    ///
    /// It never is.
    pub fn wait(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        assert!(self.await_that(done), "the server does not answer with {what}: {:?}", self.heard);
    }

    /// Waits until something is the case, or the server closes and it never will be.
    pub fn await_that(&mut self, done: impl Fn(&Self) -> bool) -> bool {
        self.await_for(NAPS_MAX, done)
    }

    /// The same, for about as long as a client waits before it sends something again.
    pub fn await_briefly(&mut self, done: impl Fn(&Self) -> bool) -> bool {
        self.await_for(NAPS_BRIEF, done)
    }

    fn await_for(&mut self, naps_max: usize, done: impl Fn(&Self) -> bool) -> bool {
        let mut naps = 0;
        loop {
            if done(self) {
                return true;
            }
            if self.heard.close.is_some() || naps == naps_max {
                return false;
            }
            naps += usize::from(!self.receive());
        }
    }

    /// Takes in a datagram. Returns whether one came within a nap.
    pub fn receive(&mut self) -> bool {
        let mut datagram = [0; 65_535];
        let Ok((length, _)) = self.socket.recv_from(&mut datagram) else { return false };
        self.heard.datagrams += 1;
        self.heard.bytes += length;
        self.on_datagram(&datagram[..length]);
        if self.acknowledges {
            self.acknowledge();
        }
        self.answer_challenges();
        true
    }

    fn on_datagram(&mut self, mut rest: &[u8]) {
        self.heard.last = rest.to_vec();
        while let Some(first) = rest.first() {
            let length = match first & 0x80 {
                0 => {
                    let number_at = 1 + self.source.len();
                    self.on_packet(Space::Data, rest, number_at);
                    rest.len()
                }
                _ => self.on_long_header(rest),
            };
            rest = &rest[length..];
        }
    }

    /// Takes in a packet with a long header. Returns its length.
    fn on_long_header(&mut self, bytes: &[u8]) -> usize {
        let mut reader = Reader(&bytes[1..]);
        let version = u32::from_be_bytes(reader.take(4).try_into().unwrap());
        let ids = [0; 2].map(|_| {
            let length = usize::from(reader.byte());
            reader.take(length).to_vec()
        });
        let kind = bytes[0] & 0x30;
        if version == 0 {
            self.heard.negotiated = Some(ids);
            return bytes.len();
        }
        if kind == 0x30 {
            let token = reader.0.split_last_chunk::<16>().unwrap().0;
            self.heard.retry = Some((ids[1].clone(), token.to_vec()));
            return bytes.len();
        }
        if kind == 0 {
            reader.counted();
        }
        let length = reader.varint() as usize;
        let number_at = bytes.len() - reader.0.len();
        let end = number_at + length;
        let space = if kind == 0 { Space::Initial } else { Space::Handshake };
        if self.on_packet(space, &bytes[..end], number_at) && kind == 0 {
            // RFC 9000, 7.2: the server's choice.
            self.destination = ids[1].clone();
        }
        end
    }

    fn on_packet(&mut self, space: Space, packet: &[u8], number_at: usize) -> bool {
        let state = &self.states[space as usize];
        let Some(keys) = &state.keys else { return false };
        let updated = self.updated.iter().filter(|_| space == Space::Data);
        let packet_keys: Vec<&dyn PacketKey> = std::iter::once(keys.remote.packet.as_ref())
            .chain(updated.map(|set| set.remote.as_ref()))
            .collect();
        let largest = state.received.last().copied();
        let header_key = keys.remote.header.as_ref();
        let opened = packet::open(packet, number_at, &packet_keys, header_key, largest);
        let Some(opened) = opened else { return false };

        let state = self.state(space);
        if state.received.insert(opened.number) {
            let news = self.heard.on_payload(&opened.payload);
            let is_lacking = self.lacks_start_of.is_some_and(|id| news.begun.contains(&id));
            let state = self.state(space);
            if is_lacking {
                state.received.remove(&opened.number);
            }
            state.due |= news.elicits;
            state.acknowledged = state.acknowledged.max(news.acknowledged);
            for (offset, bytes) in news.crypto {
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

    /// RFC 9000, 8.2.2.
    fn answer_challenges(&mut self) {
        while let Some(challenge) = self.heard.challenges.pop() {
            let mut frames = with_bytes(&[PATH_RESPONSE], &challenge);
            frames.resize(PAYLOAD_BYTES, 0);
            self.send(Space::Data, &frames);
        }
    }

    fn acknowledge(&mut self) {
        for space in SPACES {
            let state = self.state(space);
            if !std::mem::take(&mut state.due) {
                continue;
            }
            let frame = acknowledgement(&state.received);
            // Once the handshake is over the server has no keys for the others.
            if space == Space::Data || !self.is_complete() {
                self.send(space, &frame);
            }
        }
    }
}

/// A handshake, and its first message.
fn begin(parameters: &[u8]) -> (ClientConnection, Vec<u8>) {
    let mut tls = credentials::start(parameters.to_vec());
    let mut hello = Vec::new();
    assert!(tls.write_hs(&mut hello).is_none());
    (tls, hello)
}

/// An ACK frame for these numbers, the latest ranges of them (RFC 9000, 19.3).
fn acknowledgement(received: &BTreeSet<u64>) -> Vec<u8> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in received.iter().rev() {
        match ranges.last_mut() {
            Some((least, _)) if *least == number + 1 => *least = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    ranges.truncate(RANGES_MAX);
    let (least, largest) = ranges[0];
    let mut frame = numbers(&[0x02, largest, 0, ranges.len() as u64 - 1, largest - least]);
    for pair in ranges.windows(2) {
        let ((before, _), (least, largest)) = (pair[0], pair[1]);
        frame.extend(numbers(&[before - largest - 2, largest - least]));
    }
    frame
}

/// Transport parameters that a server takes, and others after them (RFC 9000, 18).
pub fn parameters(source: &[u8], more: &[u8]) -> Vec<u8> {
    parameters_for(source, WINDOW_BYTES, more)
}

/// The same, of which a response, and all of them, may be so long before the client takes any
/// of it, in bytes.
pub fn parameters_for(source: &[u8], response_bytes: u64, more: &[u8]) -> Vec<u8> {
    let number = |id: u64, value: u64| with_bytes(&[id], &counted(&varint(value)));
    [
        with_bytes(&[0x0f], &counted(source)),
        number(0x04, response_bytes.max(WINDOW_BYTES)),
        number(0x05, response_bytes),
        number(0x07, WINDOW_BYTES),
        number(0x09, 3),
        number(0x01, 20_000),
        more.to_vec(),
    ]
    .concat()
}

/// Bytes after their number.
pub fn counted(bytes: &[u8]) -> Vec<u8> {
    with_bytes(&[bytes.len() as u64], bytes)
}
