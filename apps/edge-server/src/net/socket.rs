//! UDP sockets of the workers.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use quiche::ecn::Codepoint;
use udp_batch::Destination;
use udp_batch::EcnCodepoint;
use udp_batch::Socket;

use crate::net::route::AddressPair;
use crate::net::route::PacketSink;

/// Size of the kernel's buffers in each direction, in bytes. The kernel may grant less.
const BUFFER_BYTES: usize = 8 << 20;

/// Binds one socket for each worker to `address`. The kernel selects one for each packet.
///
/// # Errors
///
/// One line that names the address.
pub fn bind_group(address: SocketAddr, workers: u16) -> anyhow::Result<Vec<Socket>> {
    let sockets = udp_batch::bind_group(address, workers)
        .map_err(|e| cannot_listen(e, &address.to_string(), "listen"))?;
    sockets.iter().for_each(enlarge_buffers);
    Ok(sockets)
}

/// Returns the error of listening on an address that an option names, with the way out.
pub fn cannot_listen(error: io::Error, address: &str, option: &str) -> anyhow::Error {
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => format!("; stop what uses it, or choose another --{option}"),
        io::ErrorKind::AddrNotAvailable => {
            format!("; --{option} must name an address of this host")
        }
        io::ErrorKind::PermissionDenied => {
            "; choose a port from 1024 up, or give the server CAP_NET_BIND_SERVICE".to_owned()
        }
        _ => String::new(),
    };
    anyhow::Error::new(error).context(format!("cannot listen on {address}{hint}"))
}

/// Returns whether an error of [`bind_group()`] says that another process has the address.
pub fn is_in_use(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    cause.is_some_and(|e| e.kind() == io::ErrorKind::AddrInUse)
}

/// Takes over a socket that another process has bound.
///
/// # Errors
///
/// The descriptor is not a bound UDP socket.
pub fn adopt(descriptor: OwnedFd) -> io::Result<Socket> {
    let socket = Socket::new(descriptor)?;
    enlarge_buffers(&socket);
    Ok(socket)
}

/// Enlarges the kernel's buffers, as far as permitted.
fn enlarge_buffers(socket: &Socket) {
    let _ = socket.enlarge_receive_buffer(BUFFER_BYTES);
    let _ = socket.enlarge_send_buffer(BUFFER_BYTES);
}

impl PacketSink for Socket {
    fn send(
        &self,
        route: AddressPair,
        ecn: Codepoint,
        contents: &[u8],
        segment_bytes: usize,
    ) -> io::Result<()> {
        let destination = Destination { to: route.to, from: Some(route.from.ip()) };
        let ecn = EcnCodepoint::from_bits(ecn as u8);
        Socket::send(self, destination, ecn, contents, segment_bytes)
    }

    fn packets_per_send_max(&self) -> usize {
        self.datagrams_per_send_max()
    }
}
