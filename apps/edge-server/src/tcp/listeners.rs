//! TCP sockets that accept connections: bound at the start, or taken over from another process.

use std::io;
use std::net::SocketAddr;
use std::net::TcpStream as StdStream;
use std::os::fd::OwnedFd;

use rustix::net;
use rustix::net::sockopt;
use rustix::net::AddressFamily;
use rustix::net::Shutdown;
use rustix::net::SocketFlags;
use rustix::net::SocketType;
use tokio::io::unix::AsyncFd;
use tokio::io::Interest;
use tokio::net::TcpStream;

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

/// Has the kernel complete connections again on a socket that may be [stopped](stop()).
pub fn resume(socket: &OwnedFd) {
    // It fails for one that cannot listen, which the accepting task tells.
    let _ = net::listen(socket, BACKLOG);
}

/// Refuses connections, also those that would wait for a process with another descriptor of the
/// socket.
pub fn stop(socket: &OwnedFd) {
    // It fails if that process has done so.
    let _ = net::shutdown(socket, Shutdown::Both);
}

/// A socket that a task accepts from.
///
/// Once any process has [stopped](stop()) a socket, tokio takes it for readable for ever, even if it listens
/// again: tokio's own listener would then try, in one poll without end, to accept. This one says so, and is to
/// be watched anew.
pub struct Acceptor(AsyncFd<OwnedFd>);

impl Acceptor {
    /// Begins to watch a socket.
    ///
    /// # Errors
    ///
    /// The process can watch no more sockets.
    ///
    /// # Panics
    ///
    /// Outside of a runtime of tokio.
    pub fn watch(socket: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        // SAFETY: an owned descriptor stays open, and the same, until it is dropped.
        let watched = unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) };
        Ok(Self(watched?))
    }

    /// Watches the socket anew.
    ///
    /// # Errors
    ///
    /// As for [`Acceptor::watch`].
    pub fn watch_anew(self) -> io::Result<Self> {
        Self::watch(self.0.into_inner())
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(net::getsockname(&self.0)?.try_into()?)
    }

    /// Waits for a connection.
    ///
    /// # Errors
    ///
    /// The client has gone, the process has no more descriptors, or the socket is stopped, or was: with
    /// all but the first, watch the socket anew.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            let mut guard = self.0.readable().await?;
            let was_stopped = guard.ready().is_read_closed();
            match guard.try_io(|socket| accept_from(socket.get_ref())) {
                Ok(accepted) => {
                    let (stream, address) = accepted?;
                    return Ok((TcpStream::from_std(stream)?, address));
                }
                Err(_) if was_stopped => {
                    return Err(io::Error::other("the socket was stopped"));
                }
                Err(_) => (),
            }
        }
    }
}

fn accept_from(socket: &OwnedFd) -> io::Result<(StdStream, SocketAddr)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (stream, address) = net::acceptfrom_with(socket, flags)?;
    let address = address.ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok((stream.into(), address.try_into()?))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use tokio::runtime::Builder;
    use tokio::time::timeout;

    const LONG: Duration = Duration::from_secs(30);

    /// Returns a socket that listens on a port that it was given: a socket that picks one loses it when it is
    /// stopped.
    pub fn bind_to_port() -> (OwnedFd, SocketAddr) {
        loop {
            let any = bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
            let address = net::getsockname(&any).unwrap().try_into().unwrap();
            drop(any);
            // Another process may be faster.
            if let Ok(socket) = bind(address) {
                return (socket, address);
            }
        }
    }

    #[test]
    fn socket_that_was_stopped_accepts_when_it_is_watched_anew() {
        let (socket, address) = bind_to_port();
        let of_another_process = socket.try_clone().unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut acceptor = Acceptor::watch(socket).unwrap();
            stop(&of_another_process);
            assert!(timeout(LONG, acceptor.accept()).await.unwrap().is_err(), "it is stopped");
            resume(&of_another_process);
            assert!(timeout(LONG, acceptor.accept()).await.unwrap().is_err(), "it was stopped");

            acceptor = acceptor.watch_anew().unwrap();
            let client = StdStream::connect(address).unwrap();
            let (_stream, from) = timeout(LONG, acceptor.accept()).await.unwrap().unwrap();
            assert_eq!(from, client.local_addr().unwrap());
        });
    }
}
