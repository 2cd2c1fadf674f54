//! Client of a flow: it requests an object, then the others of the page if there are any. Like
//! edge-client, it acknowledges at once all packets that arrive together.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use quiche::h3;
use quiche::h3::NameValue;
use quiche::RecvInfo;

use super::clock::Clock;
use super::codepoint;
use super::error::Failure;
use super::events::Event;
use super::events::Timer;
use super::packets::Slot;
use super::wire::Wire;

quiche::stand_ins!();

/// The largest packet that it sends, in bytes; they carry ACKs.
const PACKET_BYTES_MAX: usize = 1200;

/// Most bytes of the body to read at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// A download under way.
pub struct Client {
    quic: quiche::Connection,
    http: Option<h3::Connection>,
    info: RecvInfo,
    timer: Timer,
    /// Bytes of all objects that it requests, in order, and how many are requested and complete.
    objects: Vec<u64>,
    requested: usize,
    finished: usize,
    /// Bytes to come, by stream.
    under_way: BTreeMap<u64, u64>,
    received_bytes: u64,
    /// Times at which the first and the last byte of the body arrived.
    pub first_byte: Option<Duration>,
    pub complete: Option<Duration>,
}

/// Time, flow and shared state of a client's turn.
pub struct ClientContext<'a> {
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
    /// Creates a client that will request objects of so many bytes, the first one alone.
    pub fn new(
        quic: quiche::Connection,
        local: SocketAddr,
        peer: SocketAddr,
        objects: Vec<u64>,
    ) -> Self {
        Self {
            quic,
            http: None,
            info: RecvInfo { from: peer, to: local },
            timer: Timer::default(),
            objects,
            requested: 0,
            finished: 0,
            under_way: BTreeMap::new(),
            received_bytes: 0,
            first_byte: None,
            complete: None,
        }
    }

    /// Handles a packet.
    pub fn on_packet(&mut self, slot: Slot, wire: &mut Wire) {
        // What cannot be read any more is dropped, as any host does.
        let ecn = codepoint::in_transport(wire.packets.ecn(slot));
        let _ = self.quic.recv_ecn(wire.packets.bytes(slot), self.info, ecn);
        wire.packets.free(slot);
    }

    /// Handles a timer. Returns false if there is nothing to do.
    pub fn on_timer(&mut self, context: &mut ClientContext<'_>) -> bool {
        if !self.timer.fired(context.now) {
            return false;
        }
        let due = self.deadline(context.clock).is_some_and(|at| at <= context.now);
        if due {
            self.quic.on_timeout();
        } else {
            self.set_timer(context);
        }
        due
    }

    /// Takes in what has arrived and sends what there is to send.
    ///
    /// # Errors
    ///
    /// The connection or the response ended before its time.
    pub fn drive(&mut self, context: &mut ClientContext<'_>) -> Result<(), Failure> {
        if self.complete.is_none() {
            self.advance(context).map_err(|e| self.failure(&format!("HTTP/3 failed: {e}")))?;
        }
        self.flush(context)?;
        if self.complete.is_some() && self.quic.local_error().is_none() {
            let _ = self.quic.close(true, h3::WireErrorCode::NoError as u64, b"");
            self.flush(context)?;
        }
        if self.complete.is_none() && (self.quic.is_closed() || self.quic.is_draining()) {
            return Err(self.failure("the connection ended"));
        }
        self.set_timer(context);
        Ok(())
    }

    fn advance(&mut self, context: &mut ClientContext<'_>) -> Result<(), h3::Error> {
        if self.http.is_none() && self.quic.is_established() {
            self.http = Some(h3::Connection::with_transport(&mut self.quic, context.http)?);
        }
        self.request()?;
        self.receive(context)?;
        self.request()
    }

    /// Requests what is to be requested, as far as the server lets it.
    fn request(&mut self) -> Result<(), h3::Error> {
        let Some(http) = &mut self.http else { return Ok(()) };
        let known = if self.finished == 0 { 1 } else { self.objects.len() };
        while self.requested < known {
            match http.send_request(&mut self.quic, &request(), true) {
                Ok(stream) => {
                    self.under_way.insert(stream, self.objects[self.requested]);
                    self.requested += 1;
                }
                Err(
                    h3::Error::StreamBlocked
                    | h3::Error::TransportError(quiche::Error::StreamLimit),
                ) => break,
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn receive(&mut self, context: &mut ClientContext<'_>) -> Result<(), h3::Error> {
        let Some(http) = &mut self.http else { return Ok(()) };
        loop {
            match http.poll(&mut self.quic) {
                Ok((stream, h3::Event::Data)) => {
                    let left = self.under_way.get_mut(&stream).ok_or(h3::Error::IdError)?;
                    while let Ok(count) =
                        http.recv_body(&mut self.quic, stream, &mut context.scratch.0)
                    {
                        self.first_byte.get_or_insert(context.now);
                        self.received_bytes += count as u64;
                        let over = h3::Error::RequestIncomplete;
                        *left = left.checked_sub(count as u64).ok_or(over)?;
                    }
                }
                Ok((_, h3::Event::Headers { list, .. })) => {
                    let right = list.iter().any(|h| h.name() == b":status" && h.value() == b"200");
                    debug_assert!(right, "{list:?}");
                }
                Ok((stream, h3::Event::Finished)) if self.under_way.get(&stream) == Some(&0) => {
                    self.under_way.remove(&stream);
                    self.finished += 1;
                    if self.finished == self.objects.len() {
                        self.complete = Some(context.now);
                    }
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

    fn flush(&mut self, context: &mut ClientContext<'_>) -> Result<(), Failure> {
        loop {
            let slot = context.wire.packets.allocate();
            let room = &mut context.wire.packets.buffer_mut(slot)[..PACKET_BYTES_MAX];
            match self.quic.send(room) {
                Ok((bytes, _)) => {
                    let ecn = codepoint::on_links(self.quic.sent_ecn());
                    context.wire.packets.set_ecn(slot, ecn);
                    context.wire.send_up(context.now, context.flow, slot, bytes);
                }
                Err(e) => {
                    context.wire.packets.free(slot);
                    return match e {
                        quiche::Error::Done => Ok(()),
                        e => Err(self.failure(&format!("QUIC failed: {e}"))),
                    };
                }
            }
        }
    }

    fn deadline(&self, clock: &Clock) -> Option<Duration> {
        self.quic.timeout_instant().map(|at| clock.since_start(at))
    }

    fn set_timer(&mut self, context: &mut ClientContext<'_>) {
        // A client that is complete needs no timer.
        let deadline = self.deadline(context.clock).filter(|_| self.complete.is_none());
        let event = Event::ClientTimer(context.flow as u32);
        self.timer.set(context.now, deadline, event, &mut context.wire.queue);
    }

    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Describes how much of the download has arrived.
    pub fn extent(&self) -> String {
        let all: u64 = self.objects.iter().sum();
        format!("{} of {all} bytes have arrived", self.received_bytes)
    }

    fn failure(&self, why: &str) -> Failure {
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
