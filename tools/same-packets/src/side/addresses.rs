//! Addresses and connection IDs of the endpoints.

use super::quiche;
use crate::determinism::Generator;
use std::net::SocketAddr;

/// UDP port of the client, before a NAT.
pub const CLIENT_PORT: u16 = 1000;

/// Returns one of the client's addresses.
pub fn client_address(number: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, number], CLIENT_PORT))
}

/// Returns the server's address.
pub fn server_address() -> SocketAddr {
    SocketAddr::from(([10, 9, 9, 9], 443))
}

/// Draws a connection ID.
pub fn connection_id(random: &mut Generator) -> quiche::ConnectionId<'static> {
    let bytes: Vec<u8> = (0..2).flat_map(|_| random.next().to_be_bytes()).collect();
    quiche::ConnectionId::from_vec(bytes)
}
