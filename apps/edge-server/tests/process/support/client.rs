//! HTTP/3 client over UDP: any method and path, several requests at a time, and it can fall
//! silent.
//!
//! It reads no clock: its time-out is a number of receive time-outs.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

use quiche::h3;
use quiche::ConnectionId;
use quiche::RecvInfo;

/// Of RFC 9114, 8.1.
pub const H3_NO_ERROR: u64 = h3::WireErrorCode::NoError as u64;

quiche::stand_ins!();

#[path = "h3_client.rs"]
mod h3_client;

pub use self::h3_client::client_config_with;
pub use self::h3_client::ClientLimits;
pub use self::h3_client::ClientResponse;
pub use self::h3_client::ReceivedResponses;
pub use self::h3_client::ResumptionData;

const RECEIVE_TIMEOUT: Duration = Duration::from_millis(10);
const RECEIVE_TIMEOUTS_MAX: usize = 2000;

/// One connection to a server.
pub struct UdpClient {
    socket: UdpSocket,
    local: SocketAddr,
    quic: quiche::Connection,
    http: Option<h3::Connection>,
    received: ReceivedResponses,

    /// Datagrams that arrived and were not read.
    unread: VecDeque<Vec<u8>>,

    /// Bytes of all datagrams that went out.
    sent_bytes: usize,
}

impl UdpClient {
    /// Completes a handshake with `server`.
    pub fn connect(server: SocketAddr) -> Self {
        Self::connect_with(server, ClientLimits::default())
    }

    /// Completes a handshake with `server`, which gets these limits.
    pub fn connect_with(server: SocketAddr, limits: ClientLimits) -> Self {
        Self::connect_from(Ipv4Addr::LOCALHOST, server, limits)
    }

    /// Completes a handshake with `server` from a loopback address.
    pub fn connect_from(from: Ipv4Addr, server: SocketAddr, limits: ClientLimits) -> Self {
        Self::connect_as(Some("localhost"), from, server, limits)
    }

    /// Completes a handshake with the host `name` at `server`, or with none.
    pub fn connect_to(name: Option<&str>, server: SocketAddr) -> Self {
        Self::connect_as(name, Ipv4Addr::LOCALHOST, server, ClientLimits::default())
    }

    /// Completes a handshake with `server`, with what an earlier connection left.
    pub fn connect_again(server: SocketAddr, resumption: &ResumptionData) -> Self {
        let limits = ClientLimits::default();
        let mut client =
            Self::begin(Some("localhost"), Ipv4Addr::LOCALHOST, server, limits, resumption);
        client.establish();
        client
    }

    fn connect_as(
        name: Option<&str>,
        from: Ipv4Addr,
        server: SocketAddr,
        limits: ClientLimits,
    ) -> Self {
        let mut client = Self::begin(name, from, server, limits, &ResumptionData::default());
        client.establish();
        client
    }

    fn begin(
        name: Option<&str>,
        from: Ipv4Addr,
        server: SocketAddr,
        limits: ClientLimits,
        resumption: &ResumptionData,
    ) -> Self {
        Self::begin_configured(name, from, server, client_config_with(limits), resumption)
    }

    /// Begins a handshake with `server`, with the PEM files of a certificate and its key, if any, and
    /// with what an earlier connection left.
    pub fn begin_certified(
        server: SocketAddr,
        identity: Option<[&Path; 2]>,
        resumption: &ResumptionData,
    ) -> Self {
        let mut config = client_config_with(ClientLimits::default());
        if let Some([cert, key]) = identity {
            config.load_cert_chain_from_pem_file(cert.to_str().unwrap()).unwrap();
            config.load_priv_key_from_pem_file(key.to_str().unwrap()).unwrap();
        }
        Self::begin_configured(Some("localhost"), Ipv4Addr::LOCALHOST, server, config, resumption)
    }

    fn begin_configured(
        name: Option<&str>,
        from: Ipv4Addr,
        server: SocketAddr,
        mut config: quiche::Config,
        resumption: &ResumptionData,
    ) -> Self {
        let socket = UdpSocket::bind((from, 0)).unwrap();
        socket.connect(server).unwrap();
        socket.set_read_timeout(Some(RECEIVE_TIMEOUT)).unwrap();
        let local = socket.local_addr().unwrap();

        let port = local.port().to_be_bytes();
        let id = ConnectionId::from_ref(&port);
        let mut quic = quiche::connect(name, &id, local, server, &mut config).unwrap();
        resumption.offer(&mut quic);

        Self {
            socket,
            local,
            quic,
            http: None,
            received: ReceivedResponses::default(),
            unread: VecDeque::new(),
            sent_bytes: 0,
        }
    }

