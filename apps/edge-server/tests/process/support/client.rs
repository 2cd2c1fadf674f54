//! An HTTP/3 client for tests: any method and path, several requests at a time,
//! and it can fall silent.
//!
//! No clock is read: patience is counted in naps.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::time::Duration;

use quiche::h3;
use quiche::h3::NameValue;
use quiche::ConnectionId;
use quiche::RecvInfo;

/// Of RFC 9114, 8.1.
pub const H3_NO_ERROR: u64 = h3::WireErrorCode::NoError as u64;

quiche::stand_ins!();

const NAP: Duration = Duration::from_millis(10);
const NAPS_MAX: usize = 2000;

/// The client tells the server to give it up after this many milliseconds.
const IDLE_TIMEOUT_MS: u64 = 20_000;

const WINDOW_BYTES: u64 = 100 << 20;

/// What a client grants the server.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Data of responses that it may send before the client has read them.
    pub window_bytes: u64,

    /// How long the connection lives without packets.
    pub idle_timeout_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { window_bytes: WINDOW_BYTES, idle_timeout_ms: IDLE_TIMEOUT_MS }
    }
}

/// What a connection left for the next one.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Proves the client's address.
    pub token: Option<Vec<u8>>,

    /// The TLS session.
    pub session: Option<Vec<u8>>,
}

/// A response, as far as it has come.
#[derive(Clone, Debug, Default)]
pub struct Response {
    /// Those of interim responses and the final one.
    pub headers: HashMap<String, String>,

    /// One, or several if there are interim responses.
    pub statuses: Vec<String>,
    pub body: Vec<u8>,
    pub finished: bool,
    pub reset: Option<u64>,
}

/// One connection to a server.
pub struct Client {
    socket: UdpSocket,
    local: SocketAddr,
    quic: quiche::Connection,
    http: Option<h3::Connection>,
    responses: HashMap<u64, Response>,

    /// What GOAWAY frames told.
    goaways: Vec<u64>,

    /// Datagrams that came and were not looked at.
    kept: VecDeque<Vec<u8>>,

    /// How many came.
    received: u32,

    /// Bytes of all datagrams that went out.
    sent_bytes: usize,
}

impl Client {
    /// Completes a handshake with `server`.
    pub fn connect(server: SocketAddr) -> Self {
        Self::connect_with(server, Limits::default())
    }

    /// Completes a handshake with `server`, which gets these limits.
    pub fn connect_with(server: SocketAddr, limits: Limits) -> Self {
        Self::connect_from(Ipv4Addr::LOCALHOST, server, limits)
    }

    /// Completes a handshake with `server` from a loopback address.
    pub fn connect_from(from: Ipv4Addr, server: SocketAddr, limits: Limits) -> Self {
        Self::connect_as(Some("localhost"), from, server, limits)
    }

    /// Completes a handshake with the host `name` at `server`, or with none.
    pub fn connect_to(name: Option<&str>, server: SocketAddr) -> Self {
        Self::connect_as(name, Ipv4Addr::LOCALHOST, server, Limits::default())
    }

    /// Completes a handshake with `server`, with what an earlier connection left.
    pub fn connect_again(server: SocketAddr, memory: &Memory) -> Self {
        let limits = Limits::default();
        let mut client =
            Self::begin(Some("localhost"), Ipv4Addr::LOCALHOST, server, limits, memory);
        client.establish();
        client
    }

    fn connect_as(name: Option<&str>, from: Ipv4Addr, server: SocketAddr, limits: Limits) -> Self {
        let mut client = Self::begin(name, from, server, limits, &Memory::default());
        client.establish();
        client
    }

