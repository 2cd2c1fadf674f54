//! Minimal HTTP/3 server on upstream's published crate: one thread, bodies from memory, packets
//! sent in batches that the kernel segments (GSO).

use std::collections::HashMap;
use std::io;
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::time::Duration;

use bench_peers::requested_bytes;
use bench_peers::Arguments;
use bench_peers::BODY;
use mio::unix::SourceFd;
use mio::Events;
use mio::Interest;
use mio::Poll;
use mio::Token;
use quiche::h3;
use quiche::h3::NameValue;
use quiche::ConnectionId;
use quiche::RecvInfo;
use quinn_udp::RecvMeta;
use quinn_udp::Transmit;
use quinn_udp::UdpSocketState;
use quinn_udp::BATCH_SIZE;

const PACKET_BYTES: usize = 1350;
const SEND_BYTES_MAX: usize = 48 * PACKET_BYTES;
const GROUP_BYTES_MAX: usize = 1 << 16;
const ID_BYTES: usize = 16;

struct Client {
    quic: quiche::Connection,
    http: Option<h3::Connection>,

    /// Unfinished responses, by stream.
    responses: HashMap<u64, Response>,
}

/// Unsent part of a response.
struct Response {
    head: Option<[h3::Header; 2]>,
    left: usize,
}

struct Server {
    socket: UdpSocket,
    offloads: UdpSocketState,
    local: SocketAddr,
    config: quiche::Config,
    http: h3::Config,
    clients: Vec<Option<Client>>,
    by_id: HashMap<Vec<u8>, usize>,
    out: Vec<u8>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::read()?;
    let socket = UdpSocket::bind(arguments.listen)?;
    let offloads = UdpSocketState::new((&socket).into())?;
    let local = socket.local_addr()?;
    let mut poll = Poll::new()?;
    poll.registry().register(&mut SourceFd(&socket.as_raw_fd()), Token(0), Interest::READABLE)?;
    let mut server = Server {
        socket,
        offloads,
        local,
        config: config(&arguments)?,
        http: h3::Config::new()?,
        clients: Vec::new(),
        by_id: HashMap::new(),
        out: vec![0; SEND_BYTES_MAX],
    };
    eprintln!("listening on {local}");

    let mut events = Events::with_capacity(8);
    let mut buffer = vec![0; BATCH_SIZE * GROUP_BYTES_MAX];
    loop {
        poll.poll(&mut events, server.timeout())?;
        while server.receive(&mut buffer)? {}
        server.expire();
    }
}

fn config(arguments: &Arguments) -> anyhow::Result<quiche::Config> {
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION)?;
    config.load_cert_chain_from_pem_file(&arguments.cert)?;
    config.load_priv_key_from_pem_file(&arguments.key)?;
    config.set_application_protos(h3::APPLICATION_PROTOCOL)?;
    config.set_max_idle_timeout(30_000);
    config.set_max_send_udp_payload_size(PACKET_BYTES);
    config.set_initial_max_data(10 << 20);
    config.set_initial_max_stream_data_bidi_remote(1 << 20);
    config.set_initial_max_stream_data_uni(1 << 20);
    config.set_initial_max_streams_bidi(128);
    config.set_initial_max_streams_uni(16);
    Ok(config)
}

impl Server {
    fn timeout(&self) -> Option<Duration> {
        self.clients.iter().flatten().filter_map(|client| client.quic.timeout()).min()
    }

    fn expire(&mut self) {
        for slot in 0..self.clients.len() {
            let Some(client) = &mut self.clients[slot] else { continue };
            if client.quic.timeout() == Some(Duration::ZERO) {
                client.quic.on_timeout();
                self.serve(slot);
            }
        }
    }

