//! The UDP socket of one connection: connected to the server, a large receive
//! buffer, many packets a system call.

use std::fs;
use std::io;
use std::io::IoSliceMut;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;

use quinn_udp::RecvMeta;
use quinn_udp::UdpSocketState;
use socket2::Domain;
use socket2::Protocol;
use socket2::Type;

/// Receive buffer asked of the kernel, in bytes: a quarter of a second at
/// 500 Mbit/s. What does not fit is dropped and looks like loss on the path.
const RECEIVE_BUFFER: usize = 16 << 20;

/// Datagrams taken with one system call, and so the most that one
/// acknowledgement waits for. With GRO each may be a train of packets.
const BATCH: usize = 16;

/// Longest train that the kernel builds, in bytes.
const TRAIN: usize = 64 << 10;

/// A socket that talks to one server.
pub struct Socket {
    socket: UdpSocket,
    offloads: UdpSocketState,
    local: SocketAddr,
    peer: SocketAddr,
}

/// Memory to receive a batch into, for any number of sockets.
pub struct BatchMemory(Box<[u8]>);

impl BatchMemory {
    pub fn new() -> Self {
        Self(vec![0; BATCH * TRAIN].into_boxed_slice())
    }
}

impl Socket {
    /// Binds to `local` (any address if `None`), any port, and connects: the
    /// kernel then reports a closed port, and drops what others send.
    pub fn connect(local: Option<IpAddr>, peer: SocketAddr) -> io::Result<Self> {
        let any: IpAddr = match peer {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket =
            socket2::Socket::new(Domain::for_address(peer), Type::DGRAM, Some(Protocol::UDP))?;
        enlarge_receive_buffer(&socket);
        socket.bind(&SocketAddr::new(local.unwrap_or(any), 0).into())?;
        socket.connect(&peer.into())?;

        let socket = UdpSocket::from(socket);
        // Also makes the socket non-blocking.
        let offloads = UdpSocketState::new((&socket).into())?;
        Ok(Self { local: socket.local_addr()?, socket, offloads, peer })
    }

    /// The address packets leave from.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// The server's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Sends one packet. A full send buffer loses it, as a network would.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        match self.socket.send(packet) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Packets that the kernel dropped because the receive buffer was full, if
    /// the system tells (Linux does).
    pub fn dropped(&self) -> Option<u64> {
        let link = format!("/proc/self/fd/{}", self.socket.as_raw_fd());
        let inode = fs::metadata(link).ok()?.ino();
        let table = match self.local {
            SocketAddr::V4(_) => "/proc/net/udp",
            SocketAddr::V6(_) => "/proc/net/udp6",
        };
        drops_of(inode, &fs::read_to_string(table).ok()?)
    }

    /// Receives one batch and hands it to `take`, packet by packet. `false`
    /// when nothing was waiting.
    pub fn receive(
        &self,
        memory: &mut BatchMemory,
        mut take: impl FnMut(&mut [u8]),
    ) -> io::Result<bool> {
        let mut meta = [RecvMeta::default(); BATCH];
        let mut trains: Vec<_> = memory.0.chunks_exact_mut(TRAIN).map(IoSliceMut::new).collect();

        let received = self.offloads.recv((&self.socket).into(), &mut trains, &mut meta);
        let count = match received {
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) => return Err(e),
        };
        drop(trains);

        for (train, meta) in memory.0.chunks_exact_mut(TRAIN).zip(&meta[..count]) {
            // An empty datagram has a stride of zero.
            for packet in train[..meta.len].chunks_mut(meta.stride.max(1)) {
                take(packet);
            }
        }
        Ok(count > 0)
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// The last column of the line of `table` (proc(5)) that is about `inode`.
fn drops_of(inode: u64, table: &str) -> Option<u64> {
    const INODE: usize = 9;
    const DROPS: usize = 12;

    table.lines().skip(1).find_map(|line| {
        let columns: Vec<_> = line.split_whitespace().collect();
        let found = columns.get(INODE)?.parse() == Ok(inode);
        if found {
            columns.get(DROPS)?.parse().ok()
        } else {
            None
        }
    })
}

/// Past the system's limit where the process may (CAP_NET_ADMIN), else up to
/// net.core.rmem_max.
fn enlarge_receive_buffer(socket: &socket2::Socket) {
    let forced = rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, RECEIVE_BUFFER);
    if forced.is_ok() {
        return;
    }
    if let Err(e) = socket.set_recv_buffer_size(RECEIVE_BUFFER) {
        log::info!("cannot enlarge the receive buffer: {e}");
    }
    // The kernel doubles what it grants.
    if let Ok(granted) = socket.recv_buffer_size() {
        if granted < 2 * RECEIVE_BUFFER {
            log::info!(
                "the receive buffer has {granted} bytes; raise \
                 net.core.rmem_max to {RECEIVE_BUFFER} if packets are lost"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (UdpSocket, Socket) {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let local = Some("127.0.2.1".parse().unwrap());
        let socket = Socket::connect(local, server.local_addr().unwrap()).unwrap();
        server.connect(socket.local()).unwrap();
        (server, socket)
    }

    fn receive_all(socket: &Socket) -> Vec<Vec<u8>> {
        let mut memory = BatchMemory::new();
        let mut packets = Vec::new();
        while socket.receive(&mut memory, |p| packets.push(p.to_vec())).unwrap() {}
        packets
    }

    #[test]
    fn packets_keep_their_order_and_their_edges_across_batches() {
        let (server, socket) = pair();
        assert_eq!(socket.local().ip().to_string(), "127.0.2.1");
        let sent: Vec<_> = (0..2 * BATCH + 3).map(|i| vec![i as u8; 100 + i]).collect();
        for packet in &sent {
            server.send(packet).unwrap();
        }
        assert_eq!(receive_all(&socket), sent);
    }

    #[test]
    fn a_train_is_taken_apart() {
        let (server, socket) = pair();
        let sender = UdpSocketState::new((&server).into()).unwrap();
        let train: Vec<u8> = (0..10).flat_map(|i| [i; 1200]).collect();
        let transmit = quinn_udp::Transmit {
            destination: socket.local(),
            ecn: None,
            contents: &train[..11_000],
            segment_size: Some(1200),
            src_ip: None,
        };
        if sender.max_gso_segments() < 10 {
            return;
        }
        sender.try_send((&server).into(), &transmit).unwrap();

        let sizes: Vec<_> = receive_all(&socket).iter().map(Vec::len).collect();
        assert_eq!(sizes, [[1200; 9].as_slice(), &[200]].concat());
    }

    #[test]
    fn an_empty_datagram_is_no_packet() {
        let (server, socket) = pair();
        server.send(&[]).unwrap();
        server.send(b"x").unwrap();
        assert_eq!(receive_all(&socket), [b"x"]);
    }

    #[test]
    fn packets_that_find_the_buffer_full_are_counted() {
        let (server, socket) = pair();
        assert_eq!(socket.dropped(), Some(0));
        // Every packet takes more of the buffer than its own size.
        for _ in 0..2 * RECEIVE_BUFFER / 1000 {
            server.send(&[0; 1000]).unwrap();
        }
        assert!(socket.dropped().unwrap() > 0);
    }
}
