//! Process link: forwards datagrams between the workers of two processes during a takeover.
//!
//! The processes may be of different versions. A process ignores messages that it does not know, so
//! that the ECN codepoint of datagrams travels in a message of its own: it holds for the datagrams
//! that follow, until the next such message.

use std::cell::Cell;
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
use quiche::ecn::Codepoint;
use quiche::RecvInfo;
use rustix::event;
use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;
use rustix::io::Errno;
use rustix::net;
use rustix::net::sockopt;
use rustix::net::AddressFamily;
use rustix::net::RecvFlags;
use rustix::net::SendAncillaryBuffer;
use rustix::net::SendFlags;
use rustix::net::SocketFlags;
use rustix::net::SocketType;

use crate::net::route::Arrival;

/// Send buffer of the link, in bytes. The kernel may grant less.
const BUFFER_BYTES: usize = 4 << 20;

/// Largest message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 1 << 16;

/// Contents of messages without a datagram. A datagram's is longer.
const KNOWN: [u8; 1] = *b"k";
const SERVES: [u8; 1] = *b"s";

/// First byte of a message with a codepoint, which is the second and last.
const CODEPOINT: u8 = b'e';

/// Length of an address in a message: family, IP, port, and zone.
pub const ADDRESS_BYTES: usize = 1 + 16 + 2 + 4;

/// Message of another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A datagram, and where it is in the buffer.
    Datagram(Arrival, Range<usize>),

    /// The other process has the connection of a datagram that it was sent.
    Known,

    /// The other process has served for a while.
    Serves,
}

/// One end of a link: a Unix socket that preserves message boundaries.
pub struct Link {
    socket: OwnedFd,

    /// Codepoint that the other process takes datagrams to have. None: this end does not know.
    sent: Cell<Option<Codepoint>>,

