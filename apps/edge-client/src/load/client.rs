//! One connection of a load, and the requests on it.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use quiche::h3;
use quiche::ConnectionId;
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
use crate::system;
use crate::transport;
use crate::transport::Transport;

/// The server has done nothing for a request, which may be made again (RFC 9114, 4.1.1).
const REQUEST_REJECTED: u64 = h3::WireErrorCode::RequestRejected as u64;

/// A connection, from its first packet to its last.
pub struct Client {
    quic: quiche::Connection,
    http: Option<h3::Connection>,
    socket: Socket,
    started_at: Instant,

    /// Requests that it has not sent yet, or that the server would not begin with.
    unsent: u32,

    /// The server wants no more requests here (RFC 9114, 5.2).
    sent_away: bool,

    /// It has done nothing for requests on this stream and later ones.
    refused_from: u64,
    under_way: HashMap<u64, Fetch>,

    /// When it is on the list to be served.
    pub deadline: Option<Instant>,
}

/// One response under way.
struct Fetch {
    asked_at: Instant,
    status: Option<u16>,
    length: Option<u64>,
    bytes: u64,
    digest: Option<digest::Context>,
}

impl Client {
    /// A connection that will carry so many requests.
    pub fn connect(
        cli: &Cli,
        transport: &mut Transport,
        peer: SocketAddr,
        requests: u32,
        now: Instant,
    ) -> Result<Self, Failure> {
        let socket = Socket::connect(cli.local, peer)
            .map_err(|e| Failure::failed(format!("cannot send to {peer}: {e}")))?;
        let id = system::random_connection_id();
        let name = transport::server_name(&cli.target.host);
        let id = ConnectionId::from_ref(&id);
        let quic = quiche::connect(name, &id, socket.local(), peer, &mut transport.config)
            .map_err(|e| Failure::failed(format!("cannot set QUIC up: {e}")))?;
        Ok(Self {
            quic,
            http: None,
            socket,
            started_at: now,
            unsent: requests,
            sent_away: false,
            refused_from: u64::MAX,
            under_way: HashMap::new(),
            deadline: None,
        })
    }

    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Takes one batch in. False when none was waiting.
    pub fn receive(&mut self, receiver: &mut Receiver) -> bool {
        let info = quiche::RecvInfo { from: self.socket.peer(), to: self.socket.local() };
        let quic = &mut self.quic;
        let received = self.socket.receive(receiver, |packet| {
            if let Err(e) = quic.recv(packet, info) {
                log::debug!("packet of {} bytes: {e}", packet.len());
            }
        });
        // An error is an ICMP message, taken off by being told: time tells.
        received.unwrap_or(true)
    }

    pub fn on_timeout(&mut self, now: Instant) {
        if self.quic.timeout_instant().is_some_and(|at| at <= now) {
            self.quic.on_timeout();
        }
    }

    /// When it must be served although nothing comes.
    pub fn next_deadline(&self, connect_timeout: Duration) -> Option<Instant> {
        let handshake_end = self.started_at + connect_timeout;
        let handshake_end = (!self.quic.is_established()).then_some(handshake_end);
        self.quic.timeout_instant().into_iter().chain(handshake_end).min()
    }

    /// Asks, takes answers in and sends what is to be sent. False when it is over.
    pub fn advance(&mut self, shared: &mut Shared<'_>, now: Instant) -> bool {
        self.begin(shared, now);
        let end = self.exchange(shared, now).err().or_else(|| self.end(shared.cli, now));
        if end.is_some() {
            self.unsent += take_back(&mut self.under_way, self.refused_from);
        }
        let done = (self.unsent == 0 || self.sent_away) && self.under_way.is_empty();
        if let Some(reason) = end.as_ref().filter(|_| !done) {
            let unsent = if self.sent_away { 0 } else { std::mem::take(&mut self.unsent) };
            shared.summary.count_failed(unsent + self.under_way.len() as u32, reason);
        }
        if done || end.is_some() {
            let _ = self.quic.close(true, h3::WireErrorCode::NoError as u64, b"");
        }
        self.flush();
        !done && end.is_none()
    }

    /// Requests that are left for another connection, when this one is over.
    pub fn unsent(&self) -> u32 {
        self.unsent
    }

