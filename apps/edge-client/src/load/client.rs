//! Connection of a load, and the requests on it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use quiche::h3;
use ring::digest;
use udp_batch::Receiver;

use super::shared::Shared;
use crate::cli::Cli;
use crate::download::describe;
use crate::download::PACKET;
use crate::exchange::find;
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::socket::Socket;
use crate::transport;
use crate::transport::Transport;

quiche::stand_ins!();

/// The server did not process a request, so that the client may retry it (RFC 9114, 4.1.1).
const REQUEST_REJECTED: u64 = h3::WireErrorCode::RequestRejected as u64;

/// A connection, from its first packet to its last.
pub struct Client {
    quic: quiche::Connection,
    http: Option<h3::Connection>,
    socket: Socket,
    started_at: Instant,

    /// Requests that were not sent yet, or that the server did not process.
    unsent: u32,

    /// The server accepts no more requests on this connection (RFC 9114, 5.2).
    going_away: bool,

    /// First stream whose request the server did not process, by its GOAWAY.
    unprocessed_from: u64,
    in_flight: HashMap<u64, Response>,

    /// Its entry in the generator's deadlines.
    pub deadline: Option<Instant>,
}

/// The response to a request in flight.
struct Response {
    requested_at: Instant,
    status: Option<u16>,
    length: Option<u64>,
    bytes: u64,
    digest: Option<digest::Context>,
}

impl Client {
    /// Connects, for `requests` requests.
    pub fn connect(
        cli: &Cli,
        transport: &mut Transport,
        peer: SocketAddr,
        requests: u32,
        now: Instant,
    ) -> Result<Self, Failure> {
        let socket = Socket::connect(cli.local, peer)
            .map_err(|e| Failure::failed(format!("cannot send to {peer}: {e}")))?;
        let name = transport::server_name(&cli.target.host);
        let id = transport::connection_id();
        let mut quic = quiche::connect(name, &id, socket.local(), peer, &mut transport.config)
            .map_err(|e| Failure::failed(format!("cannot set up QUIC: {e}")))?;
        cli.ech.as_ref().map_or(Ok(()), |ech| ech.offer(&mut quic))?;
        Ok(Self {
            quic,
            http: None,
            socket,
            started_at: now,
            unsent: requests,
            going_away: false,
            unprocessed_from: u64::MAX,
            in_flight: HashMap::new(),
            deadline: None,
        })
    }

    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Receives one batch. Returns false if there was none.
    pub fn receive(&mut self, receiver: &mut Receiver) -> bool {
        let info = quiche::RecvInfo { from: self.socket.peer(), to: self.socket.local() };
        let quic = &mut self.quic;
        let received = self.socket.receive(receiver, |packet, ecn| {
            if let Err(e) = quic.recv_ecn(packet, info, ecn) {
                log::debug!("packet of {} bytes: {e}", packet.len());
            }
        });
        // An error is an ICMP message, which reading it clears. A time-out decides.
        received.unwrap_or(true)
    }

    pub fn on_timeout(&mut self, now: Instant) {
        if self.quic.timeout_instant().is_some_and(|at| at <= now) {
            self.quic.on_timeout();
        }
    }

    /// Returns when it is due even if nothing arrives.
    pub fn next_deadline(&self, connect_timeout: Duration) -> Option<Instant> {
        let handshake_end = self.started_at + connect_timeout;
        let handshake_end = (!self.quic.is_established()).then_some(handshake_end);
        self.quic.timeout_instant().into_iter().chain(handshake_end).min()
    }

    /// Sends requests and packets, and handles responses. Returns false when it has ended.
    pub fn process(&mut self, shared: &mut Shared<'_>, now: Instant) -> bool {
        self.start_http(shared, now);
        let end = self.exchange(shared, now).err().or_else(|| self.end_reason(shared.cli, now));
        if end.is_some() {
            self.unsent += reclaim_unprocessed(&mut self.in_flight, self.unprocessed_from);
        }
        let done = (self.unsent == 0 || self.going_away) && self.in_flight.is_empty();
        if let Some(reason) = end.as_ref().filter(|_| !done) {
            let unsent = if self.going_away { 0 } else { std::mem::take(&mut self.unsent) };
            shared.summary.count_failed(unsent + self.in_flight.len() as u32, reason);
        }
        if done || end.is_some() {
            let _ = self.quic.close(true, h3::WireErrorCode::NoError as u64, b"");
            shared.summary.count_ecn(&self.quic.ecn_stats());
        }
        self.flush();
        !done && end.is_none()
    }

    /// Returns how many requests are left for another connection when this one has ended.
    pub fn unsent(&self) -> u32 {
        self.unsent
    }

    fn start_http(&mut self, shared: &mut Shared<'_>, now: Instant) {
        if self.http.is_none() && self.quic.is_established() {
            self.http = h3::Connection::with_transport(&mut self.quic, &Exchange::config()).ok();
            shared.summary.count_connection(now.saturating_duration_since(self.started_at));
        }
    }

