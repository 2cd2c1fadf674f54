//! Upstream sockets: the address under which the server sees a client.
//!
//! A server on loopback sees each client under an address of 127.0.0.0/8 that
//! the client's own address alone determines: its own, if that is one. So
//! clients of several subnets can be played on one machine, without root. A
//! server elsewhere can only answer to a real address of this machine.

use std::io;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::Ipv6Addr;
use std::net::SocketAddr;
use std::net::UdpSocket;

/// Opens a socket towards `server` for a client with the address `client`.
///
/// # Errors
///
/// If no source address can be bound, or the server cannot be reached from it.
pub fn connect(client: IpAddr, server: SocketAddr) -> io::Result<UdpSocket> {
    let bound = match source(client, server.ip()) {
        Some(address) => UdpSocket::bind((address, 0)),
        None => UdpSocket::bind((any(server.ip()), 0)),
    };
    // An address that is not ours after all: better a plain one than none.
    let socket = bound.or_else(|_| UdpSocket::bind((any(server.ip()), 0)))?;
    socket.connect(server)?;
    Ok(socket)
}

/// Returns the source address to try, if one is better than the system's choice.
fn source(client: IpAddr, server: IpAddr) -> Option<IpAddr> {
    match (server, client.to_canonical()) {
        (IpAddr::V4(server), client) if server.is_loopback() => Some(on_loopback(client).into()),
        (server, client) if server.is_ipv4() == client.is_ipv4() => Some(client),
        _ => None,
    }
}

/// Returns an address of 127.0.0.0/8: clients of one /24 (IPv6: of one /48) share
/// a /24 there.
fn on_loopback(client: IpAddr) -> Ipv4Addr {
    match client {
        IpAddr::V4(v4) => {
            let [_, b, c, d] = v4.octets();
            Ipv4Addr::new(127, b, c, d)
        }
        IpAddr::V6(v6) if v6.is_loopback() => Ipv4Addr::LOCALHOST,
        IpAddr::V6(v6) => {
            let octets = v6.octets();
            Ipv4Addr::new(127, octets[4], octets[5], octets[15])
        }
    }
}

fn any(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(client: &str, server: &str) -> Option<String> {
        let source = source(client.parse().unwrap(), server.parse().unwrap());
        source.map(|address| address.to_string())
    }

    #[test]
    fn loopback_client_keeps_its_address() {
        assert_eq!(seen("127.3.2.1", "127.0.0.1").unwrap(), "127.3.2.1");
        assert_eq!(seen("::ffff:127.3.2.1", "127.0.0.1").unwrap(), "127.3.2.1");
        assert_eq!(seen("::1", "::1").unwrap(), "::1");
    }

    #[test]
    fn clients_of_a_subnet_share_a_loopback_subnet() {
        assert_eq!(seen("192.168.7.9", "127.0.0.1").unwrap(), "127.168.7.9");
        assert_eq!(seen("2001:db8:102::5", "127.0.0.1").unwrap(), "127.1.2.5");
        assert_eq!(seen("2001:db8:102:9::7", "127.0.0.1").unwrap(), "127.1.2.7");
        assert_eq!(seen("::1", "127.0.0.1").unwrap(), "127.0.0.1");
    }

    #[test]
    fn remote_server_is_reached_from_a_real_address() {
        assert_eq!(seen("192.168.7.9", "10.0.0.1").unwrap(), "192.168.7.9");
        assert_eq!(seen("127.0.0.1", "2001:db8::1"), None);
    }

    #[test]
    fn foreign_address_does_not_exclude_a_client() {
        // 127.255.255.255 is loopback's broadcast address.
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let client = "10.255.255.255".parse().unwrap();
        assert!(connect(client, server.local_addr().unwrap()).is_ok());
    }
}
