//! IP addresses as bytes, for the input of MACs and AEADs.

use std::net::IpAddr;

/// Returns the address as bytes; an IPv4-mapped address equals its IPv4 address.
pub fn address_bytes(ip: IpAddr) -> Vec<u8> {
    match ip.to_canonical() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}
