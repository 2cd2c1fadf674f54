//! Subnet list of an option, such as `--resume-except`.

use std::net::IpAddr;

use ipnet::IpNet;

/// List of subnets, possibly empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subnets(Vec<IpNet>);

impl Subnets {
    pub fn new(subnets: &[IpNet]) -> Self {
        Self(subnets.to_vec())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a client's address is in one of the subnets.
    pub fn contains(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        self.0.iter().any(|subnet| subnet.contains(&client))
    }
}

/// Parses a subnet.
///
/// # Errors
///
/// Why not, and what to write: what follows the text in a message.
pub fn parse(text: &str) -> Result<IpNet, String> {
    let example = "is no subnet; write an address and a length, such as 192.0.2.0/24";
    let subnet: IpNet = text.parse().map_err(|_| example.to_owned())?;
    match subnet == subnet.trunc() {
        true => Ok(subnet),
        false => Err(format!(
            "is an address in {0}; write {0} for all of it, or {1} for the address",
            subnet.trunc(),
            IpNet::from(subnet.addr())
        )),
    }
}

/// Returns a subnet of clients, whose addresses count as IPv4 if they are that.
///
/// # Errors
///
/// It is IPv4 written as IPv6.
pub fn not_mapped(subnet: IpNet) -> Result<IpNet, String> {
    match subnet {
        IpNet::V6(v6) if v6.addr().to_ipv4_mapped().is_some() => {
            Err("is IPv4 written as IPv6; write it as IPv4".to_owned())
        }
        _ => Ok(subnet),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_is_found_in_subnet_in_any_notation() {
        let subnets = ["192.0.2.0/24", "2001:db8::/32", "198.51.100.7/32"];
        let subnets = Subnets::new(&subnets.map(|subnet| subnet.parse().unwrap()));
        for (client, expected) in [
            ("192.0.2.9", true),
            ("::ffff:192.0.2.9", true),
            ("192.0.3.9", false),
            ("198.51.100.7", true),
            ("198.51.100.8", false),
            ("2001:db8:9::1", true),
            ("2001:db9::1", false),
        ] {
            assert_eq!(subnets.contains(client.parse().unwrap()), expected, "{client}");
        }
        assert!(Subnets::default().is_empty() && !subnets.is_empty());
    }

    #[test]
    fn subnet_with_bits_of_a_host_is_refused() {
        for (text, error) in [
            ("192.0.2.0/24", None),
            ("192.0.2.7/32", None),
            ("::/0", None),
            ("192.0.2.7/24", Some("is an address in 192.0.2.0/24; write 192.0.2.0/24 for all")),
            ("2001:db8::1/32", Some("write 2001:db8::/32 for all of it, or 2001:db8::1/128 for")),
            ("192.0.2.7", Some("is no subnet; write an address and a length")),
            ("::ffff:192.0.2.0/120", Some("is IPv4 written as IPv6")),
        ] {
            let parsed = parse(text).and_then(not_mapped);
            let is_expected = match (&parsed, error) {
                (Ok(subnet), None) => subnet.to_string() == text,
                (Err(found), Some(expected)) => found.contains(expected),
                _ => false,
            };
            assert!(is_expected, "{text}: {parsed:?}");
        }
    }
}
