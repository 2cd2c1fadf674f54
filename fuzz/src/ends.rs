//! A server's side of a connection, and its client's, in one thread. Packets are not
//! protected: the library is built for fuzzing.

use std::net::SocketAddr;
use std::time::UNIX_EPOCH;

use quiche::clock;
use quiche::h3;
use quiche::BufFactory;
use quiche::ConnectionId;
use quiche::RecvInfo;

use crate::config;
use crate::config::limits::Limits;
use crate::config::Config;
use crate::content::hosts::Sites;
use crate::h3::Desk;
use crate::h3::Http;
use crate::quic::certificate::Certificates;
use crate::quic::secrets;
use crate::quic::Quic;
use crate::quic::Transport;

const PACKET_BYTES_MAX: usize = 1500;
const SERVER_ID: [u8; 16] = [2; 16];
const CLIENT_ID: [u8; 16] = [1; 16];

/// What the server serves.
const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/seeds");

/// A packet number of four bytes, far ahead of what a client has sent.
const SHORT_HEADER: u8 = 0x43;
const FIRST_NUMBER: u32 = 1000;

/// What takes the place of a packet's tag.
const TAG: [u8; 16] = [0xa5; 16];

/// What takes connections in.
pub struct Listener {
    config: Config,
    transport: Transport,

    /// The client's settings. To make them takes as long as a handshake.
    asking: quiche::Config,
}

/// Both ends of a connection.
pub struct Ends {
    client: quiche::Connection,
    server: Quic,
    http: Http,
    sites: Sites,
    limits: Limits,
    scratch: Vec<u8>,
    number: u32,
}

fn addresses() -> [SocketAddr; 2] {
    [1, 2].map(|port| ([127, 0, 0, 1], port).into())
}

/// A client's settings.
fn asking() -> quiche::Config {
    let mut asking = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
    asking.set_application_protos(h3::APPLICATION_PROTOCOL).unwrap();
    asking.verify_peer(false);
    asking.set_initial_max_data(10 << 20);
    asking.set_initial_max_stream_data_bidi_local(1 << 20);
    asking.set_initial_max_stream_data_uni(1 << 20);
    asking.set_initial_max_streams_uni(3);
    asking
}

impl Listener {
    /// One with the settings that edge-server has.
    pub fn new() -> Self {
        let words = ["edge-server", "--listen", "127.0.0.1:0", "--speedtest", "--root", FILES];
        let config = config::parse(words).unwrap();
        let certificates = Certificates::read(&config).unwrap();
        let secrets = secrets::open(None).unwrap();
        let transport = Transport::new(&config.flags, &certificates, secrets).unwrap();
        Self { config, transport, asking: asking() }
    }

    fn accept(&mut self) -> Quic {
        let [here, there] = addresses();
        let id = ConnectionId::from_ref(&SERVER_ID);
        quiche::accept_with_buf_factory(&id, None, there, here, &mut self.transport.quic).unwrap()
    }

    /// A server's side alone: a client's first datagrams come to it.
    pub fn meet<'a>(&mut self, datagrams: impl Iterator<Item = &'a [u8]>) {
        let [here, there] = addresses();
        let mut server = self.accept();
        for datagram in datagrams {
            let mut datagram = datagram.to_vec();
            let _ = server.recv(&mut datagram, RecvInfo { from: here, to: there });
            drain(&mut server);
        }
    }

    /// A connection whose handshake is over.
    pub fn connect(&mut self) -> Ends {
        let [here, there] = addresses();
        let id = ConnectionId::from_ref(&CLIENT_ID);
        let mut client =
            quiche::connect(Some("localhost"), &id, here, there, &mut self.asking).unwrap();
        let mut server = self.accept();
        while carry(&mut client, &mut server) | carry(&mut server, &mut client) {}
        assert!(client.is_established() && server.is_established());
        let limits = self.config.flags.limits.clone();
        let http = &self.transport.http;
        let http = Http::new(&mut server, http, &limits, false, clock::now()).unwrap();
        let sites = Sites::open(&self.config).unwrap();
        let scratch = vec![0; 1 << 16];
        Ends { client, server, http, sites, limits, scratch, number: FIRST_NUMBER }
    }
}

impl Default for Listener {
    fn default() -> Self {
        Self::new()
    }
}

impl Ends {
    /// A packet with these frames comes to the server.
    pub fn on_frames(&mut self, frames: &[u8]) {
        let [here, there] = addresses();
        let number = self.number.to_be_bytes();
        self.number += 1;
        let mut packet = [&[SHORT_HEADER], &SERVER_ID[..], &number, frames, &TAG].concat();
        let _ = self.server.recv(&mut packet, RecvInfo { from: here, to: there });
        self.serve();
        drain(&mut self.server);
    }

    /// Data of a stream comes to the server.
    pub fn on_stream(&mut self, id: u64, bytes: &[u8], last: bool) {
        let _ = self.client.stream_send(id, bytes, last);
        carry(&mut self.client, &mut self.server);
        self.serve();
        carry(&mut self.server, &mut self.client);
    }

    fn serve(&mut self) {
        let (sites, limits, scratch) = (&self.sites, &self.limits, &mut self.scratch[..]);
        let fetch = &mut |_, _| ();
        let mut desk =
            Desk { sites, limits, scratch, now: clock::now(), wall_now: UNIX_EPOCH, fetch };
        self.http.take_requests(&mut self.server, &mut desk);
        self.http.write(&mut self.server, &mut desk);
    }
}

/// Packets that nobody reads.
fn drain<F: BufFactory>(end: &mut quiche::Connection<F>) {
    while end.send(&mut [0; PACKET_BYTES_MAX]).is_ok() {}
}

/// Moves packets from one end to the other. Returns whether there were any.
fn carry<A: BufFactory, B: BufFactory>(
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
