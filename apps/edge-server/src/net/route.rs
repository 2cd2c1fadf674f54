//! Route of a packet: its addresses, and the sink that sends it.

use std::io;
use std::net::SocketAddr;

/// Source and destination of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressPair {
    pub to: SocketAddr,
    pub from: SocketAddr,
}

/// Destination of built packets: a socket, or a test's.
pub trait PacketSink {
    /// Sends `contents`, segmented into datagrams of `segment_bytes`.
    ///
    /// # Errors
    ///
    /// No datagram was sent. After `WouldBlock`, wait until the sink is writable.
    fn send(&self, route: AddressPair, contents: &[u8], segment_bytes: usize) -> io::Result<()>;

    /// Returns the largest number of packets in one call.
    fn packets_per_send_max(&self) -> usize;
}
