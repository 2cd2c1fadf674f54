//! UDP sockets of the relay: room for what arrives while the processor is busy, and sends
//! that go on where the kernel lacks something.

use link::Ecn;
use std::io;
use std::net::UdpSocket;
use udp_batch::Destination;
use udp_batch::EcnCodepoint;
use udp_batch::Socket;

/// Room for what arrives while other processes have the processor: 60 ms at
/// 500 Mbit/s. The kernel may grant less.
const RECV_BUFFER_BYTES: usize = 4 << 20;

/// Takes a bound socket over.
///
/// # Errors
///
/// If the kernel refuses an option that every supported kernel has.
pub fn open(udp: UdpSocket) -> io::Result<Socket> {
    let socket = Socket::new(udp)?;
    socket.enlarge_receive_buffer(RECV_BUFFER_BYTES)?;
    Ok(socket)
}

/// Returns the codepoint of a datagram that was received.
pub fn received(ecn: Option<EcnCodepoint>) -> Ecn {
    match ecn {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    }
}

fn to_send(ecn: Ecn) -> Option<EcnCodepoint> {
    match ecn {
        Ecn::NotEct => None,
        Ecn::Ect1 => Some(EcnCodepoint::Ect1),
        Ecn::Ect0 => Some(EcnCodepoint::Ect0),
        Ecn::Ce => Some(EcnCodepoint::Ce),
    }
}

/// Sends `contents`, cut into datagrams of `datagram_bytes`.
///
/// # Errors
///
/// Those of the system call. The packets are then lost, as on any network.
pub fn send(
    socket: &Socket,
    destination: Destination,
    ecn: Ecn,
    contents: &[u8],
    datagram_bytes: usize,
) -> io::Result<()> {
    let ecn = to_send(ecn);
    let send = |contents| match socket.send(destination, ecn, contents, datagram_bytes) {
        // Reports the fate of an earlier packet; this one was not tried.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            socket.send(destination, ecn, contents, datagram_bytes)
        }
        sent => sent,
    };
    match send(contents) {
        // The kernel cannot cut them after all.
        Err(_) if contents.len() > datagram_bytes && socket.datagrams_per_send_max() == 1 => {
            contents.chunks(datagram_bytes).try_for_each(send)
        }
        sent => sent,
    }
}
