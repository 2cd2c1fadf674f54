//! Downloads, one after another: the event loop between socket and transport.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::Instant;

use quiche::h3;
use quiche::ActivePath;
use udp_batch::Receiver;

use crate::body::Body;
use crate::cli::Cli;
use crate::ech;
use crate::exchange::Exchange;
use crate::failure::Failure;
use crate::poller::Poller;
use crate::progress::Progress;
use crate::report::Measurements;
use crate::resumption::ResumptionData;
use crate::socket;
use crate::socket::Socket;
use crate::system;
use crate::target;
use crate::transport;
use crate::transport::Transport;

quiche::stand_ins!();

/// Largest packet to send, in bytes. Most packets carry acknowledgements: the smallest size
/// that every QUIC path carries is enough.
pub const PACKET: usize = 1200;

/// Batches to receive before timers and signals are checked.
pub const BATCHES_MAX: usize = 16;

/// Runs downloads of one URL.
pub struct Downloader<'a> {
    cli: &'a Cli,
    transport: Transport,
    poller: Poller,

    /// Data of the previous connection, if the next may use it.
    resumption: ResumptionData,
}

impl<'a> Downloader<'a> {
    /// Creates the TLS settings and the poll, which all downloads share.
    pub fn new(cli: &'a Cli) -> Result<Self, Failure> {
        let resumption = cli.session.as_deref().map(ResumptionData::read).transpose();
        Ok(Self {
            cli,
            transport: Transport::new(cli)?,
            poller: Poller::new().map_err(|e| Failure::failed(format!("cannot wait: {e}")))?,
            resumption: resumption.map_err(Failure::failed)?.unwrap_or_default(),
        })
    }

    /// Waits, unless the user stops the program.
    pub fn sleep(&mut self, length: Duration) -> Result<(), Failure> {
        self.poller.sleep(length)
    }

    /// Downloads on a new connection. Tries the host's addresses in turn until a server responds,
    /// and returns the measurements of that connection.
    pub fn download(
        &mut self,
        body: &mut Body,
        progress: &mut Progress,
    ) -> (Measurements, Result<(), Failure>) {
        let cli = self.cli;
        let addresses = match target::addresses(&cli.target, cli.connect.as_ref(), cli.local) {
            Ok(addresses) => addresses,
            Err(failure) => return (Measurements::default(), Err(failure)),
        };

        self.download_from_first(&addresses, body, progress)
    }

    fn download_from_first(
        &mut self,
        addresses: &[SocketAddr],
        body: &mut Body,
        progress: &mut Progress,
    ) -> (Measurements, Result<(), Failure>) {
        let mut unreachable = Vec::new();
        for &peer in addresses {
            match self.download_from(peer, body, progress) {
                (_, Err(Failure::Unreachable(reason))) => unreachable.push(reason),
                done => return done,
            }
        }
        let reasons = unreachable.join("; ");
        (Measurements::default(), Err(Failure::Unreachable(reasons)))
    }

    fn download_from(
        &mut self,
        peer: SocketAddr,
        body: &mut Body,
        progress: &mut Progress,
    ) -> (Measurements, Result<(), Failure>) {
        let mut connection = match self.connect(peer) {
            Ok(connection) => connection,
            Err(failure) => return (Measurements::default(), Err(failure)),
        };
        let result = connection.run(&mut self.poller, body, progress);
        connection.close();
        connection.warn_of_dropped_packets();
        let kept = self.keep_resumption(&connection.transport);
        let offers_ech = self.cli.ech.is_some();
        let rejection = offers_ech.then(|| ech::rejection(&mut connection.transport)).flatten();
        let result = match (result, self.transport.take_refusal()) {
            (Err(_), Some(reason)) => Err(self.untrusted(&reason)),
            (_, None) if rejection.is_some() => rejection.map_or(Ok(()), Err),
            (result, _) => result.and(kept),
        };
        (connection.measurements(), result)
    }

    /// Keeps what the server issued, if the next connection may use it.
    fn keep_resumption(&mut self, transport: &quiche::Connection) -> Result<(), Failure> {
        let Cli { reuse, session, .. } = self.cli;
        if !reuse && session.is_none() {
            return Ok(());
        }
        self.resumption = ResumptionData::of(transport);
        let file = session.as_deref().filter(|_| self.resumption.is_some());
        file.map_or(Ok(()), |file| self.resumption.write(file)).map_err(Failure::failed)
    }

    fn connect(&mut self, peer: SocketAddr) -> Result<Connection, Failure> {
        let cli = self.cli;
        let socket = Socket::connect(cli.local, peer).map_err(|e| {
            let reason = format!("cannot send to {peer}: {e}");
            match cli.local {
                Some(local) => Failure::failed(format!(
                    "{reason}; is --local {local} an address of this machine?"
                )),
                None => Failure::Unreachable(reason),
            }
        })?;
        self.poller.watch(&socket, 0).map_err(|e| Failure::failed(format!("cannot wait: {e}")))?;

        let mut transport = quiche::connect(
            transport::server_name(&cli.target.host),
            &transport::connection_id(),
            socket.local(),
            peer,
            &mut self.transport.config,
        )
        .map_err(|e| Failure::failed(format!("cannot set up QUIC: {e}")))?;
        std::mem::take(&mut self.resumption).offer(&mut transport);
        cli.ech.as_ref().map_or(Ok(()), |ech| ech.offer(&mut transport))?;

        Ok(Connection {
            transport,
            http: None,
            exchange: Exchange::new(&cli.target, &cli.header),
            socket,
            receiver: socket::receiver(),
            packet: [0; PACKET],
            connect_timeout: cli.connect_timeout,
            started_at: system::now(),
            last_received_at: None,
        })
    }