    /// Codepoint of received datagrams.
    received: Cell<Codepoint>,
}

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
        Ok((Self::new(own), other))
    }

    /// Returns the end that the other process has sent.
    pub fn new(end: OwnedFd) -> Self {
        Self { socket: end, sent: Cell::new(None), received: Cell::default() }
    }

    /// Forgets which codepoint the other process takes datagrams to have, as another process has
    /// used this end of the link meanwhile.
    pub fn forget_codepoint(&self) {
        self.sent.set(None);
    }

    /// Returns whether the other process has ended.
    pub fn is_closed(&self) -> bool {
        let mut polled = [PollFd::new(&self.socket, PollFlags::empty())];
        let without_wait = Timespec::default();
        event::poll(&mut polled, Some(&without_wait)).is_ok()
            && polled[0].revents().contains(PollFlags::HUP)
    }

    /// Forwards a datagram. If the link is full, the datagram is lost, as in a full socket.
    ///
    /// # Errors
    ///
    /// The other process has ended.
    pub fn send(&self, arrival: Arrival, datagram: &[u8]) -> Result<(), Closed> {
        let Arrival { info, ecn } = arrival;
        if self.sent.get() != Some(ecn) {
            if !self.send_message(&[IoSlice::new(&[CODEPOINT, ecn as u8])])? {
                return Ok(());
            }
            self.sent.set(Some(ecn));
        }
        let (from, to) = (encode_address(info.from), encode_address(info.to));
        let message = [IoSlice::new(&from), IoSlice::new(&to), IoSlice::new(datagram)];
        self.send_message(&message).map(drop)
    }

    /// Sends [`Message::Known`].
    pub fn acknowledge(&self) {
        // A process that has ended does not wait for it.
        let _ = self.send_message(&[IoSlice::new(&KNOWN)]);
    }

    /// Sends [`Message::Serves`].
    pub fn report_serving(&self) {
        // A process that has ended does not wait for it either.
        let _ = self.send_message(&[IoSlice::new(&SERVES)]);
    }

    /// Sends a message. Returns whether the link had room for it.
    fn send_message(&self, message: &[IoSlice<'_>]) -> Result<bool, Closed> {
        let mut nothing = SendAncillaryBuffer::default();
        match net::sendmsg(&self.socket, message, &mut nothing, SendFlags::NOSIGNAL) {
            Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => Err(Closed),
            Err(e) => {
                debug!("dropped a message for another process: {e}");
                Ok(false)
            }
            Ok(_) => Ok(true),
        }
    }

    /// Receives the next message, if there is one. Its datagram is in `buffer`.
    ///
    /// # Errors
    ///
    /// The other process has ended.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<Message>, Closed> {
        loop {
            let length = match net::recv(&self.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Err(Closed),
                Ok((length, _)) => length.min(buffer.len()),
                Err(Errno::AGAIN) => return Ok(None),
                // Reported once, before what the other process sent, if it left something unread.
                Err(Errno::INTR | Errno::CONNRESET) => continue,
                Err(_) => return Err(Closed),
            };
            let message = &buffer[..length];
            if message == KNOWN {
                return Ok(Some(Message::Known));
            }
            if message == SERVES {
                return Ok(Some(Message::Serves));
            }
            if let [CODEPOINT, bits] = *message {
                self.on_codepoint(Codepoint::from_bits(bits));
            }
            if let Some((info, at)) = decode(message) {
                let arrival = Arrival { info, ecn: self.received.get() };
                return Ok(Some(Message::Datagram(arrival, at..length)));
            }
        }
    }

    fn on_codepoint(&self, received: Codepoint) {
        self.received.set(received);
        // A process that begins to use the other end sends one first, and knows none of this end's.
        self.forget_codepoint();
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for Link {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Returns the form of an address in a message.
pub fn encode_address(address: SocketAddr) -> [u8; ADDRESS_BYTES] {
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

/// Returns the address of this form.
pub fn decode_address(bytes: &[u8; ADDRESS_BYTES]) -> Option<SocketAddr> {
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
            let info = RecvInfo { from, to: addresses[0] };
            one.send(Arrival { info, ecn: Codepoint::NotEct }, datagram).unwrap();
        }
        for (from, datagram) in addresses.into_iter().zip([&b""[..], b"x", &large]) {
            let message = other.receive(&mut buffer).unwrap();
            let Some(Message::Datagram(arrival, range)) = message else { panic!("{message:?}") };
            assert_eq!((arrival.info.from, arrival.info.to), (from, addresses[0]));
            assert!(buffer[range] == *datagram);
        }
        assert_eq!(other.receive(&mut buffer).unwrap(), None);
        one.acknowledge();
        one.report_serving();
        assert_eq!(other.receive(&mut buffer), Ok(Some(Message::Known)));
        assert_eq!(other.receive(&mut buffer), Ok(Some(Message::Serves)));
    }

    // It has read nothing of what it was sent.
    #[test]
    fn what_a_killed_process_sent_is_received() {
        let (one, other) = Link::pair().unwrap();
        let other = Link::new(other);
        one.send(arrival(Codepoint::NotEct), b"unread").unwrap();
        other.send(arrival(Codepoint::Ect0), b"x").unwrap();
        drop(other);
        assert_eq!(received(&one), [Codepoint::Ect0]);
        assert_eq!(one.receive(&mut [0; 100]), Err(Closed));
    }

    #[test]
    fn full_link_drops_and_closed_link_errors() {
        let (one, other) = Link::pair().unwrap();
        for _ in 0..10_000 {
            assert_eq!(one.send(arrival(Codepoint::NotEct), &[0; 1200]), Ok(()));
        }
        drop(other);
        assert_eq!(one.send(arrival(Codepoint::NotEct), b"x"), Err(Closed));
        assert_eq!(one.receive(&mut [0; 100]), Err(Closed));
    }

    fn arrival(ecn: Codepoint) -> Arrival {
        let address = "192.0.2.7:443".parse().unwrap();
        Arrival { info: RecvInfo { from: address, to: address }, ecn }
    }

    /// Returns the codepoints of the datagrams in a link.
    fn received(link: &Link) -> Vec<Codepoint> {
        let mut buffer = [0; 100];
        let mut codepoints = Vec::new();
        while let Ok(Some(message)) = link.receive(&mut buffer) {
            let Message::Datagram(arrival, _) = message else { panic!("{message:?}") };
            codepoints.push(arrival.ecn);
        }
        codepoints
    }

    #[test]
    fn link_preserves_codepoints() {
        let (one, other) = Link::pair().unwrap();
        let other = Link::new(other);
        let codepoints = [
            Codepoint::NotEct,
            Codepoint::Ect0,
            Codepoint::Ect0,
            Codepoint::Ce,
            Codepoint::Ect0,
            Codepoint::Ect1,
            Codepoint::NotEct,
        ];
        for (from, to) in [(&one, &other), (&other, &one)] {
            codepoints.iter().for_each(|ecn| from.send(arrival(*ecn), b"x").unwrap());
            assert_eq!(received(to), codepoints);
        }
    }

    #[test]
    fn codepoint_is_sent_when_it_changes() {
        let (one, other) = Link::pair().unwrap();
        for ecn in [Codepoint::Ect0, Codepoint::Ect0, Codepoint::Ce, Codepoint::Ce] {
            one.send(arrival(ecn), b"x").unwrap();
        }
        let mut buffer = [0; 100];
        let mut lengths = Vec::new();
        while let Ok((length, _)) = net::recv(&other, &mut buffer, RecvFlags::empty()) {
            lengths.push(length);
        }
        let datagram = 2 * ADDRESS_BYTES + 1;
        assert_eq!(lengths, [2, datagram, datagram, 2, datagram, datagram]);
    }

    /// An older version reads these messages as datagrams without addresses, and ignores them.
    #[test]
    fn later_messages_are_no_datagrams() {
        for message in [&[CODEPOINT, Codepoint::Ce as u8][..], &SERVES] {
            assert_eq!(decode(message), None);
            assert_ne!(message, KNOWN);
        }
    }

    #[test]
    fn datagram_of_older_version_is_not_ecn_capable() {
        let (one, other) = Link::pair().unwrap();
        let other = Link::new(other);
        let address = encode_address("192.0.2.7:443".parse().unwrap());
        let message = [&address[..], &address, b"x"].concat();
        assert_eq!(one.send_message(&[IoSlice::new(&message)]), Ok(true));
        assert_eq!(received(&other), [Codepoint::NotEct]);
    }

    #[test]
    fn codepoint_that_did_not_fit_is_sent_again() {
        let (one, other) = Link::pair().unwrap();
        let other = Link::new(other);
        one.send(arrival(Codepoint::NotEct), b"x").unwrap();
        while one.send_message(&[IoSlice::new(&KNOWN)]).unwrap() {}
        one.send(arrival(Codepoint::Ce), b"lost").unwrap();
        while let Ok(Some(_)) = other.receive(&mut [0; 100]) {}
        one.send(arrival(Codepoint::Ce), b"x").unwrap();
        assert_eq!(received(&other), [Codepoint::Ce]);
    }

    // A process that takes over uses the old one's end of the link to a still older one. If it
    // ends, the old one uses that end again.
    #[test]
    fn codepoints_survive_a_change_of_process() {
        let (oldest, end) = Link::pair().unwrap();
        let old = Link::new(end);
        let exchange = |newer: &Link, ecn| {
            newer.send(arrival(ecn), b"x").unwrap();
            assert_eq!(received(&oldest), [ecn]);
            oldest.send(arrival(ecn), b"x").unwrap();
            assert_eq!(received(newer), [ecn]);
        };
        exchange(&old, Codepoint::Ect0);
        let new = Link::new(old.as_fd().try_clone_to_owned().unwrap());
        exchange(&new, Codepoint::Ect0);
        exchange(&new, Codepoint::NotEct);
        drop(new);
        old.forget_codepoint();
        exchange(&old, Codepoint::Ect0);
    }
}
