//! The UDP socket: several packets a system call in both directions.

use crate::net::route::AddressPair;
use std::io;
use std::io::IoSliceMut;
use std::net::IpAddr;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::os::fd::RawFd;

use anyhow::Context;
use quinn_udp::RecvMeta;
use quinn_udp::Transmit;
use quinn_udp::UdpSocketState;
use rustix::net;
use rustix::net::sockopt;
use rustix::net::AddressFamily;
use rustix::net::SocketFlags;
use rustix::net::SocketType;

use crate::net::route::PacketSink;

/// Room in the kernel, each direction. It may grant less.
const BUFFER_BYTES: usize = 8 << 20;

/// A non-blocking UDP socket, bound to one address or to all of them.
pub struct Socket {
    udp: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
}

impl Socket {
    /// Binds one socket for each worker to `address`. The kernel chooses one for
    /// each packet.
    ///
    /// # Errors
    ///
    /// One line that names the address.
    pub fn bind_group(address: SocketAddr, workers: u16) -> anyhow::Result<Vec<Self>> {
        let bind = || {
            // Alone, so that no other server shares the address unnoticed.
            let first = UdpSocket::bind(address)?;
            if workers == 1 {
                return Ok(vec![Self::new(first)?]);
            }
            let address = first.local_addr()?;
            drop(first);
            (0..workers).map(|_| Self::new(bind_shared(address)?)).collect()
        };
        bind().map_err(|e: io::Error| {
            let way_out = match e.kind() {
                io::ErrorKind::AddrInUse => "; stop what uses it, or choose another --listen",
                io::ErrorKind::AddrNotAvailable => "; --listen must name an address of this host",
                io::ErrorKind::PermissionDenied => "; choose a port from 1024 up",
                _ => "",
            };
            anyhow::anyhow!("cannot listen on {address}: {e}{way_out}")
        })
    }

    /// A socket that another process has bound.
    ///
    /// # Errors
    ///
    /// It is none that can be used.
    pub fn adopt(socket: OwnedFd) -> io::Result<Self> {
        Self::new(socket.into())
    }

    /// Another descriptor of it.
    ///
    /// # Errors
    ///
    /// The process may have no more.
    pub fn descriptor(&self) -> io::Result<OwnedFd> {
        self.udp.as_fd().try_clone_to_owned()
    }

    fn new(udp: UdpSocket) -> io::Result<Self> {
        enlarge_buffers(&udp);
        let state = UdpSocketState::new((&udp).into())?;
        let local = udp.local_addr()?;
        Ok(Self { udp, state, local })
    }

    /// The address the socket is bound to.
    pub fn local_addr(&self) -> anyhow::Result<SocketAddr> {
        self.udp.local_addr().context("cannot tell the address of the socket")
    }

    /// The address that a packet came to; `target` is what the kernel told.
    pub fn arrival_address(&self, target: Option<IpAddr>) -> SocketAddr {
        match target {
            Some(ip) if self.local.ip().is_unspecified() => SocketAddr::new(ip, self.local.port()),
            _ => self.local,
        }
    }

    /// Receives into `buffers`, one for each sender's group of datagrams.
    /// Returns how many were filled.
    ///
    /// # Errors
    ///
    /// Those of the system call, `WouldBlock` when nothing has arrived.
    pub fn receive(
        &self,
        buffers: &mut [IoSliceMut<'_>],
        metas: &mut [RecvMeta],
    ) -> io::Result<usize> {
        self.state.recv((&self.udp).into(), buffers, metas)
    }
}

impl PacketSink for Socket {
    fn send(&self, route: AddressPair, contents: &[u8], segment_bytes: usize) -> io::Result<()> {
        let several = contents.len() > segment_bytes;
        let segment_size = several.then_some(segment_bytes);
        let src_ip = self.local.ip().is_unspecified().then(|| route.from.ip());
        let transmit =
            Transmit { destination: route.to, ecn: None, contents, segment_size, src_ip };
        self.state.try_send((&self.udp).into(), &transmit)
    }

    fn packets_per_send_max(&self) -> usize {
        self.state.max_gso_segments()
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

/// A socket of a group that shares `address`.
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

/// Beyond the system's limit only root may go; less is no error.
fn enlarge_buffers(udp: &UdpSocket) {
    if sockopt::set_socket_recv_buffer_size_force(udp, BUFFER_BYTES).is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(udp, BUFFER_BYTES);
    }
    let _ = sockopt::set_socket_send_buffer_size(udp, BUFFER_BYTES);
}
