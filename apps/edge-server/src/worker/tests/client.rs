//! HTTP/3 client in memory: any method and path, several requests at a time, and it can
//! fall silent.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::time::Instant;

use quiche::ecn::Codepoint;
use quiche::ecn::EcnConfig;
use quiche::ecn::EcnStats;
use quiche::h3;
use quiche::ConnectionId;
use quiche::RecvInfo;
use quiche::Shutdown;

use super::forger::Forger;
use super::forger::KeyLog;
use super::harness::Server;
use super::path::Datagram;
use super::path::Offered;
use super::path::Path;

quiche::stand_ins!();

#[path = "../../../tests/process/support/h3_client.rs"]
mod h3_client;

use self::h3_client::client_config;
use self::h3_client::client_config_with;
pub use self::h3_client::ClientLimits;
pub use self::h3_client::ClientResponse;
use self::h3_client::ReceivedResponses;
pub use self::h3_client::ResumptionData;

/// Bytes of the largest packet that it sends.
const PACKET_BYTES_MAX: usize = 1350;

/// Settings of a client to be connected.
#[must_use]
pub struct ClientBuilder {
    server: Server,
    name: Option<String>,
    from: IpAddr,
    path: Path,
    limits: ClientLimits,
    resumption: ResumptionData,
    marks: bool,
}

impl ClientBuilder {
    /// A client of `server` that expects nothing special.
    pub fn new(server: Server) -> Self {
        Self {
            server,
            name: Some("localhost".to_owned()),
            from: super::harness::CLIENT,
            path: Path::default(),
            limits: ClientLimits::default(),
            resumption: ResumptionData::default(),
            marks: false,
        }
    }

    /// Asks for the host of this name, or for none.
    pub fn named(self, name: Option<&str>) -> Self {
        Self { name: name.map(str::to_owned), ..self }
    }

    pub fn from(self, from: impl Into<IpAddr>) -> Self {
        Self { from: from.into(), ..self }
    }

    pub fn over(self, path: &Path) -> Self {
        Self { path: path.clone(), ..self }
    }

    pub fn granting(self, limits: ClientLimits) -> Self {
        Self { limits, ..self }
    }

    /// Comes back with what an earlier connection left.
    pub fn with(self, resumption: &ResumptionData) -> Self {
        Self { resumption: resumption.clone(), ..self }
    }

    /// Sends ECN-capable packets.
    pub fn marking(self) -> Self {
        Self { marks: true, ..self }
    }

    /// Begins a handshake that nothing has come of yet.
    pub fn begin(self) -> Client {
        let Self { server, name, from, path, limits, resumption, marks } = self;
        let address = server.lab().client_address(from);
        let ecn = marks.then(EcnConfig::default);
        let state =
            ClientState::new(name.as_deref(), address, server.address(), limits, ecn, &resumption);
        let endpoint = server.lab().add_client(address, &path, state);
        Client { server, endpoint }
    }

    /// Completes a handshake.
    pub fn connect(self) -> Client {
        let mut client = self.begin();
        client.establish();
        client
    }

    /// Begins a handshake with early data, and takes requests meanwhile.
    pub fn connect_early(self) -> Client {
        let client = self.begin();
        // Early data comes after the first flight.
        client.server.lab().settle();
        client.with(ClientState::start_early);
        client
    }

    /// Tries a handshake that the server refuses. Returns the code.
    pub fn refused(self) -> u64 {
        self.begin().closed()
    }
}

/// One connection to a server. Its methods let time pass until what they wait for has come.
pub struct Client {
    server: Server,
    endpoint: usize,
}

impl Client {
    fn with<T>(&self, act: impl FnOnce(&mut ClientState) -> T) -> T {
        self.server.lab().with_client(self.endpoint, act)
    }

    /// Lets time pass until the client's state is such.
    #[track_caller]
    pub fn run_until(&self, done: impl Fn(&ClientState) -> bool) {
        self.server.lab().run_until(|world| done(world.client(self.endpoint)));
    }

    /// Waits for an open connection's state.
    #[track_caller]
    fn run_open_until(&self, done: impl Fn(&ClientState) -> bool) {
        self.run_until(|client| {
            let is_done = done(client);
            assert!(is_done || !client.quic.is_closed(), "closed: {:?}", client.why_closed());
            is_done
        });
    }

    #[track_caller]
    pub fn establish(&mut self) {
        self.run_open_until(|client| client.quic.is_established() && client.http.is_some());
    }

    pub fn address(&self) -> SocketAddr {
        self.with(|client| client.local)
    }

