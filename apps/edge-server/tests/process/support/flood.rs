//! A flood of the first packets of handshakes, from addresses that nobody reads answers
//! at.

use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use quiche::clock;
use quiche::h3;
use quiche::ConnectionId;

/// Addresses that are forged, each of another subnet.
const ADDRESSES: u32 = 500;

/// What is sent at once.
const TICK: Duration = Duration::from_millis(1);

/// Packets that are sent again and again.
pub struct Ammunition(Vec<(UdpSocket, Vec<Vec<u8>>)>);

/// A flood under way.
pub struct Flood {
    is_over: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Ammunition {
    /// So many first packets for a server.
    pub fn new(server: SocketAddr, packets: u32) -> Self {
        let mut config = client_config();
        let each = packets.div_ceil(ADDRESSES);
        let of_address = |n: u32| {
            let from = Ipv4Addr::from_bits(0x7f02_0001 + (n << 8));
            let socket = UdpSocket::bind((from, 0)).unwrap();
            let local = socket.local_addr().unwrap();
            let packets = (0..each).map(|_| first_packet(local, server, &mut config)).collect();
            (socket, packets)
        };
        Self((0..ADDRESSES).map(of_address).collect())
    }

    /// Sends so many packets a second, if the machine can, until it is told to stop.
    pub fn fire(self, server: SocketAddr, per_second: u64) -> Flood {
        let (is_over, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ends, counts) = (Arc::clone(&is_over), Arc::clone(&sent));
        let thread = thread::spawn(move || {
            let packets_max = self.0.iter().map(|(_, packets)| packets.len()).max().unwrap();
            // Neighbours in the list are of different addresses.
            let all = (0..packets_max).flat_map(|n| self.0.iter().map(move |(s, p)| (s, &p[n])));
            let mut endless = all.cycle();
            let start = clock::now();
            let mut count = 0;
            while !ends.load(Ordering::Relaxed) {
                let due = (clock::now() - start).as_micros() as u64 * per_second / 1_000_000;
                for (socket, packet) in endless.by_ref().take((due - count) as usize) {
                    // A full socket buffer loses it, as a network may.
                    let _ = socket.send_to(packet, server);
                }
                count = due;
                counts.store(count, Ordering::Relaxed);
                thread::sleep(TICK);
            }
        });
        Flood { is_over, sent, thread }
    }
}

impl Flood {
    /// Ends it. Returns how many packets it was.
    pub fn end(self) -> u64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.sent.load(Ordering::Relaxed)
    }
}

/// What [`first_packet()`] needs.
pub fn client_config() -> quiche::Config {
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).unwrap();
    config.set_application_protos(h3::APPLICATION_PROTOCOL).unwrap();
    config.verify_peer(false);
    config
}

/// The first packet of a handshake.
pub fn first_packet(local: SocketAddr, server: SocketAddr, config: &mut quiche::Config) -> Vec<u8> {
    let port = local.port().to_be_bytes();
    let id = ConnectionId::from_ref(&port);
    let mut quic = quiche::connect(Some("localhost"), &id, local, server, config).unwrap();
    let mut packet = vec![0; 1350];
    let (length, _) = quic.send(&mut packet).unwrap();
    packet.truncate(length);
    packet
}
