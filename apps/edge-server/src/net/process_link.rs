//! A way for datagrams between the workers of two processes.

use std::io;
use std::io::IoSlice;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::net::SocketAddr;
use std::net::SocketAddrV6;
use std::os::fd::AsRawFd;
use std::os::fd::OwnedFd;
use std::os::fd::RawFd;

use log::debug;
use quiche::RecvInfo;
use rustix::io::Errno;
use rustix::net;
use rustix::net::sockopt;
use rustix::net::AddressFamily;
use rustix::net::RecvFlags;
use rustix::net::SendAncillaryBuffer;
use rustix::net::SendFlags;
use rustix::net::SocketFlags;
use rustix::net::SocketType;

/// Room for datagrams on their way, in bytes. The kernel may grant less.
const BUFFER_BYTES: usize = 4 << 20;

/// The most that a message has, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 1 << 16;

/// An address in a message: family, IP, port, and zone.
const ADDRESS_BYTES: usize = 1 + 16 + 2 + 4;

/// One end: a socket that keeps messages apart.
pub struct Link(OwnedFd);

/// A message could not be passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl Link {
    /// Two ends, the other one to be given away.
    ///
    /// # Errors
    ///
    /// The process may have no more file descriptors.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (own, other) =
            net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        for end in [&own, &other] {
            let _ = sockopt::set_socket_send_buffer_size(end, BUFFER_BYTES);
        }
        Ok((Self(own), other))
    }

    /// The end that was given.
    pub fn new(end: OwnedFd) -> Self {
        Self(end)
    }

    /// Passes a datagram on. One that there is no room for is lost, as it would be in a
    /// full socket.
    ///
    /// # Errors
    ///
    /// The other process is gone.
    pub fn send(&self, info: RecvInfo, datagram: &[u8]) -> Result<(), Closed> {
        let (from, to) = (encode(info.from), encode(info.to));
        let message = [IoSlice::new(&from), IoSlice::new(&to), IoSlice::new(datagram)];
        let mut nothing = SendAncillaryBuffer::default();
        match net::sendmsg(&self.0, &message, &mut nothing, SendFlags::NOSIGNAL) {
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => Err(Closed),
            Err(e) => {
                debug!("a datagram for another process is lost: {e}");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    /// The next datagram that has come, if there is one.
    ///
    /// # Errors
    ///
    /// The other process is gone.
    pub fn receive(&self, room: &mut [u8]) -> Result<Option<(RecvInfo, Vec<u8>)>, Closed> {
        loop {
            let length = match net::recv(&self.0, &mut *room, RecvFlags::empty()) {
                Ok((0, _)) => return Err(Closed),
                Ok((length, _)) => length.min(room.len()),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => continue,
                Err(_) => return Err(Closed),
            };
            if let Some(taken) = decode(&room[..length]) {
                return Ok(Some(taken));
            }
        }
    }
}

impl AsRawFd for Link {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

fn encode(address: SocketAddr) -> [u8; ADDRESS_BYTES] {
    let (family, ip, zone) = match address {
        SocketAddr::V4(v4) => (4, v4.ip().to_ipv6_mapped(), 0),
        SocketAddr::V6(v6) => (6, *v6.ip(), v6.scope_id()),
    };
    let mut bytes = [0; ADDRESS_BYTES];
    bytes[0] = family;
    bytes[1..17].copy_from_slice(&ip.octets());
    bytes[17..19].copy_from_slice(&address.port().to_be_bytes());
    bytes[19..].copy_from_slice(&zone.to_be_bytes());
    bytes
}

fn decode(message: &[u8]) -> Option<(RecvInfo, Vec<u8>)> {
    let (from, rest) = message.split_first_chunk()?;
    let (to, datagram) = rest.split_first_chunk()?;
    let info = RecvInfo { from: decode_address(from)?, to: decode_address(to)? };
    Some((info, datagram.to_vec()))
}

fn decode_address(bytes: &[u8; ADDRESS_BYTES]) -> Option<SocketAddr> {
    let (family, rest) = bytes.split_first()?;
    let (ip, rest) = rest.split_first_chunk::<16>()?;
    let (port, zone) = rest.split_first_chunk::<2>()?;
    let (port, zone) = (u16::from_be_bytes(*port), u32::from_be_bytes(*zone.first_chunk()?));
    let ip = Ipv6Addr::from(*ip);
    match family {
        4 => {
            Some((IpAddr::from(ip.to_ipv4_mapped().unwrap_or(Ipv4Addr::UNSPECIFIED)), port).into())
        }
        6 => Some(SocketAddrV6::new(ip, port, 0, zone).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_arrive_with_their_addresses_and_apart() {
        let (one, other) = Link::pair().unwrap();
        let other = Link::new(other);
        let mut room = vec![0; MESSAGE_BYTES_MAX];
        assert_eq!(other.receive(&mut room).unwrap(), None);
        let addresses = ["192.0.2.7:443", "[::ffff:192.0.2.7]:1", "[fe80::1%3]:65535"];
        let addresses = addresses.map(|address| address.parse::<SocketAddr>().unwrap());
        let large = vec![7; 60_000];
        for (from, datagram) in addresses.into_iter().zip([&b""[..], b"x", &large]) {
            one.send(RecvInfo { from, to: addresses[0] }, datagram).unwrap();
        }
        for (from, datagram) in addresses.into_iter().zip([&b""[..], b"x", &large]) {
            let (info, taken) = other.receive(&mut room).unwrap().unwrap();
            assert_eq!((info.from, info.to), (from, addresses[0]));
            assert!(taken == datagram);
        }
        assert_eq!(other.receive(&mut room).unwrap(), None);
    }

    #[test]
    fn a_full_link_loses_and_one_without_another_end_says_so() {
        let (one, other) = Link::pair().unwrap();
        let address = "192.0.2.7:443".parse().unwrap();
        let info = RecvInfo { from: address, to: address };
        for _ in 0..10_000 {
            assert_eq!(one.send(info, &[0; 1200]), Ok(()));
        }
        drop(other);
        assert_eq!(one.send(info, b"x"), Err(Closed));
        assert_eq!(one.receive(&mut [0; 100]), Err(Closed));
    }
}
