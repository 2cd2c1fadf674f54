//! Addresses of a packet, and the sink that takes packets to them.

use std::io;
use std::net::SocketAddr;

/// Where packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressPair {
    pub to: SocketAddr,
    pub from: SocketAddr,
}

/// What takes packets: the socket.
pub trait PacketSink {
    /// Sends `contents`, cut into datagrams of `segment_bytes`.
    ///
    /// # Errors
    ///
    /// None was sent. `WouldBlock`: wait until there is room.
    fn send(&self, route: AddressPair, contents: &[u8], segment_bytes: usize) -> io::Result<()>;

    /// The most packets that one send may hold.
    fn packets_per_send_max(&self) -> usize;
}