    /// Completes the handshake.
    pub fn establish(&mut self) {
        self.run_until(|client| client.quic.is_established());
        if self.http.is_none() {
            self.start_http();
        }
    }

    fn start_http(&mut self) {
        let http = h3::Connection::with_transport(&mut self.quic, &h3::Config::new().unwrap());
        self.http = Some(http.unwrap());
    }

    /// Waits for what this connection leaves for the next one.
    pub fn resumption_data(&mut self) -> ResumptionData {
        self.run_until(|client| ResumptionData::of(&client.quic).is_complete());
        ResumptionData::of(&self.quic)
    }

    /// How many requests more the server takes now.
    pub fn requests_left(&self) -> u64 {
        self.quic.peer_streams_left_bidi()
    }

    /// Returns whether the server completes the handshake and answers a request.
    pub fn is_admitted(&mut self) -> bool {
        let is_refused = |client: &Self| client.quic.peer_error().is_some();
        self.run_until(|client| client.quic.is_established() || is_refused(client));
        if is_refused(self) {
            return false;
        }
        self.start_http();
        let stream = self.request("GET", "/");
        self.run_until(|client| client.received.has_ended(stream) || is_refused(client));
        !is_refused(self)
    }

    /// Whether the handshake resumed a session.
    pub fn is_resumed(&self) -> bool {
        self.quic.is_resumed()
    }

    /// Sends what is due, and answers nothing for a while. Returns how many bytes went
    /// out so far, and how many came.
    pub fn await_unanswered(&mut self) -> (usize, usize) {
        self.send();
        self.fall_silent();
        let received = self.unread.iter().map(Vec::len).sum();
        (self.sent_bytes, received)
    }

    /// Waits until the connection is gone. Returns whether the server said so, and did
    /// not just fall silent.
    pub fn is_reset(&mut self) -> bool {
        for _ in 0..RECEIVE_TIMEOUTS_MAX {
            self.send();
            self.receive_one();
            self.quic.on_timeout();
            if self.quic.is_closed() {
                return !self.quic.is_timed_out();
            }
        }
        false
    }

    /// Sends a request without a body. Returns its stream.
    pub fn request(&mut self, method: &str, path: &str) -> u64 {
        self.request_with(&[
            (":method", method),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", path),
        ])
    }