    fn untrusted(&self, reason: &str) -> Failure {
        Failure::failed(format!(
            "the certificate of {} is not trusted ({reason}); name its CA in \
             SSL_CERT_FILE, or skip the check with --insecure",
            self.cli.target.host
        ))
    }
}

/// One connection, from its first packet to its last.
struct Connection {
    transport: quiche::Connection,
    http: Option<h3::Connection>,
    exchange: Exchange,
    socket: Socket,
    receiver: Receiver,
    packet: [u8; PACKET],
    connect_timeout: Duration,

    /// When the first packet was sent.
    started_at: Instant,

    /// When the last packet was received.
    last_received_at: Option<Instant>,
}

impl Connection {
    /// Runs until the response is complete or the connection has failed.
    fn run(
        &mut self,
        poller: &mut Poller,
        body: &mut Body,
        progress: &mut Progress,
    ) -> Result<(), Failure> {
        self.started_at = system::now();
        self.flush()?;
        if self.transport.is_in_early_data() {
            self.process(body, self.started_at)?;
            self.flush()?;
        }

        // True while the socket may have packets that the poll does not report again.
        let mut readable = false;
        while !self.exchange.complete {
            let timeout = match readable {
                true => Some(Duration::ZERO),
                false => self.timeout(system::now()),
            };
            readable |= poller.wait(timeout)?;

            for _ in 0..BATCHES_MAX {
                if !readable || self.exchange.complete {
                    break;
                }
                readable = self.receive_batch(body)?;
                progress.update(self.exchange.received, self.exchange.length);
            }
            self.check_timers(system::now())?;
        }
        Ok(())
    }

    /// Receives one batch and acknowledges it. Returns false if there was none.
    fn receive_batch(&mut self, body: &mut Body) -> Result<bool, Failure> {
        let info = quiche::RecvInfo { from: self.socket.peer(), to: self.socket.local() };
        let transport = &mut self.transport;
        let received = self.socket.receive(&mut self.receiver, |packet, ecn| {
            // An error concerns one packet, which is dropped, or ends the connection, which
            // `check_alive` detects.
            if let Err(e) = transport.recv_ecn(packet, info, ecn) {
                log::debug!("packet of {} bytes: {e}", packet.len());
            }
        });
        match received {
            Ok(true) => (),
            Ok(false) => return Ok(false),
            Err(e) => {
                self.on_socket_error(e)?;
                return Ok(true);
            }
        }
        let now = system::now();
        self.last_received_at = Some(now);

        self.process(body, now)?;
        self.flush()?;
        if !self.exchange.complete {
            self.check_alive(now)?;
        }
        Ok(true)
    }

    fn process(&mut self, body: &mut Body, now: Instant) -> Result<(), Failure> {
        let is_open = self.transport.is_established() || self.transport.is_in_early_data();
        if self.http.is_none() && is_open {
            let http = h3::Connection::with_transport(&mut self.transport, &Exchange::config())
                .map_err(|e| Failure::failed(format!("HTTP/3 failed: {e}")))?;
            self.http = Some(http);
        }
        match &mut self.http {
            Some(http) => self.exchange.process(&mut self.transport, http, body, now),
            None => Ok(()),
        }
    }

    /// Sends every packet that the transport has ready.
    fn flush(&mut self) -> Result<(), Failure> {
        loop {
            let length = match self.transport.send(&mut self.packet) {
                Ok((length, _)) => length,
                Err(quiche::Error::Done) => return Ok(()),
                Err(e) => return Err(Failure::failed(format!("QUIC failed: {e}"))),
            };
            if let Err(e) = self.socket.send(&self.packet[..length], self.transport.sent_ecn()) {
                self.on_socket_error(e)?;
            }
        }
    }

