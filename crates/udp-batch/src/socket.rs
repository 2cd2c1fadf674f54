//! UDP socket: non-blocking, with many datagrams in each send.

use std::io;
use std::io::IoSliceMut;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::os::fd::RawFd;
use std::sync::PoisonError;
use std::sync::RwLock;
use std::sync::RwLockReadGuard;

use quinn_udp::EcnCodepoint;
use quinn_udp::RecvMeta;
use quinn_udp::Transmit;
use quinn_udp::UdpSocketState;
use rustix::net;
use rustix::net::sockopt;
use rustix::net::AddressFamily;
use rustix::net::SocketFlags;
use rustix::net::SocketType;

use crate::control_messages;
use crate::segmentation::Segmentation;

/// Non-blocking UDP socket, bound to one address or to all addresses.
#[derive(Debug)]
pub struct Socket {
    udp: UdpSocket,
    state: RwLock<UdpSocketState>,
    segmentation: Segmentation,
    local: SocketAddr,
}

/// Addresses of a send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    pub to: SocketAddr,

    /// Source address, used by a socket that is bound to all addresses. Without one, the
    /// kernel selects it.
    pub from: Option<IpAddr>,
}

/// Binds `count` sockets to one address. The kernel chooses one of them for each
/// datagram.
///
/// # Errors
///
/// Those of the system calls: another socket has the address, or it is not this host's.
pub fn bind_group(address: SocketAddr, count: u16) -> io::Result<Vec<Socket>> {
    // Alone, so that no other process shares the address unnoticed.
    let first = UdpSocket::bind(address)?;
    if count == 1 {
        return Ok(vec![Socket::new(first)?]);
    }
    let address = first.local_addr()?;
    drop(first);
    (0..count).map(|_| Socket::new(bind_shared(address)?)).collect()
}

impl Socket {
    /// Takes over a bound socket, also one that another process has bound (`OwnedFd`).
    ///
    /// # Errors
    ///
    /// The descriptor is not a bound UDP socket, or the kernel refuses an option that
    /// every supported kernel has.
    pub fn new(bound: impl Into<UdpSocket>) -> io::Result<Self> {
        let udp = bound.into();
        let local = udp.local_addr()?;
        let state = new_state(&udp, local)?;
        let segmentation = Segmentation::new(state.max_gso_segments());
        Ok(Self { udp, state: state.into(), segmentation, local })
    }

    /// Returns the address that the socket is bound to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Returns the socket, for calls that handle one datagram at a time.
    pub fn as_std(&self) -> &UdpSocket {
        &self.udp
    }

    /// Asks the kernel to keep `bytes` of received datagrams. Only root may ask for more
    /// than net.core.rmem_max. Returns what it grants, which may be less.
    ///
    /// # Errors
    ///
    /// Those of the system calls.
    pub fn enlarge_receive_buffer(&self, bytes: usize) -> io::Result<usize> {
        if sockopt::set_socket_recv_buffer_size_force(&self.udp, bytes).is_err() {
            sockopt::set_socket_recv_buffer_size(&self.udp, bytes)?;
        }
        // The kernel counts its own overhead, and doubles what it grants.
        Ok(sockopt::socket_recv_buffer_size(&self.udp)? / 2)
    }

    /// Asks the kernel to keep `bytes` of datagrams to be sent. It may grant less.
    ///
    /// # Errors
    ///
    /// Those of the system call.
    pub fn enlarge_send_buffer(&self, bytes: usize) -> io::Result<()> {
        Ok(sockopt::set_socket_send_buffer_size(&self.udp, bytes)?)
    }

    /// Returns the maximum number of datagrams in one send: 1 while the device refuses to segment.
    pub fn datagrams_per_send_max(&self) -> usize {
        self.segmentation.datagrams_max()
    }

    /// Sends `contents`, segmented into datagrams of `datagram_bytes`; the last may be shorter. If
    /// the device cannot segment, sends them singly, as far as the socket has room.
    ///
    /// # Errors
    ///
    /// None was sent. `WouldBlock`: the socket has no room until it is writable.
    pub fn send(
        &self,
        destination: Destination,
        ecn: Option<EcnCodepoint>,
        contents: &[u8],
        datagram_bytes: usize,
    ) -> io::Result<()> {
        let transmit = Transmit {
            destination: destination.to,
            ecn,
            contents,
            segment_size: (contents.len() > datagram_bytes).then_some(datagram_bytes),
            src_ip: destination.from.filter(|_| self.local.ip().is_unspecified()),
        };
        match self.try_send(&transmit) {
            Err(_) if self.renew_state()? && transmit.segment_size.is_some() => {
                self.send_singly(&transmit, datagram_bytes)
            }
            result => result,
        }
    }

    /// Sends what a send of several datagrams refused. If the first is refused alone, too, their
    /// destination is at fault, or their size.
    fn send_singly(&self, refused: &Transmit<'_>, datagram_bytes: usize) -> io::Result<()> {
        let single = |contents| Transmit { contents, segment_size: None, ..*refused };
        let mut datagrams = refused.contents.chunks(datagram_bytes).map(single);
        let first = datagrams.next().map(|first| self.try_send(&first));
        self.renew_state()?;
        first.transpose()?;
        self.segmentation.on_refusal();
        for datagram in datagrams {
            // What does not leave is lost, as on the network.
            let _ = self.try_send(&datagram);
        }
        Ok(())
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        if transmit.segment_size.is_none() {
            self.segmentation.on_single_send();
        }
        self.state().try_send((&self.udp).into(), transmit)
    }

    fn state(&self) -> RwLockReadGuard<'_, UdpSocketState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renews a state that neither segments nor marks any more, because an error may have come of
    /// these options. Most come of a destination. Returns whether the state was such a one.
    fn renew_state(&self) -> io::Result<bool> {
        let has_given_up = self.state().max_gso_segments() < self.segmentation.datagrams_offered();
        if has_given_up {
            let renewed = new_state(&self.udp, self.local)?;
            *self.state.write().unwrap_or_else(PoisonError::into_inner) = renewed;
        }
        Ok(has_given_up)
    }

    /// Receives one group of datagrams into each of `buffers`. Returns how many.
    pub(crate) fn receive(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> io::Result<usize> {
        self.state().recv((&self.udp).into(), buffers, metas)
    }

    /// Returns the address that a datagram was sent to; `target` is what the kernel reported.
    pub(crate) fn arrival_address(&self, target: Option<IpAddr>) -> SocketAddr {
        match target {
            Some(ip) if self.local.ip().is_unspecified() => SocketAddr::new(ip, self.local.port()),
            _ => self.local,
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.udp.as_fd()
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        self.udp.as_raw_fd()
    }
}

/// Sets the options of a socket, which also becomes non-blocking.
fn new_state(udp: &UdpSocket, local: SocketAddr) -> io::Result<UdpSocketState> {
    let state = UdpSocketState::new(udp.into())?;
    control_messages::fit(udp, local)?;
    Ok(state)
}

/// Binds one socket of a group that shares `address`.
fn bind_shared(address: SocketAddr) -> io::Result<UdpSocket> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    net::bind(&socket, &address)?;
    Ok(socket.into())
}
