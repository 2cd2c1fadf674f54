//! TCP sockets that accept connections: bound at the start, or taken over from another process.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;

use rustix::net;
use rustix::net::sockopt;
use rustix::net::AddressFamily;
use rustix::net::Shutdown;
use rustix::net::SocketFlags;
use rustix::net::SocketType;
use tokio::net::TcpListener;

/// Connections that the kernel completes before they are accepted.
const BACKLOG: i32 = 4096;

/// Binds a socket to `address` and has it listen.
///
/// # Errors
///
/// The address is in use, or is none of this host's, or the port needs a privilege.
pub fn bind(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    // Connections of a process that has ended do not keep its successor from their address.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    net::bind(&socket, &address)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Takes over a socket that another process has bound, and may have [stopped](stop()).
///
/// # Errors
///
/// It is no TCP socket.
pub fn adopt(socket: OwnedFd) -> io::Result<(SocketAddr, OwnedFd)> {
    net::listen(&socket, BACKLOG)?;
    Ok((net::getsockname(&socket)?.try_into()?, socket))
}

/// Listens again on a socket that the process with another descriptor of it may have [stopped](stop()).
///
/// # Errors
///
/// The process can watch no more sockets.
pub fn listen_again(listener: TcpListener) -> io::Result<TcpListener> {
    // What tokio has seen of a stopped socket stays until it is watched anew.
    let listener = listener.into_std()?;
    net::listen(&listener, BACKLOG)?;
    TcpListener::from_std(listener)
}

/// Has the kernel complete connections again on a socket that may be [stopped](stop()).
pub fn resume(socket: &OwnedFd) {
    // It fails for one that cannot listen, which the accepting task tells.
    let _ = net::listen(socket, BACKLOG);
}

/// Refuses connections, also those that would wait for a process with another descriptor of the
/// socket.
pub fn stop(socket: &impl AsFd) {
    // It fails if that process has done so.
    let _ = net::shutdown(socket, Shutdown::Both);
}
