//! Client of a flow: one request, one response, then the end. As edge-client does,
//! it acknowledges at once whatever arrives together.

use std::net::SocketAddr;
use std::time::Duration;

use quiche::h3;
use quiche::h3::NameValue;
use quiche::RecvInfo;

use super::clock::Clock;
use super::error::Failure;
use super::events::Event;
use super::events::Timer;
use super::packets::Slot;
use super::wire::Wire;

/// The largest packet that it sends, in bytes; they carry ACKs.
const PACKET_BYTES_MAX: usize = 1200;

/// What is read of the body at a time, in bytes.
const CHUNK_BYTES: usize = 256 << 10;

/// A download under way.
pub struct Client {
    quic: quiche::Connection,
    http: Option<h3::Connection>,
    stream: Option<u64>,
    info: RecvInfo,
    timer: Timer,
    expected_bytes: u64,
    received_bytes: u64,
    /// When the first byte of the body came, and the last one.
    pub first_byte: Option<Duration>,
    pub complete: Option<Duration>,
}

/// Where a client is, and what it works with.
pub struct ClientTurn<'a> {
    pub now: Duration,
    pub flow: usize,
    pub clock: &'a Clock,
    pub wire: &'a mut Wire,
    pub http: &'a h3::Config,
    pub scratch: &'a mut Scratch,
}

/// Memory for what is read of bodies.
pub struct Scratch(Box<[u8]>);

impl Default for Scratch {
    fn default() -> Self {
        Self(vec![0; CHUNK_BYTES].into_boxed_slice())
    }
}

impl Client {
    /// A client that is about to ask for `expected_bytes`.
    pub fn new(
        quic: quiche::Connection,
        local: SocketAddr,
        peer: SocketAddr,
        expected_bytes: u64,
    ) -> Self {
        Self {
            quic,
            http: None,
            stream: None,
            info: RecvInfo { from: peer, to: local },
            timer: Timer::default(),
            expected_bytes,
            received_bytes: 0,
            first_byte: None,
            complete: None,
        }
    }

    /// A packet has come.
    pub fn on_packet(&mut self, slot: Slot, wire: &mut Wire) {
        // What cannot be read any more is dropped, as any host does.
        let _ = self.quic.recv(wire.packets.bytes(slot), self.info);
        wire.packets.give_back(slot);
    }

    /// A timer has fired. False if there is nothing to do after all.
    pub fn on_timer(&mut self, turn: &mut ClientTurn<'_>) -> bool {
        if !self.timer.fired(turn.now) {
            return false;
        }
        let due = self.deadline(turn.clock).is_some_and(|at| at <= turn.now);
        if due {
            self.quic.on_timeout();
        } else {
            self.set_timer(turn);
        }
        due
    }

    /// Takes in what has arrived and sends what there is to send.
    ///
    /// # Errors
    ///
    /// The connection or the response ended before its time.
    pub fn progress(&mut self, turn: &mut ClientTurn<'_>) -> Result<(), Failure> {
        if self.complete.is_none() {
            self.advance(turn).map_err(|e| self.broken(&format!("HTTP/3 failed: {e}")))?;
        }
        self.flush(turn)?;
        if self.complete.is_some() && self.quic.local_error().is_none() {
            let _ = self.quic.close(true, h3::WireErrorCode::NoError as u64, b"");
            self.flush(turn)?;
        }
        if self.complete.is_none() && (self.quic.is_closed() || self.quic.is_draining()) {
            return Err(self.broken("the connection ended"));
        }
        self.set_timer(turn);
        Ok(())
    }

    fn advance(&mut self, turn: &mut ClientTurn<'_>) -> Result<(), h3::Error> {
        if self.http.is_none() && self.quic.is_established() {
            self.http = Some(h3::Connection::with_transport(&mut self.quic, turn.http)?);
        }
        let Some(http) = &mut self.http else {
            return Ok(());
        };
        if self.stream.is_none() {
            match http.send_request(&mut self.quic, &request(), true) {
                Ok(stream) => self.stream = Some(stream),
                Err(h3::Error::StreamBlocked) => (),
                Err(e) => return Err(e),
            }
        }
        loop {
            match http.poll(&mut self.quic) {
                Ok((stream, h3::Event::Data)) => {
                    while let Ok(count) =
                        http.recv_body(&mut self.quic, stream, &mut turn.scratch.0)
                    {
                        self.first_byte.get_or_insert(turn.now);
                        self.received_bytes += count as u64;
                    }
                }
                Ok((_, h3::Event::Headers { list, .. })) => {
                    let right = list.iter().any(|h| h.name() == b":status" && h.value() == b"200");
                    debug_assert!(right, "{list:?}");
                }
                Ok((_, h3::Event::Finished)) if self.received_bytes == self.expected_bytes => {
                    self.complete = Some(turn.now);
                }
                Ok((_, h3::Event::Finished | h3::Event::Reset(_))) => {
                    return Err(h3::Error::RequestIncomplete);
                }
                Ok((_, h3::Event::PriorityUpdate | h3::Event::GoAway)) => (),
                Err(h3::Error::Done) => return Ok(()),
                Err(e) => return Err(e),
            }
        }
    }

    fn flush(&mut self, turn: &mut ClientTurn<'_>) -> Result<(), Failure> {
        loop {
            let slot = turn.wire.packets.take();
            let room = &mut turn.wire.packets.room(slot)[..PACKET_BYTES_MAX];
            match self.quic.send(room) {
                Ok((bytes, _)) => turn.wire.send_up(turn.now, turn.flow, slot, bytes),
                Err(e) => {
                    turn.wire.packets.give_back(slot);
                    return match e {
                        quiche::Error::Done => Ok(()),
                        e => Err(self.broken(&format!("QUIC failed: {e}"))),
                    };
                }
            }
        }
    }

    fn deadline(&self, clock: &Clock) -> Option<Duration> {
        self.quic.timeout_instant().map(|at| clock.since_start(at))
    }

    fn set_timer(&mut self, turn: &mut ClientTurn<'_>) {
        // Nobody waits for what a client does that has all it came for.
        let deadline = self.deadline(turn.clock).filter(|_| self.complete.is_none());
        let event = Event::ClientTimer(turn.flow as u32);
        self.timer.set(turn.now, deadline, event, &mut turn.wire.queue);
    }

    /// How far the download has come, in words.
    pub fn extent(&self) -> String {
        format!("{} of {} bytes have arrived", self.received_bytes, self.expected_bytes)
    }

    fn broken(&self, why: &str) -> Failure {
        let errors = (self.quic.local_error(), self.quic.peer_error());
        let timed_out = if self.quic.is_timed_out() { ", timed out" } else { "" };
        Failure::Stall(format!("{why}{timed_out}, {}; errors: {errors:?}", self.extent()))
    }
}

fn request() -> [h3::Header; 6] {
    let header = |name: &str, value: &str| h3::Header::new(name.as_bytes(), value.as_bytes());
    [
        header(":method", "GET"),
        header(":scheme", "https"),
        header(":authority", "localhost"),
        header(":path", "/object"),
        header("user-agent", "sim"),
        header("accept", "*/*"),
    ]
}
