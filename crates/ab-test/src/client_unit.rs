//! Client unit: what counts as one client.

use std::net::IpAddr;
use std::net::Ipv6Addr;

/// One client, for the draw of its arm and whatever else is kept of it: an IPv4 address, or an IPv6
/// /64.
///
/// A network gives a customer no less than these, and an IPv6 host changes its address within its
/// /64 from day to day (RFC 8981).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientUnit(IpAddr);

impl ClientUnit {
    /// Returns the unit of an address. An IPv4-mapped address counts as the IPv4 address.
    pub fn of(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(v4) => v4.into(),
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        })
    }

    /// Calls `with` with the bytes of the address, or of its first half.
    pub fn with_bytes<T>(self, with: impl FnOnce(&[u8]) -> T) -> T {
        match self.0 {
            IpAddr::V4(v4) => with(&v4.octets()),
            IpAddr::V6(v6) => with(&v6.octets()[..8]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_is_an_ipv4_address_or_an_ipv6_64() {
        let unit = |address: &str| ClientUnit::of(address.parse().unwrap());
        for (one, other, same) in [
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", true),
            ("2001:db8:1:2::1", "2001:db8:1:3::1", false),
        ] {
            assert_eq!(unit(one) == unit(other), same, "{one} {other}");
        }
        assert_eq!(unit("192.0.2.1").with_bytes(<[u8]>::to_vec), [192, 0, 2, 1]);
        let half = [0x20, 1, 0xd, 0xb8, 0, 1, 0, 2];
        assert_eq!(unit("2001:db8:1:2::1").with_bytes(<[u8]>::to_vec), half);
    }
}
