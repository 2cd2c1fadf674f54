//! Control messages of a receive: which of them the kernel is asked for.
//!
//! quinn-udp asks for four, and has room for 96 bytes: of coalesced datagrams the kernel then
//! leaves out the last, their ECN codepoint. So each socket does without one that it can spare.

use std::io;
use std::net::SocketAddr;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Turns off the message that a socket bound to `local` can spare: the destination address if
/// it is known, and the time stamp otherwise.
///
/// # Errors
///
/// Those of the system call.
pub fn fit(udp: &UdpSocket, local: SocketAddr) -> io::Result<()> {
    let (level, name) = match local {
        _ if local.ip().is_unspecified() => (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS),
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    };
    turn_off(udp, level, name)
}

fn turn_off(udp: &UdpSocket, level: libc::c_int, name: libc::c_int) -> io::Result<()> {
    let off: libc::c_int = 0;
    // SAFETY: the descriptor is open, and the value is an int of the size that is given.
    let result = unsafe {
        libc::setsockopt(
            udp.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(&off).cast(),
            std::mem::size_of_val(&off) as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