    /// Receives a batch. Returns whether there was one.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let mut groups: Vec<_> =
            buffer.chunks_exact_mut(GROUP_BYTES_MAX).map(IoSliceMut::new).collect();
        let count = match self.offloads.recv((&self.socket).into(), &mut groups, &mut metas) {
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) => return Err(e),
        };
        let mut ready = Vec::new();
        for (meta, group) in metas.iter().zip(&mut groups).take(count) {
            for datagram in group[..meta.len].chunks_mut(meta.stride.max(1)) {
                ready.extend(self.on_datagram(meta.addr, datagram));
            }
        }
        ready.sort_unstable();
        ready.dedup();
        ready.into_iter().for_each(|slot| self.serve(slot));
        Ok(true)
    }

    fn on_datagram(&mut self, from: SocketAddr, datagram: &mut [u8]) -> Option<usize> {
        let header = quiche::Header::from_slice(datagram, ID_BYTES).ok()?;
        let slot = match self.by_id.get(header.dcid.as_ref()) {
            Some(slot) => *slot,
            None if header.ty == quiche::Type::Initial => self.accept(from, &header.dcid)?,
            None => return None,
        };
        let info = RecvInfo { from, to: self.local };
        let _ = self.clients[slot].as_mut()?.quic.recv(datagram, info);
        Some(slot)
    }

    fn accept(&mut self, from: SocketAddr, chosen: &ConnectionId<'_>) -> Option<usize> {
        let mut id = [0; ID_BYTES];
        boring::rand::rand_bytes(&mut id).ok()?;
        let scid = ConnectionId::from_ref(&id);
        let quic = quiche::accept(&scid, None, self.local, from, &mut self.config).ok()?;
        let slot = self.clients.len();
        self.clients.push(Some(Client { quic, http: None, responses: HashMap::new() }));
        self.by_id.insert(id.to_vec(), slot);
        self.by_id.insert(chosen.to_vec(), slot);
        Some(slot)
    }

    fn serve(&mut self, slot: usize) {
        let Some(client) = &mut self.clients[slot] else { return };
        loop {
            client.process(&self.http);
            if send(client, &self.socket, &self.offloads, &mut self.out) == 0 {
                break;
            }
        }
        if client.quic.is_closed() {
            self.clients[slot] = None;
            self.by_id.retain(|_, other| *other != slot);
        }
    }
}

impl Client {
    /// Handles requests and sends as much of the responses as the transport accepts.
    fn process(&mut self, config: &h3::Config) {
        if self.http.is_none() && self.quic.is_established() {
            self.http = h3::Connection::with_transport(&mut self.quic, config).ok();
        }
        let Some(http) = &mut self.http else { return };
        while let Ok((stream, event)) = http.poll(&mut self.quic) {
            let h3::Event::Headers { list, .. } = event else { continue };
            let path = list.iter().find(|field| field.name() == b":path");
            let path = path.map(|field| String::from_utf8_lossy(field.value()));
            let bytes = path.and_then(|path| requested_bytes(&path)).unwrap_or_default();
            let length = bytes.to_string();
            let head = Some([
                h3::Header::new(b":status", b"200"),
                h3::Header::new(b"content-length", length.as_bytes()),
            ]);
            self.responses.insert(stream, Response { head, left: bytes });
        }
        let quic = &mut self.quic;
        self.responses.retain(|stream, response| match response.send(http, quic, *stream) {
            Ok(()) => false,
            Err(error) => matches!(error, h3::Error::Done | h3::Error::StreamBlocked),
        });
    }
}

impl Response {
    /// Sends what the transport accepts. Returns an error unless the response is complete.
    fn send(
        &mut self,
        http: &mut h3::Connection,
        quic: &mut quiche::Connection,
        stream: u64,
    ) -> Result<(), h3::Error> {
        if let Some(head) = &self.head {
            http.send_response(quic, stream, head, self.left == 0)?;
            self.head = None;
        }
        while self.left > 0 {
            let chunk = &BODY[..BODY.len().min(self.left)];
            self.left -= http.send_body(quic, stream, chunk, chunk.len() == self.left)?;
        }
        Ok(())
    }
}

/// Sends packets until a batch is full. Returns the number of bytes sent.
fn send(
    client: &mut Client,
    socket: &UdpSocket,
    offloads: &UdpSocketState,
    out: &mut [u8],
) -> usize {
    let (mut filled, mut segment, mut sent) = (0, 0, 0);
    while filled + PACKET_BYTES <= out.len() {
        let buffer = &mut out[filled..][..PACKET_BYTES];
        let Ok((length, info)) = client.quic.send(buffer) else { break };
        // GSO requires packets of equal size, except for the last.
        if filled > 0 && length > segment {
            sent += transmit(socket, offloads, info.to, &out[..filled], segment);
            out.copy_within(filled..filled + length, 0);
            filled = 0;
        }
        if filled == 0 {
            segment = length;
        }
        filled += length;
        if length < segment {
            break;
        }
    }
    let to = client.quic.path_stats().next().map(|path| path.peer_addr);
    match to {
        Some(to) if filled > 0 => sent + transmit(socket, offloads, to, &out[..filled], segment),
        _ => sent,
    }
}

fn transmit(
    socket: &UdpSocket,
    offloads: &UdpSocketState,
    destination: SocketAddr,
    contents: &[u8],
    segment: usize,
) -> usize {
    let several = contents.len() > segment;
    let segment_size = several.then_some(segment);
    let transmit = Transmit { destination, ecn: None, contents, segment_size, src_ip: None };
    let is_full = |e: io::Error| e.kind() == io::ErrorKind::WouldBlock;
    while offloads.try_send(socket.into(), &transmit).is_err_and(is_full) {}
    contents.len()
}