    fn exchange(&mut self, shared: &mut Shared<'_>, now: Instant) -> Result<(), String> {
        let Some(http) = &mut self.http else { return Ok(()) };
        loop {
            let (stream, event) = match http.poll(&mut self.quic) {
                Ok(polled) => polled,
                Err(h3::Error::Done) => break,
                Err(e) => return Err(format!("HTTP/3 failed: {e}")),
            };
            if event == h3::Event::GoAway {
                self.going_away = true;
                self.unprocessed_from = stream;
                continue;
            }
            let Some(response) = self.in_flight.get_mut(&stream) else { continue };
            match event {
                h3::Event::Headers { list, .. } => response.on_headers(&list),
                h3::Event::Data => {
                    while let Ok(count) = http.recv_body(&mut self.quic, stream, &mut shared.chunk)
                    {
                        response.take(&shared.chunk[..count]);
                    }
                }
                h3::Event::Finished => {
                    let took = now.saturating_duration_since(response.requested_at);
                    match self.in_flight.remove(&stream).map(|response| response.check(shared.cli))
                    {
                        Some(Ok(bytes)) => shared.summary.count_response(bytes, took),
                        Some(Err(reason)) => shared.summary.count_failed(1, &reason),
                        None => (),
                    }
                }
                h3::Event::Reset(REQUEST_REJECTED) => {
                    self.in_flight.remove(&stream);
                    self.unsent += 1;
                    self.going_away = true;
                }
                h3::Event::Reset(code) => {
                    self.in_flight.remove(&stream);
                    shared
                        .summary
                        .count_failed(1, &format!("the server gave up (HTTP/3 error {code:#x})"));
                }
                h3::Event::PriorityUpdate | h3::Event::GoAway => (),
            }
        }

        let streams = shared.cli.load.streams.get() as usize;
        while self.unsent > 0 && !self.going_away && self.in_flight.len() < streams {
            let stream = match http.send_request(&mut self.quic, shared.request(), true) {
                Ok(stream) => stream,
                // The server allows no more streams now.
                Err(h3::Error::StreamBlocked) => break,
                Err(h3::Error::TransportError(quiche::Error::StreamLimit)) => break,
                Err(e) => return Err(format!("HTTP/3 failed: {e}")),
            };
            shared.on_requested();
            self.unsent -= 1;
            self.in_flight.insert(stream, Response::new(shared.cli, now));
        }
        Ok(())
    }

    /// Returns why the connection has ended, if it has.
    fn end_reason(&self, cli: &Cli, now: Instant) -> Option<String> {
        let quic = &self.quic;
        let waited = now.saturating_duration_since(self.started_at);
        if let Some(error) = quic.local_error() {
            return Some(describe("the client", error));
        }
        if let Some(error) = quic.peer_error() {
            return Some(describe("the server", error));
        }
        let silent = quic.is_timed_out() || !quic.is_established() && waited >= cli.connect_timeout;
        if silent {
            return Some(format!("no response from {}", self.socket.peer()));
        }
        (quic.is_closed() || quic.is_draining())
            .then(|| "the server does not know the connection any more".to_owned())
    }

    fn flush(&mut self) {
        let mut packet = [0; PACKET];
        while let Ok((length, _)) = self.quic.send(&mut packet) {
            if let Err(e) = self.socket.send(&packet[..length], self.quic.sent_ecn()) {
                log::debug!("socket: {e}");
            }
        }
    }
}

/// Removes and counts the requests that the server did not process before the connection
/// ended: the client may retry them (RFC 9114, 5.2).
fn reclaim_unprocessed(in_flight: &mut HashMap<u64, Response>, unprocessed_from: u64) -> u32 {
    let before = in_flight.len();
    in_flight.retain(|stream, _| *stream < unprocessed_from);
    (before - in_flight.len()) as u32
}

impl Response {
    fn new(cli: &Cli, now: Instant) -> Self {
        let digest = cli.load.sha256.map(|_| digest::Context::new(&digest::SHA256));
        Self { requested_at: now, status: None, length: None, bytes: 0, digest }
    }

    fn on_headers(&mut self, list: &[h3::Header]) {
        // These are trailers: only interim responses come before the final status.
        if self.status.is_some_and(|status| status >= 200) {
            return;
        }
        self.status = find(list, b":status").and_then(|value| value.parse().ok());
        self.length = find(list, b"content-length").and_then(|value| value.parse().ok());
    }

    fn take(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if let Some(digest) = &mut self.digest {
            digest.update(bytes);
        }
    }

    /// Returns the bytes of a valid response, or what is wrong with it.
    fn check(self, cli: &Cli) -> Result<u64, String> {
        match self.status {
            Some(200..=299) => (),
            Some(status) => return Err(format!("the server answered {status}")),
            None => return Err("the response has no status".to_owned()),
        }
        if self.length.is_some_and(|length| length != self.bytes) {
            return Err(format!("a body ended after {} bytes", self.bytes));
        }
        match (cli.load.sha256, self.digest.map(digest::Context::finish)) {
            (Some(expected), Some(found)) if !expected.matches(&found) => {
                Err("a body has another SHA-256 than it should have".to_owned())
            }
            _ => Ok(self.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goaway_reclaims_unprocessed_requests() {
        for (unprocessed_from, reclaimed) in [(u64::MAX, 0), (8, 1), (4, 2), (0, 3)] {
            let response = || Response {
                requested_at: quiche::clock::now(),
                status: None,
                length: None,
                bytes: 0,
                digest: None,
            };
            let mut in_flight: HashMap<_, _> = [0, 4, 8].map(|stream| (stream, response())).into();
            assert_eq!(
                reclaim_unprocessed(&mut in_flight, unprocessed_from),
                reclaimed,
                "{unprocessed_from}"
            );
            assert_eq!(in_flight.len(), 3 - reclaimed as usize);
            assert!(in_flight.keys().all(|stream| *stream < unprocessed_from));
        }
    }
}
