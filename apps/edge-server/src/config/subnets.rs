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
}
