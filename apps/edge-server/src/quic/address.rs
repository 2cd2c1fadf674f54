//! Form of an address in which secrets bind to it.

use std::net::IpAddr;

/// The same whether the socket has IPv4-mapped addresses or not.
pub fn address_bytes(ip: IpAddr) -> Vec<u8> {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}