    fn begin(&mut self, shared: &mut Shared<'_>, now: Instant) {
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
                self.sent_away = true;
                self.refused_from = stream;
                continue;
            }
            let Some(fetch) = self.under_way.get_mut(&stream) else { continue };
            match event {
                h3::Event::Headers { list, .. } => fetch.on_headers(&list),
                h3::Event::Data => {
                    while let Ok(count) = http.recv_body(&mut self.quic, stream, &mut shared.chunk)
                    {
                        fetch.take(&shared.chunk[..count]);
                    }
                }
                h3::Event::Finished => {
                    let took = now.saturating_duration_since(fetch.asked_at);
                    match self.under_way.remove(&stream).map(|fetch| fetch.judge(shared.cli)) {
                        Some(Ok(bytes)) => shared.summary.count_answer(bytes, took),
                        Some(Err(reason)) => shared.summary.count_failed(1, &reason),
                        None => (),
                    }
                }
                h3::Event::Reset(REQUEST_REJECTED) => {
                    self.under_way.remove(&stream);
                    self.unsent += 1;
                    self.sent_away = true;
                }
                h3::Event::Reset(code) => {
                    self.under_way.remove(&stream);
                    shared
                        .summary
                        .count_failed(1, &format!("the server gave up (HTTP/3 error {code:#x})"));
                }
                h3::Event::PriorityUpdate | h3::Event::GoAway => (),
            }
        }

        let streams = shared.cli.load.streams.get() as usize;
        while self.unsent > 0 && !self.sent_away && self.under_way.len() < streams {
            let stream = match http.send_request(&mut self.quic, &shared.request, true) {
                Ok(stream) => stream,
                // The server allows no more for now.
                Err(h3::Error::StreamBlocked) => break,
                Err(h3::Error::TransportError(quiche::Error::StreamLimit)) => break,
                Err(e) => return Err(format!("HTTP/3 failed: {e}")),
            };
            self.unsent -= 1;
            self.under_way.insert(stream, Fetch::new(shared.cli, now));
        }
        Ok(())
    }

    /// Why the connection has ended, if it has.
    fn end(&self, cli: &Cli, now: Instant) -> Option<String> {
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
            return Some(format!("no answer from {}", self.socket.peer()));
        }
        (quic.is_closed() || quic.is_draining())
            .then(|| "the server does not know the connection any more".to_owned())
    }

    fn flush(&mut self) {
        let mut packet = [0; PACKET];
        while let Ok((length, _)) = self.quic.send(&mut packet) {
            if let Err(e) = self.socket.send(&packet[..length]) {
                log::debug!("socket: {e}");
            }
        }
    }
}

/// Takes requests back that the server had not begun with when the connection ended, and
/// counts them: they can be asked again (RFC 9114, 5.2).
fn take_back(under_way: &mut HashMap<u64, Fetch>, refused_from: u64) -> u32 {
    let asked = under_way.len();
    under_way.retain(|stream, _| *stream < refused_from);
    (asked - under_way.len()) as u32
}

impl Fetch {
    fn new(cli: &Cli, now: Instant) -> Self {
        let digest = cli.load.sha256.map(|_| digest::Context::new(&digest::SHA256));
        Self { asked_at: now, status: None, length: None, bytes: 0, digest }
    }

    fn on_headers(&mut self, list: &[h3::Header]) {
        // Interim responses come before it, trailers after it.
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

    /// The bytes of a good answer, or what is wrong with it.
    fn judge(self, cli: &Cli) -> Result<u64, String> {
        match self.status {
            Some(200..=299) => (),
            Some(status) => return Err(format!("the server answered {status}")),
            None => return Err("the response has no status".to_owned()),
        }
        if self.length.is_some_and(|length| length != self.bytes) {
            return Err(format!("a body ended after {} bytes", self.bytes));
        }
        match (cli.load.sha256, self.digest.map(digest::Context::finish)) {
            (Some(expected), Some(found)) if !expected.is(&found) => {
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
    fn what_the_server_had_not_begun_with_is_taken_back() {
        for (refused_from, taken_back) in [(u64::MAX, 0), (8, 1), (4, 2), (0, 3)] {
            let fetch = || Fetch {
                asked_at: quiche::clock::now(),
                status: None,
                length: None,
                bytes: 0,
                digest: None,
            };
            let mut under_way: HashMap<_, _> = [0, 4, 8].map(|stream| (stream, fetch())).into();
            assert_eq!(take_back(&mut under_way, refused_from), taken_back, "{refused_from}");
            assert_eq!(under_way.len(), 3 - taken_back as usize);
            assert!(under_way.keys().all(|stream| *stream < refused_from));
        }
    }
}