    /// Fails if the handshake is not complete: the error, usually an ICMP message, means that no
    /// server is at this address. Later errors are ignored, because such messages may be forged
    /// or transient, and the idle timeout decides.
    fn on_socket_error(&self, error: io::Error) -> Result<(), Failure> {
        if self.transport.is_established() {
            log::debug!("socket: {error}");
            return Ok(());
        }
        let peer = self.socket.peer();
        Err(Failure::Unreachable(match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                format!("nothing listens on UDP {peer}; is the server running?")
            }
            _ => format!("cannot reach {peer}: {error}"),
        }))
    }

    /// Returns the time until the transport's next timer or the handshake timeout.
    fn timeout(&self, now: Instant) -> Option<Duration> {
        let handshake_end =
            (!self.transport.is_established()).then_some(self.started_at + self.connect_timeout);
        self.transport
            .timeout_instant()
            .into_iter()
            .chain(handshake_end)
            .min()
            .map(|end| end.saturating_duration_since(now))
    }

    fn check_timers(&mut self, now: Instant) -> Result<(), Failure> {
        if self.exchange.complete {
            return Ok(());
        }
        if self.transport.timeout_instant().is_some_and(|at| at <= now) {
            self.transport.on_timeout();
            self.flush()?;
            self.check_alive(now)?;
        }
        let waited = now.saturating_duration_since(self.started_at);
        match !self.transport.is_established() && waited >= self.connect_timeout {
            true => Err(self.no_response(waited)),
            false => Ok(()),
        }
    }

    /// Fails if the connection has ended or is ending.
    fn check_alive(&self, now: Instant) -> Result<(), Failure> {
        let transport = &self.transport;
        if let Some(error) = transport.local_error() {
            return Err(Failure::failed(describe("the client", error)));
        }
        if let Some(error) = transport.peer_error() {
            return Err(Failure::failed(format!(
                "{} after {}",
                describe("the server", error),
                self.exchange.extent()
            )));
        }
        if transport.is_timed_out() {
            return Err(match self.last_received_at {
                Some(received_at) if transport.is_established() => {
                    self.stopped_responding(now.saturating_duration_since(received_at))
                }
                _ => self.no_response(now.saturating_duration_since(self.started_at)),
            });
        }
        match transport.is_closed() || transport.is_draining() {
            true => Err(Failure::failed(format!(
                "the server has lost this connection after {}",
                self.exchange.extent()
            ))),
            false => Ok(()),
        }
    }

    fn no_response(&self, waited: Duration) -> Failure {
        let peer = self.socket.peer();
        Failure::Unreachable(format!(
            "no response from {peer} within {:.1} s; does a server listen there, and does a \
             firewall block UDP?",
            waited.as_secs_f64()
        ))
    }

    fn stopped_responding(&self, silence: Duration) -> Failure {
        Failure::failed(format!(
            "the server stopped responding after {}: no packet arrived for {:.1} s",
            self.exchange.extent(),
            silence.as_secs_f64()
        ))
    }

    /// Closes the connection, so that the server does not wait for its idle timeout. All data has
    /// already been acknowledged.
    fn close(&mut self) {
        let no_error = h3::WireErrorCode::NoError as u64;
        if self.transport.close(true, no_error, b"").is_ok() {
            if let Err(failure) = self.flush() {
                log::debug!("while closing: {failure}");
            }
        }
    }

    /// Warns if this machine dropped packets, which distorts the measurements of the path.
    fn warn_of_dropped_packets(&self) {
        match self.socket.dropped() {
            None | Some(0) => (),
            Some(count) => log::warn!(
                "this machine dropped {count} packets because the socket was full; raise \
                 net.core.rmem_max, or reduce its load"
            ),
        }
    }

    fn measurements(&self) -> Measurements {
        let exchange = &self.exchange;
        let since_start = |at: Instant| at.saturating_duration_since(self.started_at);
        Measurements {
            status: exchange.status.unwrap_or(0),
            bytes: exchange.received,
            ttfb: exchange.first_byte_at.map(since_start),
            ttlb: exchange.last_byte_at.filter(|_| exchange.complete).map(since_start),
            min_rtt: self.transport.active_path().and_then(|path| path.min_rtt),
            ecn: self.transport.ecn_stats(),
        }
    }
}

/// Describes a connection error for messages. Codes: RFC 9000, 20 and RFC 9114, 8.1.
pub fn describe(who: &str, error: &quiche::ConnectionError) -> String {
    /// CRYPTO_ERROR: the low byte is a TLS alert.
    const TLS_ALERTS: std::ops::RangeInclusive<u64> = 0x100..=0x1ff;

    let code = error.error_code;
    let kind = match error.is_app {
        true => format!("HTTP/3 error {code:#x}"),
        false if TLS_ALERTS.contains(&code) => format!("TLS alert {}", code & 0xff),
        false => format!("QUIC error {code:#x}"),
    };
    match String::from_utf8_lossy(&error.reason) {
        reason if reason.is_empty() => format!("{who} closed the connection ({kind})"),
        reason => format!("{who} closed the connection ({kind}: {})", reason.escape_debug()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli;

    #[test]
    fn download_tries_every_address() {
        let closed_port = || {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            socket.local_addr().unwrap()
        };
        let cli = cli::parse(["", "https://localhost/", "--insecure"]).unwrap();
        let addresses = [closed_port(), closed_port()];
        let mut body = Body::open(None).unwrap();
        let mut progress = Progress::for_stderr("");
        let (measurements, result) = Downloader::new(&cli).unwrap().download_from_first(
            &addresses,
            &mut body,
            &mut progress,
        );
        assert_eq!(measurements, Measurements::default());
        let line = result.unwrap_err().to_string();
        for address in addresses {
            assert!(line.contains(&address.to_string()), "{line}");
        }
    }
}
