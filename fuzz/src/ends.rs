//! Ends of a connection, server and client, in one thread. Packets are not protected: the
//! library is built for fuzzing.

use std::net::SocketAddr;
use std::task::Waker;
use std::time::UNIX_EPOCH;

use ab_test::ClientUnit;
use quiche::clock;
use quiche::h3;
use quiche::BufFactory;
use quiche::ConnectionId;
use quiche::RecvInfo;

use crate::admission::file_limits::FileAccount;
use crate::admission::file_limits::FileLimiter;
use crate::config;
use crate::config::limits::Limits;
use crate::config::Config;
use crate::content::hosts::VirtualHosts;
use crate::content::read_pool::CheckTicket;
use crate::h3::RequestContext;
use crate::h3::Session;
use crate::quic::certificate::Certificates;
use crate::quic::controllers::HostControllers;
use crate::quic::secrets;
use crate::quic::Quic;
use crate::quic::Transport;

const PACKET_BYTES_MAX: usize = 1500;
const SERVER_ID: [u8; 16] = [2; 16];
const CLIENT_ID: [u8; 16] = [1; 16];

/// Root folder of the server.
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/seeds");

/// A packet number of four bytes, far ahead of what a client has sent.
const SHORT_HEADER: u8 = 0x43;
const FIRST_NUMBER: u32 = 1000;

/// Placeholder for a packet's authentication tag.
const TAG: [u8; 16] = [0xa5; 16];

/// Settings of both ends, from which connections are made.
pub struct Listener {
    config: Config,
    transport: Transport,

    /// Takes as long to create as a handshake.
    client_config: quiche::Config,
}

/// Both ends of a connection.
pub struct Ends {
    client: quiche::Connection,
    server: Quic,
    session: Session,
    virtual_hosts: VirtualHosts,
    limits: Limits,
    files: FileAccount,
    scratch: Vec<u8>,
    number: u32,
}

fn addresses() -> [SocketAddr; 2] {
    [1, 2].map(|port| ([127, 0, 0, 1], port).into())
}

/// Returns a client's settings.
fn client_config() -> quiche::Config {
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
    config.set_application_protos(h3::APPLICATION_PROTOCOL).unwrap();
    config.verify_peer(false);
    config.set_initial_max_data(10 << 20);
    config.set_initial_max_stream_data_bidi_local(1 << 20);
    config.set_initial_max_stream_data_uni(1 << 20);
    config.set_initial_max_streams_uni(3);
    config
}

impl Listener {
    /// Creates ends with the settings of edge-server.
    pub fn new() -> Self {
        let words = ["edge-server", "--listen", "127.0.0.1:0", "--speedtest", "--root", FILES];
        let config = config::parse(words).unwrap();
        let certificates = Certificates::read(&config).unwrap();
        let secrets = secrets::open(None).unwrap();
        let (cli, controllers) = (&config.flags, HostControllers::default());
        let transport =
            Transport::new(cli, &cli.listen[0], &certificates, &controllers, secrets).unwrap();
        Self { config, transport, client_config: client_config() }
    }

    fn accept(&mut self) -> Quic {
        let [here, there] = addresses();
        let id = ConnectionId::from_ref(&SERVER_ID);
        quiche::accept_with_buf_factory(&id, None, there, here, &mut self.transport.quic).unwrap()
    }

    /// Gives a client's first datagrams to a server that has no client.
    pub fn receive_first<'a>(&mut self, datagrams: impl Iterator<Item = &'a [u8]>) {
        let [here, there] = addresses();
        let mut server = self.accept();
        for datagram in datagrams {
            let mut datagram = datagram.to_vec();
            let _ = server.recv(&mut datagram, RecvInfo { from: here, to: there });
            discard_packets(&mut server);
        }
    }

    /// Connects both ends.
    pub fn connect(&mut self) -> Ends {
        let [here, there] = addresses();
        let id = ConnectionId::from_ref(&CLIENT_ID);
        let mut client =
            quiche::connect(Some("localhost"), &id, here, there, &mut self.client_config).unwrap();
        let mut server = self.accept();
        while transfer(&mut client, &mut server) | transfer(&mut server, &mut client) {}
        assert!(client.is_established() && server.is_established());
        let limits = self.config.flags.limits.clone();
        let settings = &self.transport.http;
        let session = Session::new(&mut server, settings, &limits, false, clock::now()).unwrap();
        let virtual_hosts = VirtualHosts::open(&self.config).unwrap();
        let files = FileLimiter::default().account(there.ip().into(), ClientUnit::of(there.ip()));
        let scratch = vec![0; 1 << 16];
        let number = FIRST_NUMBER;
        Ends { client, server, session, virtual_hosts, limits, files, scratch, number }
    }
}

impl Default for Listener {
    fn default() -> Self {
        Self::new()
    }
}

impl Ends {
    /// Sends the server a packet with these frames.
    pub fn on_frames(&mut self, frames: &[u8]) {
        let [here, there] = addresses();
        let number = self.number.to_be_bytes();
        self.number += 1;
        let mut packet = [&[SHORT_HEADER], &SERVER_ID[..], &number, frames, &TAG].concat();
        let _ = self.server.recv(&mut packet, RecvInfo { from: here, to: there });
        self.serve();
        discard_packets(&mut self.server);
    }

    /// Sends the server data of a stream.
    pub fn on_stream(&mut self, id: u64, bytes: &[u8], last: bool) {
        let _ = self.client.stream_send(id, bytes, last);
        transfer(&mut self.client, &mut self.server);
        self.serve();
        transfer(&mut self.server, &mut self.client);
    }

    fn serve(&mut self) {
        let (virtual_hosts, limits, files, scratch) =
            (&self.virtual_hosts, &self.limits, &self.files, &mut self.scratch[..]);
        let fetch = &mut |_, _| ();
        let mut context = RequestContext {
            virtual_hosts,
            limits,
            files,
            scratch,
            now: clock::now(),
            wall_now: UNIX_EPOCH,
            resume: None,
            fetch,
            waker: &|_| Waker::noop().clone(),
            check: &|_, _| Ok(CheckTicket::default()),
        };
        self.session.read_requests(&mut self.server, &mut context);
        self.session.write(&mut self.server, &mut context);
    }
}

/// Drops the packets that an end has to send.
fn discard_packets<F: BufFactory>(end: &mut quiche::Connection<F>) {
    while end.send(&mut [0; PACKET_BYTES_MAX]).is_ok() {}
}

/// Moves packets from one end to the other. Returns whether there were any.
fn transfer<A: BufFactory, B: BufFactory>(
    from: &mut quiche::Connection<A>,
    to: &mut quiche::Connection<B>,
) -> bool {
    let mut any = false;
    let mut packet = [0; PACKET_BYTES_MAX];
    while let Ok((length, info)) = from.send(&mut packet) {
        any = true;
        let _ = to.recv(&mut packet[..length], RecvInfo { from: info.from, to: info.to });
    }
    any
}