    /// Waits for what this connection leaves for the next one.
    #[track_caller]
    pub fn resumption_data(&mut self) -> ResumptionData {
        self.run_open_until(|client| ResumptionData::of(&client.quic).is_complete());
        self.with(|client| ResumptionData::of(&client.quic))
    }

    /// Marks that the connection has seen.
    pub fn ecn_stats(&self) -> EcnStats {
        self.with(|client| client.quic.ecn_stats())
    }

    /// How many requests more the server takes now.
    pub fn requests_left(&self) -> u64 {
        self.with(|client| client.quic.peer_streams_left_bidi())
    }

    /// Whether the handshake resumed a session.
    pub fn is_resumed(&self) -> bool {
        self.with(|client| client.quic.is_resumed())
    }

    /// Whether the server took early data.
    pub fn early_data_accepted(&self) -> bool {
        // BoringSSL's ssl_early_data_accepted.
        self.with(|client| client.quic.early_data_reason() == 2)
    }

    /// The certificate that the server presented, in DER form.
    pub fn certificate(&self) -> Vec<u8> {
        self.with(|client| client.quic.peer_cert().unwrap().to_vec())
    }

    /// Sends a request of these headers. Returns its stream.
    pub fn request_with(&mut self, headers: &[(&str, &str)]) -> u64 {
        self.with(|client| client.send_headers(headers, true))
    }

    /// Sends a request without a body. Returns its stream.
    pub fn request(&mut self, method: &str, path: &str) -> u64 {
        self.request_with(&fields(method, path, &[]))
    }

    /// Asks for `path` with these fields besides. Returns its stream.
    pub fn ask(&mut self, path: &str, more: &[(&str, &str)]) -> u64 {
        self.request_with(&fields("GET", path, more))
    }

    /// Posts content with these fields. Returns its stream.
    pub fn post(&mut self, path: &str, content: Vec<u8>, more: &[(&str, &str)]) -> u64 {
        self.with(|client| {
            let stream = client.send_headers(&fields("POST", path, more), false);
            client.uploads.insert(stream, content);
            stream
        })
    }

    /// Sends a request that [`end_with_trailers()`](Self::end_with_trailers) ends. Returns
    /// its stream.
    pub fn open_request(&mut self, path: &str) -> u64 {
        self.with(|client| client.send_headers(&fields("GET", path, &[]), false))
    }

    pub fn end_with_trailers(&mut self, stream: u64) {
        let trailers = [h3::Header::new(b"x-sum", b"1")];
        self.with(|client| {
            let http = client.http.as_mut().unwrap();
            http.send_additional_headers(&mut client.quic, stream, &trailers, true, true).unwrap();
        });
    }

    /// Sends a PRIORITY_UPDATE for a stream.
    pub fn prioritize(&mut self, stream: u64, urgency: u8, incremental: bool) {
        let priority = h3::Priority::new(urgency, incremental);
        self.with(|client| {
            let http = client.http.as_mut().unwrap();
            http.send_priority_update_for_request(&mut client.quic, stream, &priority).unwrap();
        });
    }

    /// Asks the server to send no more of a response.
    pub fn stop(&mut self, stream: u64) {
        let code = h3::WireErrorCode::RequestCancelled as u64;
        self.with(|client| client.quic.stream_shutdown(stream, Shutdown::Read, code).unwrap());
    }

    /// How much of a body has come.
    pub fn received_bytes(&self, stream: u64) -> usize {
        self.with(|client| client.received.body_bytes(stream))
    }

    /// Waits until so many bytes of a body have come.
    #[track_caller]
    pub fn receive(&mut self, stream: u64, bytes_min: usize) {
        self.run_open_until(|client| client.received.body_bytes(stream) >= bytes_min);
    }

    /// Waits until a response has ended one way or the other.
    #[track_caller]
    pub fn response(&mut self, stream: u64) -> ClientResponse {
        self.run_open_until(|client| client.received.has_ended(stream));
        self.with(|client| client.received.responses.remove(&stream).unwrap())
    }

    /// A whole GET.
    #[track_caller]
    pub fn get(&mut self, path: &str) -> ClientResponse {
        self.get_with(path, &[])
    }

    /// A whole GET with these fields.
    #[track_caller]
    pub fn get_with(&mut self, path: &str, more: &[(&str, &str)]) -> ClientResponse {
        let stream = self.ask(path, more);
        self.response(stream)
    }

    /// Waits for so many GOAWAY frames. Returns the streams from which on requests are not
    /// answered.
    #[track_caller]
    pub fn goaways(&mut self, count: usize) -> Vec<u64> {
        self.run_open_until(|client| client.received.goaways.len() >= count);
        self.with(|client| client.received.goaways.clone())
    }

