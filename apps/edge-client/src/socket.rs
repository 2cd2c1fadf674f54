//! UDP socket of one connection: connected to the server, a large receive buffer, many
//! packets a system call.

use std::io;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::fd::RawFd;

use quiche::ecn::Codepoint;
use udp_batch::drops;
use udp_batch::Destination;
use udp_batch::EcnCodepoint;
use udp_batch::Receiver;

/// Size of the kernel's receive buffer, in bytes: a quarter of a second at 500 Mbit/s. Packets
/// that find it full are dropped, which looks like loss on the path.
const RECEIVE_BUFFER: usize = 16 << 20;

/// Groups of packets to receive with one system call: an acknowledgement waits for all of them.
const BATCH: usize = 16;

/// A socket that talks to one server.
pub struct Socket {
    udp: udp_batch::Socket,
    peer: SocketAddr,
}

/// Returns memory to receive into, for any number of sockets.
pub fn receiver() -> Receiver {
    Receiver::new(BATCH)
}

impl Socket {
    /// Binds to `local` (any address if `None`) and any port, and connects: the kernel then
    /// reports a closed port, and drops packets of other senders.
    pub fn connect(local: Option<IpAddr>, peer: SocketAddr) -> io::Result<Self> {
        let any: IpAddr = match peer {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let udp = UdpSocket::bind((local.unwrap_or(any), 0))?;
        udp.connect(peer)?;
        let udp = udp_batch::Socket::new(udp)?;
        enlarge_receive_buffer(&udp);
        Ok(Self { udp, peer })
    }

    /// Returns the address that packets leave from.
    pub fn local(&self) -> SocketAddr {
        self.udp.local_addr()
    }

    /// Returns the server's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Sends one packet with `ecn`. If the send buffer is full, the packet is lost, as on a network.
    pub fn send(&self, packet: &[u8], ecn: Codepoint) -> io::Result<()> {
        let destination = Destination { to: self.peer, from: None };
        let ecn = EcnCodepoint::from_bits(ecn as u8);
        match self.udp.send(destination, ecn, packet, packet.len()) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
            other => other,
        }
    }

    /// Returns how many packets the kernel dropped because the receive buffer was full, if the
    /// system has such a count (Linux has).
    pub fn dropped(&self) -> Option<u64> {
        let inode = drops::inode(&self.udp).ok()?;
        drops::by_inode().get(&inode).copied()
    }

    /// Receives one batch and hands each packet with its codepoint to `take`. Returns whether there
    /// was any.
    pub fn receive(
        &self,
        receiver: &mut Receiver,
        mut take: impl FnMut(&mut [u8], Codepoint),
    ) -> io::Result<bool> {
        let mut any = false;
        receiver.receive(&self.udp, |group| {
            any = true;
            let ecn = group.ecn.map_or(Codepoint::NotEct, |ecn| Codepoint::from_bits(ecn as u8));
            let packets = group.into_datagrams().filter(|packet| !packet.is_empty());
            packets.for_each(|packet| take(packet, ecn));
        })?;
        Ok(any)
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.udp.as_raw_fd()
    }
}

fn enlarge_receive_buffer(udp: &udp_batch::Socket) {
    match udp.enlarge_receive_buffer(RECEIVE_BUFFER) {
        Ok(granted) if granted >= RECEIVE_BUFFER => (),
        Ok(granted) => log::info!(
            "the receive buffer has {granted} bytes; raise net.core.rmem_max to \
             {RECEIVE_BUFFER} if packets are lost"
        ),
        Err(e) => log::info!("cannot enlarge the receive buffer: {e}"),
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
        let mut receiver = receiver();
        let mut packets = Vec::new();
        while socket.receive(&mut receiver, |p, _| packets.push(p.to_vec())).unwrap() {}
        packets
    }

    #[test]
    fn packets_keep_the_given_address_and_order() {
        let (server, socket) = pair();
        assert_eq!(socket.local().ip().to_string(), "127.0.2.1");
        let sent: Vec<_> = (0..2 * BATCH + 3).map(|i| vec![i as u8; 100 + i]).collect();
        for packet in &sent {
            server.send(packet).unwrap();
        }
        assert_eq!(receive_all(&socket), sent);
    }

    #[test]
    fn packets_keep_their_codepoints() {
        let codepoints = [Codepoint::Ect0, Codepoint::NotEct, Codepoint::Ce, Codepoint::Ect1];
        for ip in ["127.0.0.1", "::1"] {
            let server = UdpSocket::bind((ip, 0)).unwrap();
            let client = Socket::connect(None, server.local_addr().unwrap()).unwrap();
            server.connect((ip, client.local().port())).unwrap();
            let server_address = server.local_addr().unwrap();
            let server = udp_batch::Socket::new(server).unwrap();
            let server =
                Socket { udp: server, peer: (server_address.ip(), client.local().port()).into() };
            for (from, to) in [(&client, &server), (&server, &client)] {
                let mut received = Vec::new();
                for ecn in codepoints {
                    from.send(b"x", ecn).unwrap();
                }
                while to.receive(&mut receiver(), |_, ecn| received.push(ecn)).unwrap() {}
                assert_eq!(received, codepoints, "{ip}");
            }
        }
    }

    #[test]
    fn empty_datagram_is_no_packet() {
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
