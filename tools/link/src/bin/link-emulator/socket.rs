//! UDP sockets: batched receives with the kernel's time stamps, and sends of
//! several packets at a time.

use quinn_udp::EcnCodepoint;
use quinn_udp::RecvMeta;
use quinn_udp::Transmit;
use quinn_udp::UdpSocketState;
use quinn_udp::BATCH_SIZE;
use rustix::net::sockopt;
use std::io;
use std::io::IoSliceMut;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;

/// Room for what arrives while other processes have the processor: 60 ms at
/// 500 Mbit/s. The kernel may grant less.
const RECV_BUFFER_BYTES: usize = 4 << 20;

/// One receive may hold many datagrams of one sender, coalesced by the kernel.
const DATAGRAMS_BYTES_MAX: usize = 1 << 16;

/// A non-blocking UDP socket.
#[derive(Debug)]
pub struct Socket {
    udp: UdpSocket,
    state: UdpSocketState,
}

/// Where a send goes.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    pub to: SocketAddr,
    /// Source address, where the socket has several.
    pub from: Option<IpAddr>,
}

impl Socket {
    /// Takes a bound socket over.
    ///
    /// # Errors
    ///
    /// When the kernel refuses an option that every supported kernel has.
    pub fn new(udp: UdpSocket) -> io::Result<Self> {
        // Beyond the system's limit only root may go; less is no error.
        if sockopt::set_socket_recv_buffer_size_force(&udp, RECV_BUFFER_BYTES).is_err() {
            sockopt::set_socket_recv_buffer_size(&udp, RECV_BUFFER_BYTES)?;
        }
        let state = UdpSocketState::new((&udp).into())?;
        Ok(Self { udp, state })
    }

    /// The address the socket is bound to.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.udp.local_addr()
    }

    /// The most packets that one send may hold.
    pub fn packets_per_send_max(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Sends `contents`, cut into datagrams of `segment_bytes`.
    ///
    /// # Errors
    ///
    /// Those of the system call. The packets are then lost, as on any network.
    pub fn send(
        &self,
        destination: Destination,
        ecn: Option<EcnCodepoint>,
        contents: &[u8],
        segment_bytes: usize,
    ) -> io::Result<()> {
        let several = contents.len() > segment_bytes;
        let sent = self.send_once(destination, ecn, contents, several.then_some(segment_bytes));
        match sent {
            // The kernel cannot segment after all: quinn-udp has noted it.
            Err(_) if several && self.packets_per_send_max() == 1 => contents
                .chunks(segment_bytes)
                .try_for_each(|segment| self.send_once(destination, ecn, segment, None)),
            sent => sent,
        }
    }

    fn send_once(
        &self,
        destination: Destination,
        ecn: Option<EcnCodepoint>,
        contents: &[u8],
        segment_size: Option<usize>,
    ) -> io::Result<()> {
        let transmit = Transmit {
            destination: destination.to,
            ecn,
            contents,
            segment_size,
            src_ip: destination.from,
        };
        match self.state.try_send((&self.udp).into(), &transmit) {
            // Reports the fate of an earlier packet; this one was not tried.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                self.state.try_send((&self.udp).into(), &transmit)
            }
            sent => sent,
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.udp.as_fd()
    }
}

/// Memory to receive into, shared by all sockets.
#[derive(Debug)]
pub struct Receiver {
    buffer: Vec<u8>,
    metas: [RecvMeta; BATCH_SIZE],
}

/// What one receive call brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// There may be more.
    Full,
    /// The socket is empty.
    Drained,
}

impl Receiver {
    pub fn new() -> Self {
        let buffer = vec![0; BATCH_SIZE * DATAGRAMS_BYTES_MAX];
        Self { buffer, metas: [RecvMeta::default(); BATCH_SIZE] }
    }

    /// Receives once and hands each coalesced group of datagrams to `take`.
    ///
    /// # Errors
    ///
    /// Those of the system call, except that an empty socket is none. An error
    /// that tells of an earlier send is taken off the socket by being returned.
    pub fn receive(
        &mut self,
        socket: &Socket,
        mut take: impl FnMut(&RecvMeta, &[u8]),
    ) -> io::Result<Received> {
        let mut chunks = self.buffer.chunks_exact_mut(DATAGRAMS_BYTES_MAX);
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let received = socket.state.recv((&socket.udp).into(), &mut slices, &mut self.metas);
        let count = match received {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        for (meta, slice) in self.metas.iter().zip(&slices).take(count) {
            take(meta, &slice[..meta.len]);
        }
        Ok(if count == BATCH_SIZE { Received::Full } else { Received::Drained })
    }
}

/// The datagrams of a coalesced group; an empty datagram is one, too.
pub fn datagrams(group: &[u8], stride_bytes: usize) -> impl Iterator<Item = &[u8]> {
    let empty = group.is_empty().then_some(group);
    empty.into_iter().chain(group.chunks(stride_bytes.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_cut_at_its_stride() {
        let sizes =
            |group: &[u8], stride| datagrams(group, stride).map(<[u8]>::len).collect::<Vec<_>>();
        assert_eq!(sizes(&[0; 10], 4), [4, 4, 2]);
        assert_eq!(sizes(&[0; 10], 10), [10]);
        assert_eq!(sizes(&[], 0), [0]);
    }
}