    /// Waits until the server closes the connection. Returns its code.
    #[track_caller]
    pub fn closed(&mut self) -> u64 {
        self.run_until(|client| client.quic.peer_error().is_some() || client.quic.is_closed());
        self.with(|client| match client.quic.peer_error() {
            Some(error) => error.error_code,
            None => panic!("the server has not closed it: {:?}", client.why_closed()),
        })
    }

    /// Waits until the connection is gone. Returns whether the server said so, and did not
    /// just fall silent.
    #[track_caller]
    pub fn is_reset(&mut self) -> bool {
        self.run_until(|client| client.quic.is_closed());
        self.with(|client| !client.quic.is_timed_out())
    }

    /// Wakes up, and waits for the connection's end. Returns whether the server has closed it with
    /// this code, or knows it no more: no window may have had room for the code.
    #[track_caller]
    pub fn is_closed_by(&mut self, code: u64) -> bool {
        self.wake_up();
        self.is_reset()
            && self.with(|client| client.quic.peer_error().is_none_or(|e| e.error_code == code))
    }

    /// Closes the connection.
    pub fn close(&mut self) {
        self.with(|client| {
            let _ = client.quic.close(true, 0x100, b"");
        });
        self.server.lab().settle();
    }

    /// Reads nothing and sends nothing from now on; what comes is kept.
    pub fn fall_silent(&mut self) {
        // What was asked before is on its way.
        self.server.lab().settle();
        self.with(|client| (client.deaf, client.mute) = (true, true));
    }

    /// Reads, but sends nothing from now on.
    pub fn fall_mute(&mut self) {
        self.with(|client| client.mute = true);
    }

    /// Reads the packets that have arrived, and responds.
    pub fn wake_up(&mut self) {
        self.with(|client| (client.deaf, client.mute) = (false, false));
    }

    /// Vanishes: nothing of it comes any more, nor reaches it.
    pub fn vanish(self) {
        self.with(|client| client.gone = true);
    }

    /// Datagrams that went out to the server, and those that the server has sent.
    pub fn datagrams(&self) -> (Vec<Offered>, Vec<Offered>) {
        self.server.lab().datagrams(self.endpoint)
    }

    /// Sends from another address from now on, as behind a NAT that has forgotten it.
    pub fn rebind(&mut self, to: impl Into<IpAddr>) {
        let address = self.server.lab().client_address(to.into());
        self.server.lab().rebind(self.endpoint, address);
    }

    /// Sends a datagram from its address, whatever it is.
    pub fn send_raw(&mut self, datagram: Vec<u8>) {
        let to = self.server.address();
        self.server.lab().send_from(self.endpoint, to, datagram);
    }

    /// Takes the datagrams that it would send now, which a test sends later.
    pub fn hold_back(&mut self) -> Vec<Vec<u8>> {
        self.with(|client| client.send().into_iter().map(|datagram| datagram.bytes).collect())
    }

    /// The connection ID that it sends to.
    pub fn destination_id(&self) -> Vec<u8> {
        self.with(|client| client.quic.destination_id().to_vec())
    }

    /// Acknowledges everything that comes from now on, and so many packets more, until the
    /// server closes the connection. Returns its code.
    #[track_caller]
    pub fn acknowledge_ahead(&mut self, ahead: u32) -> u64 {
        self.server.lab().settle();
        self.with(|client| {
            let sent = client.quic.stats().sent as u64;
            let forger = Forger::new(&client.keys, &client.quic.destination_id(), sent);
            client.forger = Some((forger, ahead));
            client.mute = true;
        });
        self.closed()
    }
}

/// A client as the harness drives it.
pub struct ClientState {
    pub quic: quiche::Connection,
    local: SocketAddr,
    server: SocketAddr,
    http: Option<h3::Connection>,
    pub received: ReceivedResponses,

    /// Content of requests that has not been sent.
    uploads: BTreeMap<u64, Vec<u8>>,

    /// Datagrams that came and were not looked at.
    kept: Vec<Datagram>,

    datagrams_received: u32,

    deaf: bool,
    mute: bool,
    gone: bool,

    /// Something was asked of it since its last turn.
    pub touched: bool,

    keys: KeyLog,
    forger: Option<(Forger, u32)>,
}