    fn begin(
        name: Option<&str>,
        from: Ipv4Addr,
        server: SocketAddr,
        limits: Limits,
        memory: &Memory,
    ) -> Self {
        let socket = UdpSocket::bind((from, 0)).unwrap();
        socket.connect(server).unwrap();
        socket.set_read_timeout(Some(NAP)).unwrap();
        let local = socket.local_addr().unwrap();

        let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
        config.set_application_protos(h3::APPLICATION_PROTOCOL).unwrap();
        config.verify_peer(false);
        config.set_max_idle_timeout(limits.idle_timeout_ms);
        config.set_initial_max_data(limits.window_bytes);
        config.set_max_connection_window(limits.window_bytes);
        config.set_initial_max_stream_data_bidi_local(limits.window_bytes);
        config.set_max_stream_window(limits.window_bytes);
        config.set_initial_max_stream_data_uni(limits.window_bytes);
        config.set_initial_max_streams_uni(3);
        config.enable_early_data();
        let port = local.port().to_be_bytes();
        let id = ConnectionId::from_ref(&port);
        let mut quic = quiche::connect(name, &id, local, server, &mut config).unwrap();
        if let Some(session) = &memory.session {
            quic.set_session(session).unwrap();
        }
        if let Some(token) = &memory.token {
            quic.set_token(token).unwrap();
        }

        Self {
            socket,
            local,
            quic,
            http: None,
            responses: HashMap::new(),
            goaways: Vec::new(),
            kept: VecDeque::new(),
            received: 0,
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

    /// What this connection leaves for the next one, once it has come.
    pub fn memory(&mut self) -> Memory {
        let memory = |client: &Self| Memory {
            token: client.quic.new_token().map(<[u8]>::to_vec),
            session: client.quic.session().map(<[u8]>::to_vec),
        };
        self.run_until(|client| {
            let memory = memory(client);
            memory.token.is_some() && memory.session.is_some()
        });
        memory(self)
    }

    /// How many requests more the server takes now.
    pub fn requests_left(&self) -> u64 {
        self.quic.peer_streams_left_bidi()
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
        let came = self.kept.iter().map(Vec::len).sum();
        (self.sent_bytes, came)
    }

    /// Waits until the connection is gone. Returns whether the server said so, and did
    /// not just fall silent.
    pub fn is_reset(&mut self) -> bool {
        for _ in 0..NAPS_MAX {
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
    pub fn response(&mut self, stream: u64) -> Response {
        self.run_until(|client| {
            let response = client.responses.get(&stream);
            response.is_some_and(|r| r.finished || r.reset.is_some())
        });
        self.responses.remove(&stream).unwrap()
    }

    /// A whole GET.
    pub fn get(&mut self, path: &str) -> Response {
        let stream = self.request("GET", path);
        self.response(stream)
    }

    /// Waits until so many bytes of a body have come.
    pub fn receive(&mut self, stream: u64, bytes_min: usize) {
        self.run_until(|client| {
            client.responses.get(&stream).is_some_and(|r| r.body.len() >= bytes_min)
        });
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
    /// is kept for later: the socket's buffer might not hold it all.
    pub fn fall_silent(&mut self) {
        for _ in 0..10 {
            while let Some(datagram) = self.next_datagram() {
                self.kept.push_back(datagram);
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
        self.run_until(|client| client.goaways.len() >= count);
        self.goaways.clone()
    }

    fn run_until(&mut self, done: impl Fn(&Self) -> bool) {
        let mut naps = 0;
        loop {
            self.poll();
            if done(self) {
                return;
            }
            self.send();
            naps += usize::from(!self.receive_one());
            assert!(naps < NAPS_MAX, "the server does not answer");
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
        let Some(mut datagram) = self.kept.pop_front().or_else(|| self.next_datagram()) else {
            return false;
        };
        let info = RecvInfo { from: self.socket.peer_addr().unwrap(), to: self.local };
        let _ = self.quic.recv(&mut datagram, info);
        true
    }

    /// What comes within a nap.
    fn next_datagram(&mut self) -> Option<Vec<u8>> {
        let mut datagram = [0; 65_535];
        let length = self.socket.recv(&mut datagram).ok()?;
        self.received += 1;
        Some(datagram[..length].to_vec())
    }

    fn poll(&mut self) {
        let Some(http) = &mut self.http else { return };
        let mut chunk = vec![0; 64 << 10];
        while let Ok((stream, event)) = http.poll(&mut self.quic) {
            if event == h3::Event::GoAway {
                self.goaways.push(stream);
                continue;
            }
            let response = self.responses.entry(stream).or_default();
            match event {
                h3::Event::Headers { list, .. } => {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                    let pairs = list.iter().map(|h| (text(h.name()), text(h.value())));
                    response.headers.extend(pairs);
                    response.statuses.extend(response.headers.get(":status").cloned());
                }
                h3::Event::Data => {
                    while let Ok(count) = http.recv_body(&mut self.quic, stream, &mut chunk) {
                        response.body.extend_from_slice(&chunk[..count]);
                    }
                }
                h3::Event::Finished => response.finished = true,
                h3::Event::Reset(code) => response.reset = Some(code),
                h3::Event::PriorityUpdate | h3::Event::GoAway => (),
            }
        }
    }
}
