//! Process link: forwards datagrams between the workers of two processes during a takeover.

use std::io;
use std::io::IoSlice;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::net::SocketAddr;
use std::net::SocketAddrV6;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::fd::AsRawFd;
use std::os::fd::BorrowedFd;
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

/// Send buffer of the link, in bytes. The kernel may grant less.
const BUFFER_BYTES: usize = 4 << 20;

/// Largest message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 1 << 16;

/// Contents of a message without a datagram. A datagram's is longer.
const KNOWN: [u8; 1] = *b"k";

/// Length of an address in a message: family, IP, port, and zone.
const ADDRESS_BYTES: usize = 1 + 16 + 2 + 4;

/// Message of another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A datagram with its addresses, and where it is in the buffer.
    Datagram(RecvInfo, Range<usize>),

    /// The other process has the connection of a datagram that it was sent.
    Known,
}

/// One end of a link: a Unix socket that preserves message boundaries.
pub struct Link(OwnedFd);

/// The other process has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl Link {
    /// Makes a link; the second end is for the other process.
    ///
    /// # Errors
    ///
    /// The process is out of file descriptors.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (own, other) =
            net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        for end in [&own, &other] {
            let _ = sockopt::set_socket_send_buffer_size(end, BUFFER_BYTES);
        }
        Ok((Self(own), other))
    }

    /// Returns the end that the other process has sent.
    pub fn new(end: OwnedFd) -> Self {
        Self(end)
    }

    /// Forwards a datagram. If the link is full, the datagram is lost, as in a full socket.
    ///
    /// # Errors
    ///
    /// The other process has ended.
    pub fn send(&self, info: RecvInfo, datagram: &[u8]) -> Result<(), Closed> {
        let (from, to) = (encode(info.from), encode(info.to));
        self.send_message(&[IoSlice::new(&from), IoSlice::new(&to), IoSlice::new(datagram)])
    }

    /// Sends [`Message::Known`].
    pub fn acknowledge(&self) {
        // A process that has ended does not wait for it.
        let _ = self.send_message(&[IoSlice::new(&KNOWN)]);
    }

    fn send_message(&self, message: &[IoSlice<'_>]) -> Result<(), Closed> {
        let mut nothing = SendAncillaryBuffer::default();
        match net::sendmsg(&self.0, message, &mut nothing, SendFlags::NOSIGNAL) {
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => Err(Closed),
            Err(e) => {
                debug!("dropped a message for another process: {e}");
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }

    /// Receives the next message, if there is one. Its datagram is in `buffer`.
    ///
    /// # Errors
    ///
    /// The other process has ended.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<Message>, Closed> {
        loop {
            let length = match net::recv(&self.0, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Err(Closed),
                Ok((length, _)) => length.min(buffer.len()),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => continue,
                Err(_) => return Err(Closed),
            };
            let message = &buffer[..length];
            if message == KNOWN {
                return Ok(Some(Message::Known));
            }
            if let Some((info, at)) = decode(message) {
                return Ok(Some(Message::Datagram(info, at..length)));
            }
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
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

/// Returns the addresses of a message, and where its datagram begins.
fn decode(message: &[u8]) -> Option<(RecvInfo, usize)> {
    let (from, rest) = message.split_first_chunk()?;
    let (to, datagram) = rest.split_first_chunk()?;
    let info = RecvInfo { from: decode_address(from)?, to: decode_address(to)? };
    Some((info, message.len() - datagram.len()))
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
    fn link_preserves_addresses_and_boundaries() {
        let (one, other) = Link::pair().unwrap();
        let other = Link::new(other);
        let mut buffer = vec![0; MESSAGE_BYTES_MAX];
        assert_eq!(other.receive(&mut buffer).unwrap(), None);
        let addresses = ["192.0.2.7:443", "[::ffff:192.0.2.7]:1", "[fe80::1%3]:65535"];
        let addresses = addresses.map(|address| address.parse::<SocketAddr>().unwrap());
        let large = vec![7; 60_000];
        for (from, datagram) in addresses.into_iter().zip([&b""[..], b"x", &large]) {
            one.send(RecvInfo { from, to: addresses[0] }, datagram).unwrap();
        }
        for (from, datagram) in addresses.into_iter().zip([&b""[..], b"x", &large]) {
            let message = other.receive(&mut buffer).unwrap();
            let Some(Message::Datagram(info, range)) = message else { panic!("{message:?}") };
            assert_eq!((info.from, info.to), (from, addresses[0]));
            assert!(buffer[range] == *datagram);
        }
        assert_eq!(other.receive(&mut buffer).unwrap(), None);
        one.acknowledge();
        assert_eq!(other.receive(&mut buffer), Ok(Some(Message::Known)));
    }

    #[test]
    fn full_link_drops_and_closed_link_errors() {
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
