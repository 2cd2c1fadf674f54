//! HTTP/3 client in a task: thousands of them take few threads.

use std::io;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::sync::Mutex;
use std::time::Duration;
use std::time::Instant;

use quiche::h3;
use quiche::ConnectionId;
use quiche::RecvInfo;
use tokio::net::UdpSocket;

use super::connection::LoadAnswer;
use super::connection::LoadOutcome;
use crate::support::client::client_config_with;
use crate::support::client::ClientLimits;
use crate::support::client::ClientResponse;
use crate::support::client::ReceivedResponses;
use crate::support::client::H3_NO_ERROR;

quiche::stand_ins!();

/// Codes of responses that break off, and of requests that were not processed (RFC 9114, 8.1).
const H3_INTERNAL_ERROR: u64 = 0x102;
const H3_REQUEST_REJECTED: u64 = 0x10b;

const LIMITS: ClientLimits = ClientLimits {
    window_bytes: 4 << 20,
    idle_timeout: Duration::from_secs(60),
    connection_ids: 2,
};

/// Settings of all connections: each would read the authorities of the system.
static CONFIG: LazyLock<Mutex<quiche::Config>> =
    LazyLock::new(|| Mutex::new(client_config_with(LIMITS)));

/// Time without a packet after which a client asks whether the server is there.
const NAP_MAX: Duration = Duration::from_secs(1);

/// One connection to a server.
pub struct Http3Task {
    socket: UdpSocket,
    local: SocketAddr,
    server: SocketAddr,
    quic: quiche::Connection,
    http: Option<h3::Connection>,
    received: ReceivedResponses,

    /// Nobody listens at the server's address.
    is_refused: bool,
}

impl Http3Task {
    /// Completes a handshake with `server` from a loopback address.
    pub async fn connect(from: Ipv4Addr, server: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind((from, 0)).await?;
        socket.connect(server).await?;
        let local = socket.local_addr()?;
        let octets = from.octets();
        let id = [&octets[..], &local.port().to_be_bytes()].concat();
        let id = ConnectionId::from_ref(&id);
        let connected = {
            let mut config = CONFIG.lock().unwrap();
            quiche::connect(Some("localhost"), &id, local, server, &mut config)
        };
        let quic = connected.map_err(io::Error::other)?;
        let received = ReceivedResponses::default();
        let mut task =
            Self { socket, local, server, quic, http: None, received, is_refused: false };
        task.drive(None, |task| task.quic.is_established()).await;
        if !task.quic.is_established() || task.is_closed() {
            return Err(io::Error::other(task.why()));
        }
        let config = h3::Config::new().map_err(io::Error::other)?;
        let http = h3::Connection::with_transport(&mut task.quic, &config);
        task.http = Some(http.map_err(io::Error::other)?);
        Ok(task)
    }

    /// Returns whether further requests make sense.
    pub fn is_usable(&self) -> bool {
        !self.is_closed() && self.received.goaways.is_empty()
    }

    /// Sends requests together, and returns what becomes of them.
    pub async fn send(&mut self, requests: &[Vec<(String, String)>]) -> Vec<LoadOutcome> {
        let streams: Vec<_> = requests.iter().map(|request| self.begin(request)).collect();
        self.drive(None, |task| {
            streams.iter().flatten().all(|stream| task.received.has_ended(*stream))
        })
        .await;
        streams.into_iter().map(|stream| self.outcome(stream)).collect()
    }

    /// Acknowledges what comes, for a while.
    pub async fn pause(&mut self, time: Duration) {
        let until = quiche::clock::now() + time;
        self.drive(Some(until), |_| false).await;
    }

    pub async fn close(&mut self) {
        let _ = self.quic.close(true, H3_NO_ERROR, b"");
        self.flush().await;
    }

    fn begin(&mut self, request: &[(String, String)]) -> Option<u64> {
        let headers: Vec<_> = request
            .iter()
            .map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()))
            .collect();
        self.http.as_mut()?.send_request(&mut self.quic, &headers, true).ok()
    }

    fn outcome(&mut self, stream: Option<u64>) -> LoadOutcome {
        let Some(stream) = stream else { return LoadOutcome::NotProcessed };
        let response = self.received.responses.remove(&stream).unwrap_or_default();
        let ClientResponse { mut headers, body, finished, reset, .. } = response;
        let is_left_out = self.received.goaways.iter().any(|first| stream >= *first);
        match reset {
            _ if finished => {
                let status = headers.remove(":status").unwrap_or_default().parse().unwrap_or(0);
                LoadOutcome::Answer(LoadAnswer { status, fields: headers, body })
            }
            Some(H3_REQUEST_REJECTED) => LoadOutcome::NotProcessed,
            Some(H3_INTERNAL_ERROR) => LoadOutcome::Broken,
            Some(code) => LoadOutcome::Lost(format!("reset with {code:#x}")),
            None if is_left_out && headers.is_empty() => LoadOutcome::NotProcessed,
            None => LoadOutcome::Lost(self.why()),
        }
    }

    fn is_closed(&self) -> bool {
        self.is_refused || self.quic.is_closed() || self.quic.is_draining()
    }

    fn why(&self) -> String {
        let quic = &self.quic;
        match (self.is_refused, quic.peer_error(), quic.is_timed_out()) {
            (true, ..) => "nobody listens".to_owned(),
            (_, Some(error), _) => format!("closed by the server: {error:?}"),
            (_, _, true) => "timed out".to_owned(),
            _ => format!("closed: {:?}", quic.local_error()),
        }
    }

    /// Goes on until something is so, or a time has come, or the connection ends.
    async fn drive(&mut self, until: Option<Instant>, is_done: impl Fn(&Self) -> bool) {
        let mut datagram = vec![0; 65_535];
        loop {
            if let Some(http) = &mut self.http {
                self.received.poll(http, &mut self.quic);
            }
            if is_done(self) || self.is_closed() {
                return;
            }
            self.flush().await;
            let now = quiche::clock::now();
            let left = until.map(|until| until.saturating_duration_since(now));
            if left.is_some_and(|left| left.is_zero()) {
                return;
            }
            let timeout = self.quic.timeout().unwrap_or(NAP_MAX).min(left.unwrap_or(NAP_MAX));
            let arrived = tokio::time::timeout(timeout, self.socket.recv(&mut datagram)).await;
            match arrived {
                Ok(Ok(length)) => {
                    self.receive(&mut datagram[..length]);
                    while let Ok(length) = self.socket.try_recv(&mut datagram) {
                        self.receive(&mut datagram[..length]);
                    }
                }
                Ok(Err(_)) => self.is_refused = true,
                // A server that was killed may have left nothing that would be sent again: ask the next one.
                Err(_) if timeout == NAP_MAX => drop(self.quic.send_ack_eliciting()),
                Err(_) => (),
            }
            self.quic.on_timeout();
        }
    }

    fn receive(&mut self, datagram: &mut [u8]) {
        let info = RecvInfo { from: self.server, to: self.local };
        let _ = self.quic.recv(datagram, info);
    }

    async fn flush(&mut self) {
        let mut packet = [0; 1350];
        while let Ok((length, _)) = self.quic.send(&mut packet) {
            let _ = self.socket.send(&packet[..length]).await;
        }
    }
}
