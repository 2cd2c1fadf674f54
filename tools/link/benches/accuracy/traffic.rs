//! Paced UDP through the emulator, one way or both ways at once.

use crate::clock;
use crate::clock::Moment;
use quinn_udp::RecvMeta;
use quinn_udp::Transmit;
use quinn_udp::UdpSocketState;
use quinn_udp::BATCH_SIZE;
use rustix::net::sockopt;
use std::io;
use std::io::IoSliceMut;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::time::Duration;

/// How often a sender wakes up, as a server with a pacer in user space does.
const BURST_EVERY: Duration = Duration::from_millis(1);

/// A receiver stops when nothing has come for so long.
const QUIET: Duration = Duration::from_millis(700);

const GROUP_BYTES: usize = 1 << 16;
const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Packets that are handed to the kernel with one call.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    pub packets: usize,
    /// Payload of each, in bytes.
    pub bytes: usize,
}

/// What one end sends.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub burst: Burst,
    pub every: Duration,
    pub span: Duration,
}

/// A packet that was received.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub sent: Duration,
    pub received: Duration,
    pub payload_bytes: usize,
}

/// What came out of each direction.
#[derive(Debug, Default)]
pub struct Seen {
    pub up: Vec<Arrival>,
    pub down: Vec<Arrival>,
}

/// A server's socket and a client's, with the emulator between them.
pub struct Ends {
    server: UdpSocket,
    client: UdpSocket,
    emulator: SocketAddr,
    /// How the server sees the client.
    client_seen: SocketAddr,
}

impl Load {
    /// Bursts that make `mbit_per_s` of IP packets on average.
    pub fn paced(mbit_per_s: f64, payload_bytes: usize, span: Duration) -> Self {
        let packet_bits = (payload_bytes + 28) as f64 * 8.0;
        let packets = (mbit_per_s * 1e6 * BURST_EVERY.as_secs_f64() / packet_bits).ceil();
        let every = Duration::from_secs_f64(packets * packet_bits / (mbit_per_s * 1e6));
        Self { burst: Burst { packets: packets as usize, bytes: payload_bytes }, every, span }
    }

    /// Packets of one burst.
    pub fn packets(&self) -> usize {
        self.burst.packets
    }
}

/// A socket with room for bursts.
pub fn bind() -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    if sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER_BYTES).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER_BYTES)?;
    }
    Ok(socket)
}

impl Ends {
    /// Lets the server learn how it sees the client.
    pub fn connect(server: UdpSocket, emulator: SocketAddr) -> io::Result<Self> {
        let client = bind()?;
        server.set_read_timeout(Some(Duration::from_secs(10)))?;
        client.send_to(b"hello", emulator)?;
        let (_, client_seen) = server.recv_from(&mut [0; 8])?;
        Ok(Self { server, client, emulator, client_seen })
    }

    /// Sends both loads at once and returns what came through.
    pub fn run(&self, down: Option<Load>, up: Option<Load>) -> io::Result<Seen> {
        std::thread::scope(|scope| {
            let client = scope.spawn(|| receive(&self.client));
            let server = scope.spawn(|| receive(&self.server));
            let sender = |load: Option<Load>, socket, to| {
                load.map(|load| scope.spawn(move || send(socket, to, load)))
            };
            let senders = [
                sender(down, &self.server, self.client_seen),
                sender(up, &self.client, self.emulator),
            ];
            for sender in senders.into_iter().flatten() {
                sender.join().expect("sender")?;
            }
            let down = client.join().expect("receiver")?;
            let up = server.join().expect("receiver")?;
            Ok(Seen { up, down })
        })
    }
}

fn send(socket: &UdpSocket, to: SocketAddr, load: Load) -> io::Result<()> {
    let state = UdpSocketState::new(socket.into())?;
    let Burst { packets, bytes } = load.burst;
    let mut contents = vec![0; packets * bytes];
    let started = clock::now();
    let mut due = started;
    while due < started + load.span {
        if let Some(wait) = due.checked_sub(clock::now()) {
            std::thread::sleep(wait);
        }
        let sent_ns = (clock::now().as_nanos() as u64).to_le_bytes();
        for payload in contents.chunks_mut(bytes) {
            payload[..8].copy_from_slice(&sent_ns);
        }
        let send_max = state.max_gso_segments().min(GROUP_BYTES / bytes - 1);
        for contents in contents.chunks(send_max * bytes) {
            let segment_size = Some(bytes);
            let transmit =
                Transmit { destination: to, ecn: None, contents, segment_size, src_ip: None };
            state.try_send(socket.into(), &transmit)?;
        }
        due += load.every;
    }
    Ok(())
}

/// Receives until it has been quiet for a while.
fn receive(socket: &UdpSocket) -> io::Result<Vec<Arrival>> {
    let state = UdpSocketState::new(socket.into())?;
    let mut buffer = vec![0; BATCH_SIZE * GROUP_BYTES];
    let mut metas = [RecvMeta::default(); BATCH_SIZE];
    let mut arrivals = Vec::new();
    let mut quiet_since = clock::now();
    while clock::now() - quiet_since < QUIET {
        // Half a millisecond's worth at a time leaves the processor to others.
        std::thread::sleep(BURST_EVERY / 2);
        let moment = Moment::now();
        let mut chunks = buffer.chunks_exact_mut(GROUP_BYTES);
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let count = match state.recv(socket.into(), &mut slices, &mut metas) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        quiet_since = clock::now();
        for (meta, slice) in metas.iter().zip(&slices).take(count) {
            let received = moment.arrival(meta.timestamp);
            let payloads = slice[..meta.len].chunks(meta.stride.max(1));
            arrivals.extend(payloads.filter_map(|payload| arrival(payload, received)));
        }
    }
    Ok(arrivals)
}

fn arrival(payload: &[u8], received: Duration) -> Option<Arrival> {
    let sent_ns = u64::from_le_bytes(payload.get(..8)?.try_into().ok()?);
    let sent = Duration::from_nanos(sent_ns);
    Some(Arrival { sent, received, payload_bytes: payload.len() })
}