    /// Sends a request of these headers. Returns its stream.
    pub fn request_with(&mut self, headers: &[(&str, &str)]) -> u64 {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()))
            .collect();
        self.send_headers(&headers, true)
    }

    /// The certificate that the server presented, in DER form.
    pub fn certificate(&self) -> Vec<u8> {
        self.quic.peer_cert().unwrap().to_vec()
    }

    /// Sends a request that [`end_with_trailers()`](Self::end_with_trailers)
    /// ends. Returns its stream.
    pub fn open_request(&mut self, path: &str) -> u64 {
        let headers = [
            h3::Header::new(b":method", b"GET"),
            h3::Header::new(b":scheme", b"https"),
            h3::Header::new(b":authority", b"localhost"),
            h3::Header::new(b":path", path.as_bytes()),
        ];
        self.send_headers(&headers, false)
    }

    /// Sends a POST with content that the initial windows have room for. Returns its stream.
    pub fn post(&mut self, path: &str, content: &[u8], more: &[(&str, &str)]) -> u64 {
        let start = [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", path),
        ];
        let headers = start.iter().chain(more);
        let headers: Vec<_> = headers
            .map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()))
            .collect();
        let stream = self.send_headers(&headers, false);
        let http = self.http.as_mut().unwrap();
        let sent = http.send_body(&mut self.quic, stream, content, true).unwrap();
        assert_eq!(sent, content.len());
        stream
    }

    /// Sends a request with content of any length, as far as the server takes it. Returns its stream.
    pub fn upload(&mut self, headers: &[(&str, &str)], content: &[u8]) -> u64 {
        let headers: Vec<_> = headers
            .iter()
            .map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes()))
            .collect();
        let stream = self.send_headers(&headers, false);
        let (mut sent, mut timeouts) = (0, 0);
        while sent < content.len() && !self.received.has_ended(stream) {
            let http = self.http.as_mut().unwrap();
            match http.send_body(&mut self.quic, stream, &content[sent..], true) {
                Ok(bytes) => sent += bytes,
                Err(h3::Error::Done) => (),
                // The server does not want more.
                Err(_) => break,
            }
            self.poll();
            self.send();
            timeouts += usize::from(!self.receive_one());
            assert!(timeouts < RECEIVE_TIMEOUTS_MAX, "the server takes nothing");
            self.quic.on_timeout();
        }
        stream
    }

    pub fn end_with_trailers(&mut self, stream: u64) {
        let trailers = [h3::Header::new(b"x-sum", b"1")];
        let http = self.http.as_mut().unwrap();
        http.send_additional_headers(&mut self.quic, stream, &trailers, true, true).unwrap();
    }

    fn send_headers(&mut self, headers: &[h3::Header], last: bool) -> u64 {
        let http = self.http.as_mut().unwrap();
        http.send_request(&mut self.quic, headers, last).unwrap()
    }

    /// Waits until a response has ended one way or the other.
    pub fn response(&mut self, stream: u64) -> ClientResponse {
        self.run_until(|client| client.received.has_ended(stream));
        self.received.responses.remove(&stream).unwrap()
    }

    /// Tells the server that a response is not wanted any longer.
    pub fn cancel(&mut self, stream: u64) {
        let code = h3::WireErrorCode::RequestCancelled as u64;
        self.quic.stream_shutdown(stream, quiche::Shutdown::Read, code).unwrap();
        self.send();
    }

    /// A whole GET.
    pub fn get(&mut self, path: &str) -> ClientResponse {
        let stream = self.request("GET", path);
        self.response(stream)
    }

    /// Waits until so many bytes of a body have come.
    pub fn receive(&mut self, stream: u64, bytes_min: usize) {
        self.run_until(|client| client.received.body_bytes(stream) >= bytes_min);
    }

    /// Acknowledges what comes until nothing more does.
    pub fn settle(&mut self) {
        loop {
            self.poll();
            self.send();
            if !self.receive_one() {
                return;
            }
        }
    }

    /// Answers nothing for a while, in which the server's window fills. What comes
    /// stays unread: the socket's buffer might not hold it all.
    pub fn fall_silent(&mut self) {
        for _ in 0..10 {
            while let Some(datagram) = self.next_datagram() {
                self.unread.push_back(datagram);
            }
        }
    }

    /// Tells the server that it is over.
    pub fn close(&mut self) {
        let _ = self.quic.close(true, H3_NO_ERROR, b"");
        self.send();
    }

    /// Waits until the server closes the connection. Returns its code.
    pub fn closed(&mut self) -> u64 {
        self.run_until(|client| client.quic.peer_error().is_some());
        self.quic.peer_error().unwrap().error_code
    }

    /// Waits for so many GOAWAY frames. Returns the streams from which on requests are
    /// not answered.
    pub fn goaways(&mut self, count: usize) -> Vec<u64> {
        self.run_until(|client| client.received.goaways.len() >= count);
        self.received.goaways.clone()
    }

    fn run_until(&mut self, done: impl Fn(&Self) -> bool) {
        let mut timeouts = 0;
        loop {
            self.poll();
            if done(self) {
                return;
            }
            self.send();
            timeouts += usize::from(!self.receive_one());
            assert!(timeouts < RECEIVE_TIMEOUTS_MAX, "the server does not answer");
            let quic = &self.quic;
            let why = (quic.peer_error(), quic.local_error(), quic.is_timed_out());
            assert!(!quic.is_closed(), "closed: {why:?}");
            self.quic.on_timeout();
        }
    }

    fn send(&mut self) {
        let mut packet = [0; 1350];
        while let Ok((length, _)) = self.quic.send(&mut packet) {
            // A server that is gone refuses; the test will notice.
            let _ = self.socket.send(&packet[..length]);
            self.sent_bytes += length;
        }
    }

    fn receive_one(&mut self) -> bool {
        let Some(mut datagram) = self.unread.pop_front().or_else(|| self.next_datagram()) else {
            return false;
        };
        let info = RecvInfo { from: self.socket.peer_addr().unwrap(), to: self.local };
        let _ = self.quic.recv(&mut datagram, info);
        true
    }

    /// Waits for a datagram, but not longer than the receive time-out.
    fn next_datagram(&mut self) -> Option<Vec<u8>> {
        let mut datagram = [0; 65_535];
        let length = self.socket.recv(&mut datagram).ok()?;
        Some(datagram[..length].to_vec())
    }

    fn poll(&mut self) {
        let Some(http) = &mut self.http else { return };
        self.received.poll(http, &mut self.quic);
    }
}