impl ClientState {
    fn new(
        name: Option<&str>,
        local: SocketAddr,
        server: SocketAddr,
        limits: ClientLimits,
        ecn: Option<EcnConfig>,
        resumption: &ResumptionData,
    ) -> Self {
        let mut config = client_config_with(limits);
        config.log_keys();
        config.set_ecn(ecn);
        let id = local.port().to_be_bytes();
        let id = ConnectionId::from_ref(&id);
        let mut quic = quiche::connect(name, &id, local, server, &mut config).unwrap();
        let keys = KeyLog::default();
        quic.set_keylog(Box::new(keys.clone()));
        resumption.offer(&mut quic);
        Self {
            quic,
            local,
            server,
            http: None,
            received: ReceivedResponses::default(),
            uploads: BTreeMap::new(),
            kept: Vec::new(),
            datagrams_received: 0,
            deaf: false,
            mute: false,
            gone: false,
            touched: true,
            keys,
            forger: None,
        }
    }

    /// The server that it talks to.
    pub fn server(&self) -> SocketAddr {
        self.server
    }

    fn why_closed(&self) -> impl std::fmt::Debug + '_ {
        (self.quic.peer_error(), self.quic.local_error(), self.quic.is_timed_out())
    }

    /// When it has something to do, if nothing comes.
    pub fn deadline(&self) -> Option<Instant> {
        self.quic.timeout_instant().filter(|_| !self.gone)
    }

    pub fn on_datagram(&mut self, datagram: Datagram) {
        self.datagrams_received += 1;
        self.kept.push(datagram);
        self.touched = true;
    }

    /// Reads, and answers. Returns the datagrams that it sends.
    pub fn turn(&mut self, now: Instant) -> Vec<Datagram> {
        self.touched = false;
        if self.gone {
            return Vec::new();
        }
        if self.deadline().is_some_and(|at| at <= now) {
            self.quic.on_timeout();
        }
        let mut forged = Vec::new();
        if !self.deaf {
            for mut datagram in std::mem::take(&mut self.kept) {
                let info = RecvInfo { from: self.server, to: self.local };
                let _ = self.quic.recv_ecn(&mut datagram.bytes, info, datagram.ecn);
                if let Some((forger, ahead)) = &mut self.forger {
                    let bytes = forger.acknowledge(self.datagrams_received + *ahead);
                    forged.push(Datagram { bytes, ecn: Codepoint::NotEct });
                }
            }
            self.poll();
        }
        match self.mute {
            true => forged,
            false => self.send(),
        }
    }

    fn start_early(&mut self) {
        assert!(self.quic.is_in_early_data(), "the session takes no early data");
        self.start_http();
    }

    fn start_http(&mut self) {
        let http = h3::Connection::with_transport(&mut self.quic, &h3::Config::new().unwrap());
        self.http = Some(http.unwrap());
    }

    fn send_headers(&mut self, headers: &[(&str, &str)], last: bool) -> u64 {
        let header =
            |(name, value): &(&str, &str)| h3::Header::new(name.as_bytes(), value.as_bytes());
        let headers: Vec<_> = headers.iter().map(header).collect();
        self.http.as_mut().unwrap().send_request(&mut self.quic, &headers, last).unwrap()
    }

    fn send(&mut self) -> Vec<Datagram> {
        self.push_uploads();
        let mut sent = Vec::new();
        let mut packet = [0; PACKET_BYTES_MAX];
        while let Ok((length, _)) = self.quic.send(&mut packet) {
            sent.push(Datagram { bytes: packet[..length].to_vec(), ecn: self.quic.sent_ecn() });
        }
        sent
    }

    /// Hands the transport what it takes of uploads.
    fn push_uploads(&mut self) {
        let Some(http) = &mut self.http else { return };
        self.uploads.retain(|stream, content| {
            match http.send_body(&mut self.quic, *stream, content, true) {
                Ok(count) if count < content.len() => drop(content.drain(..count)),
                Err(h3::Error::Done) => (),
                // All of it, or the server wants no more.
                _ => return false,
            }
            true
        });
    }

    fn poll(&mut self) {
        if self.http.is_none() && self.quic.is_established() {
            self.start_http();
        }
        let Some(http) = &mut self.http else { return };
        self.received.poll(http, &mut self.quic);
    }
}

fn fields<'a>(
    method: &'a str,
    path: &'a str,
    more: &[(&'a str, &'a str)],
) -> Vec<(&'a str, &'a str)> {
    let start =
        [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
    [&start[..], more].concat()
}

/// The first packet of a handshake that nobody goes on with.
pub fn first_packet(from: SocketAddr, server: SocketAddr) -> Vec<u8> {
    let id = from.port().to_be_bytes();
    let id = ConnectionId::from_ref(&id);
    let config = &mut client_config();
    let mut quic = quiche::connect(Some("localhost"), &id, from, server, config).unwrap();
    let mut packet = vec![0; PACKET_BYTES_MAX];
    let (length, _) = quic.send(&mut packet).unwrap();
    packet.truncate(length);
    packet
}
