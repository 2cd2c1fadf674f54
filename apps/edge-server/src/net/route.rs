//! Route of a packet: its addresses and ECN codepoint, and the sink that sends it.

use std::io;
use std::net::IpAddr;
use std::net::SocketAddr;

use quiche::ecn::Codepoint;
use quiche::RecvInfo;
use udp_batch::EcnCodepoint;

/// Source and destination of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressPair {
    pub to: SocketAddr,
    pub from: SocketAddr,
}

/// Addresses of a received datagram, and its ECN codepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub info: RecvInfo,
    pub ecn: Codepoint,
}

impl Arrival {
    /// Returns the arrival of what a socket received.
    pub fn new(info: RecvInfo, ecn: Option<EcnCodepoint>) -> Self {
        let ecn = ecn.map_or(Codepoint::NotEct, |ecn| Codepoint::from_bits(ecn as u8));
        Self { info, ecn }
    }
}

/// Destination of built packets: a socket, or a test's.
pub trait PacketSink {
    /// Sends `contents`, segmented into datagrams of `segment_bytes`, each with `ecn`.
    ///
    /// # Errors
    ///
    /// No datagram was sent. After `WouldBlock`, wait until the sink is writable.
    fn send(
        &self,
        route: AddressPair,
        ecn: Codepoint,
        contents: &[u8],
        segment_bytes: usize,
    ) -> io::Result<()>;

    /// Returns the largest number of packets in one call.
    fn packets_per_send_max(&self) -> usize;
}

/// Returns whether a datagram with these addresses can be answered. No client sends from port 0,
/// and the kernel does not send from a group's address.
pub fn is_answerable(info: RecvInfo) -> bool {
    let (client, server) = (info.from.ip().to_canonical(), info.to.ip().to_canonical());
    info.from.port() != 0 && is_of_one_host(client) && is_of_one_host(server)
}

fn is_of_one_host(ip: IpAddr) -> bool {
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !ip.is_multicast() && !ip.is_unspecified() && !is_broadcast
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_hosts_are_answerable() {
        for (from, to, expected) in [
            ("192.0.2.1:9", "192.0.2.2:443", true),
            ("[2001:db8::1]:9", "[2001:db8::2]:443", true),
            ("[::ffff:192.0.2.1]:9", "[::ffff:192.0.2.2]:443", true),
            ("192.0.2.1:0", "192.0.2.2:443", false),
            ("0.0.0.0:9", "192.0.2.2:443", false),
            ("192.0.2.1:9", "255.255.255.255:443", false),
            ("192.0.2.1:9", "224.0.0.1:443", false),
            ("192.0.2.1:9", "[::ffff:224.0.0.1]:443", false),
            ("[2001:db8::1]:9", "[ff02::1]:443", false),
        ] {
            let info = RecvInfo { from: from.parse().unwrap(), to: to.parse().unwrap() };
            assert_eq!(is_answerable(info), expected, "{from} {to}");
        }
    }
}
