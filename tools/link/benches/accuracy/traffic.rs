//! Paced UDP traffic through the emulator, in one direction or both.

use crate::clock;
use crate::clock::Moment;
use std::io;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::time::Duration;
use udp_batch::Destination;
use udp_batch::Receiver;
use udp_batch::Socket;
use udp_batch::GROUPS_MAX;

/// Interval at which a sender wakes up, as a server with a pacer in user space does.
const BURST_EVERY: Duration = Duration::from_millis(1);

/// Time without a packet after which a receiver stops.
const QUIET: Duration = Duration::from_millis(700);

/// The most that one send may hold.
const SEND_BYTES_MAX: usize = 1 << 16;

const SOCKET_BUFFER_BYTES: usize = 4 << 20;

/// Packets that are handed to the kernel with one call.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    pub packets: usize,
    /// Payload of each, in bytes.
    pub bytes: usize,
}

/// Traffic of one end.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub burst: Burst,
    pub every: Duration,
    pub span: Duration,
}

/// A packet that was received.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedPacket {
    pub sent: Duration,
    pub received: Duration,
    pub payload_bytes: usize,
}

/// Packets received in each direction.
#[derive(Debug, Default)]
pub struct ReceivedPackets {
    pub up: Vec<ReceivedPacket>,
    pub down: Vec<ReceivedPacket>,
}

/// A server's socket and a client's, with the emulator between them.
pub struct Ends {
    server: Socket,
    client: Socket,
    emulator: SocketAddr,
    /// The client's address as the server sees it.
    client_address: SocketAddr,
}

impl Load {
    /// Returns bursts with an average rate of `mbit_per_s` of IP packets.
    pub fn paced(mbit_per_s: f64, payload_bytes: usize, span: Duration) -> Self {
        let packet_bits = (payload_bytes + 28) as f64 * 8.0;
        let packets = (mbit_per_s * 1e6 * BURST_EVERY.as_secs_f64() / packet_bits).ceil();
        let every = Duration::from_secs_f64(packets * packet_bits / (mbit_per_s * 1e6));
        Self { burst: Burst { packets: packets as usize, bytes: payload_bytes }, every, span }
    }

    /// Returns the packets of one burst.
    pub fn packets(&self) -> usize {
        self.burst.packets
    }
}

/// Binds a socket on the loopback interface.
pub fn bind() -> io::Result<UdpSocket> {
    UdpSocket::bind("127.0.0.1:0")
}

/// A socket with room for bursts.
fn open(socket: UdpSocket) -> io::Result<Socket> {
    let socket = Socket::new(socket)?;
    socket.enlarge_receive_buffer(SOCKET_BUFFER_BYTES)?;
    Ok(socket)
}

impl Ends {
    /// Lets the server learn how it sees the client.
    pub fn connect(server: UdpSocket, emulator: SocketAddr) -> io::Result<Self> {
        let client = bind()?;
        server.set_read_timeout(Some(Duration::from_secs(10)))?;
        client.send_to(b"hello", emulator)?;
        let (_, client_address) = server.recv_from(&mut [0; 8])?;
        Ok(Self { server: open(server)?, client: open(client)?, emulator, client_address })
    }

    /// Sends both loads at once and returns what came through.
    pub fn run(&self, down: Option<Load>, up: Option<Load>) -> io::Result<ReceivedPackets> {
        std::thread::scope(|scope| {
            let client = scope.spawn(|| receive(&self.client));
            let server = scope.spawn(|| receive(&self.server));
            let sender = |load: Option<Load>, socket, to| {
                load.map(|load| scope.spawn(move || send(socket, to, load)))
            };
            let senders = [
                sender(down, &self.server, self.client_address),
                sender(up, &self.client, self.emulator),
            ];
            for sender in senders.into_iter().flatten() {
                sender.join().expect("sender")?;
            }
            let down = client.join().expect("receiver")?;
            let up = server.join().expect("receiver")?;
            Ok(ReceivedPackets { up, down })
        })
    }
}

fn send(socket: &Socket, to: SocketAddr, load: Load) -> io::Result<()> {
    let destination = Destination { to, from: None };
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
        let send_max = socket.datagrams_per_send_max().min(SEND_BYTES_MAX / bytes - 1);
        for contents in contents.chunks(send_max * bytes) {
            socket.send(destination, None, contents, bytes)?;
        }
        due += load.every;
    }
    Ok(())
}

/// Receives until it has been quiet for a while.
fn receive(socket: &Socket) -> io::Result<Vec<ReceivedPacket>> {
    let mut receiver = Receiver::new(GROUPS_MAX);
    let mut arrivals = Vec::new();
    let mut quiet_since = clock::now();
    while clock::now() - quiet_since < QUIET {
        // Half a millisecond's worth at a time leaves the processor to others.
        std::thread::sleep(BURST_EVERY / 2);
        let moment = Moment::now();
        let count = arrivals.len();
        receiver.receive(socket, |group| {
            let received = moment.arrival(group.timestamp);
            let payloads = group.into_datagrams();
            arrivals.extend(payloads.filter_map(|payload| arrival(payload, received)));
        })?;
        if arrivals.len() > count {
            quiet_since = clock::now();
        }
    }
    Ok(arrivals)
}

fn arrival(payload: &[u8], received: Duration) -> Option<ReceivedPacket> {
    let sent_ns = u64::from_le_bytes(payload.get(..8)?.try_into().ok()?);
    let sent = Duration::from_nanos(sent_ns);
    Some(ReceivedPacket { sent, received, payload_bytes: payload.len() })
}
