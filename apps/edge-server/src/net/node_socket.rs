//! Socket between the servers of a fleet: what each forwards to others is sent from it, and received at it.

use std::net::SocketAddr;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;

use rustix::net::sockopt;

use crate::net::socket;

/// Size of the kernel's buffer for what is received, in bytes. The kernel may grant less.
const BUFFER_BYTES: usize = 4 << 20;

/// Bound UDP socket.
pub struct NodeSocket(OwnedFd);

impl NodeSocket {
    /// Binds a socket to `address`, or takes it over if an old process has it.
    ///
    /// # Errors
    ///
    /// One line that names the address.
    pub fn open(address: SocketAddr, of_old_process: Option<OwnedFd>) -> anyhow::Result<Self> {
        let handed_over = of_old_process.map(UdpSocket::from);
        let is_same = |socket: &UdpSocket| {
            let bound = socket.local_addr();
            bound.is_ok_and(|bound| {
                bound.ip() == address.ip() && [0, bound.port()].contains(&address.port())
            })
        };
        let socket = match handed_over.filter(is_same) {
            Some(socket) => socket,
            None => UdpSocket::bind(address)
                .map_err(|e| socket::cannot_listen(e, &address.to_string(), "quic-lb-listen"))?,
        };
        let _ = sockopt::set_socket_recv_buffer_size(&socket, BUFFER_BYTES);
        Ok(Self(socket.into()))
    }
}

impl NodeSocket {
    /// Returns the address that it is bound to, if the kernel tells.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        rustix::net::getsockname(&self.0).ok()?.try_into().ok()
    }
}

impl AsFd for NodeSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
