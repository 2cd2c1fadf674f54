//! Listening addresses that options name: two sockets cannot listen at one.

use std::net::IpAddr;
use std::net::SocketAddr;

use rustix::net;
use rustix::net::sockopt;
use rustix::net::AddressFamily;
use rustix::net::SocketType;

/// Address that an option names.
pub type NamedAddress = (&'static str, SocketAddr);

/// Checks that no two sockets of a protocol, `TCP` or `UDP`, would listen at one address.
///
/// # Errors
///
/// The second option, and one line that names both.
pub fn check(protocol: &str, named: &[NamedAddress]) -> Result<(), (&'static str, String)> {
    for (index, (option, address)) in named.iter().enumerate() {
        let collides = |(_, other): &&NamedAddress| overlap(*other, *address, is_v6_only);
        if let Some((other, other_address)) = named[..index].iter().find(collides) {
            return Err((
                *option,
                format!(
                    "--{other} {other_address} and --{option} {address} both need the {protocol} port {} \
                     there; choose another for one of them",
                    address.port()
                ),
            ));
        }
    }
    Ok(())
}

/// Returns whether IPv6 sockets leave IPv4 to others: net.ipv6.bindv6only, also for a service whose
/// /proc does not show it.
fn is_v6_only() -> bool {
    let socket = net::socket(AddressFamily::INET6, SocketType::STREAM, None);
    socket.is_ok_and(|socket| sockopt::ipv6_v6only(socket).unwrap_or_default())
}

fn overlap(one: SocketAddr, other: SocketAddr, is_v6_only: impl Fn() -> bool) -> bool {
    let covers = |one: IpAddr, other: IpAddr| {
        let is_any = one.is_unspecified() && one.is_ipv4() == other.is_ipv4();
        one == other || is_any || one.is_unspecified() && one.is_ipv6() && !is_v6_only()
    };
    let is_same_port = one.port() == other.port() && one.port() != 0;
    is_same_port && (covers(one.ip(), other.ip()) || covers(other.ip(), one.ip()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_overlap_if_one_covers_the_other() {
        for (one, other, of_both, v6_only) in [
            ("127.0.0.1:1", "127.0.0.1:1", true, true),
            ("127.0.0.1:1", "127.0.0.1:2", false, false),
            ("127.0.0.1:0", "127.0.0.1:0", false, false),
            ("127.0.0.1:1", "127.0.0.2:1", false, false),
            ("127.0.0.1:1", "0.0.0.0:1", true, true),
            ("[::]:1", "[::1]:1", true, true),
            ("[::]:1", "127.0.0.1:1", true, false),
            ("[::]:1", "0.0.0.0:1", true, false),
            ("[::1]:1", "0.0.0.0:1", false, false),
            ("[::1]:1", "127.0.0.1:1", false, false),
        ] {
            let (one, other) = (one.parse().unwrap(), other.parse().unwrap());
            for (one, other) in [(one, other), (other, one)] {
                assert_eq!(overlap(one, other, || false), of_both, "{one} {other}");
                assert_eq!(overlap(one, other, || true), v6_only, "{one} {other}");
            }
        }
    }
}
