//! HTTP/3 server that resumes: sends 4 MB to each client, one client at a time, and starts a
//! later download from the same subnet at half of what an earlier one reached (RFC 9959).
//!
//!     cargo run --example resuming_server -- 127.0.0.1:4433
//!
//! Careful Resume has three duties for an application: to send each packet when it is due, to write
//! whenever the window may have opened, and to give saved parameters to one connection at a time.

use std::net::UdpSocket;
use std::time::Duration;

use quiche::careful_resume::CarefulResumeConfig;
use quiche::careful_resume::Phase;
use quiche::clock;
use quiche::h3;
use quiche::path_state::Claim;
use quiche::path_state::MemoryStore;
use quiche::path_state::PathStateStore;
use quiche::path_state::PrefixLengths;
use quiche::path_state::RemoteEndpoint;
use quiche::path_state::StoreError;

static BODY: [u8; 4_000_000] = [0; 4_000_000];

/// Longest sleep: packets that come meanwhile wait. edge-server waits in epoll, with a timerfd.
const NAP: Duration = Duration::from_micros(200);

fn main() -> Result<(), StoreError> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:4433".to_owned());
    let socket = UdpSocket::bind(address)?;
    println!("listening on {}", socket.local_addr()?);

    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION)?;
    let pem = concat!(env!("CARGO_MANIFEST_DIR"), "/../quiche/examples/cert");
    config.load_cert_chain_from_pem_file(&format!("{pem}.crt"))?;
    config.load_priv_key_from_pem_file(&format!("{pem}.key"))?;
    config.set_application_protos(h3::APPLICATION_PROTOCOL)?;
    config.set_initial_max_data(1 << 20);
    config.set_initial_max_stream_data_bidi_remote(1 << 16);
    config.set_initial_max_stream_data_uni(1 << 16);
    config.set_initial_max_streams_bidi(16);
    config.set_initial_max_streams_uni(16);
    config.set_max_idle_timeout(5_000);
    config.set_careful_resume(CarefulResumeConfig::default())?;

    let store = MemoryStore::new(1000);
    loop {
        serve_one(&socket, &mut config, &store)?;
    }
}

/// Serves the next client until its connection is closed.
fn serve_one(
    socket: &UdpSocket,
    config: &mut quiche::Config,
    store: &dyn PathStateStore,
) -> Result<(), StoreError> {
    let mut buffer = vec![0; 65_535];
    let local = socket.local_addr()?;
    socket.set_nonblocking(false)?;
    let (len, client) = socket.recv_from(&mut buffer)?;
    socket.set_nonblocking(true)?;
    let Ok(header) = quiche::Header::from_slice(&mut buffer[..len], quiche::MAX_CONN_ID_LEN) else {
        return Ok(());
    };
    if header.ty != quiche::Type::Initial {
        return Ok(());
    }
    let mut quic = quiche::accept(&header.dcid, None, local, client, config)?;
    quic.recv(&mut buffer[..len], quiche::RecvInfo { from: client, to: local })?;

    let sender = local.ip().to_string();
    let endpoint = RemoteEndpoint::new(&sender, client.ip(), PrefixLengths::default());
    let mut claim = None;
    let mut response = Response::default();
    while !quic.is_closed() {
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            // A packet that cannot be read is dropped.
            let _ = quic.recv(&mut buffer[..len], quiche::RecvInfo { from, to: local });
        }
        if quic.timeout().is_some_and(|left| left.is_zero()) {
            quic.on_timeout();
        }
        let begins = response.write(&mut quic)?;
        if begins {
            claim = resume(&mut quic, store, &endpoint)?;
        }
        follow(&mut quic, store, &endpoint, &mut claim)?;
        send_due(socket, &mut quic, &mut buffer);
        std::thread::sleep(NAP);
    }
    if let Some(observed) = quic.path_state() {
        store.record(&endpoint, &observed)?;
    }
    Ok(())
}

/// The body on its way to the client.
#[derive(Default)]
struct Response {
    http: Option<h3::Connection>,
    stream: Option<u64>,
    written_bytes: usize,
}

impl Response {
    /// Reads the request and writes as much of the body as the transport takes. Returns whether the
    /// response begins.
    fn write(&mut self, quic: &mut quiche::Connection) -> Result<bool, h3::Error> {
        if self.http.is_none() && quic.is_established() {
            let config = h3::Config::new()?;
            self.http = Some(h3::Connection::with_transport(quic, &config)?);
        }
        let Some(http) = &mut self.http else { return Ok(false) };
        let mut begins = false;
        while let Ok((stream, event)) = http.poll(quic) {
            if let h3::Event::Headers { .. } = event {
                http.send_response(quic, stream, &[h3::Header::new(b":status", b"200")], false)?;
                (self.stream, self.written_bytes, begins) = (Some(stream), 0, true);
            }
        }
        // Until the transport takes no more: one chunk an event would waste the jump.
        while let Some(stream) = self.stream {
            match http.send_body(quic, stream, &BODY[self.written_bytes..], true) {
                Ok(written) => self.written_bytes += written,
                Err(_) => break,
            }
            if self.written_bytes == BODY.len() {
                self.stream = None;
            }
        }
        Ok(begins)
    }
}

/// Gives the connection the saved parameters of its path, if no other connection has them. Not
/// before the handshake is complete, which validates the client's address.
fn resume(
    quic: &mut quiche::Connection,
    store: &dyn PathStateStore,
    endpoint: &RemoteEndpoint,
) -> Result<Option<Claim>, StoreError> {
    let rtt = quic.path_stats().find(|path| path.active).map(|path| path.rtt);
    let claim = store.claim(endpoint, rtt.unwrap_or_default())?;
    if let Some(claim) = &claim {
        quic.careful_resume_from(claim.state, clock::now() + claim.lease)?;
    }
    Ok(claim)
}

/// Follows Careful Resume: a retreat deletes what was saved (RFC 9959, 3.5), any end gives the claim
/// back and keeps what was observed.
fn follow(
    quic: &mut quiche::Connection,
    store: &dyn PathStateStore,
    endpoint: &RemoteEndpoint,
    claim: &mut Option<Claim>,
) -> Result<(), StoreError> {
    for event in quic.careful_resume_events() {
        println!("{:?}, {:?}", event.new, event.trigger);
        match event.new {
            Phase::SafeRetreat => {
                if let Some(Claim { token, state, .. }) = claim.take() {
                    store.forget(endpoint, token, state.observed)?;
                }
            }
            Phase::Normal => {
                if let Some(observed) = quic.path_state() {
                    store.record(endpoint, &observed)?;
                }
                if let Some(Claim { token, .. }) = claim.take() {
                    store.release(endpoint, token)?;
                }
            }
            Phase::Reconnaissance | Phase::Unvalidated | Phase::Validating => (),
        }
    }
    Ok(())
}

/// Sends every packet whose release time has come (RFC 9959, 3.3).
fn send_due(socket: &UdpSocket, quic: &mut quiche::Connection, buffer: &mut [u8]) {
    while quic.get_next_release_time().and_then(|at| at.time(clock::now())).is_none() {
        let Ok((len, info)) = quic.send(buffer) else { return };
        // A packet that the socket does not take is lost.
        let _ = socket.send_to(&buffer[..len], info.to);
    }
}
