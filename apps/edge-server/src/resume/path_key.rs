//! Path key: the key under which a connection's path state is stored (RFC 9959, 2.2).

use std::net::IpAddr;
use std::net::SocketAddr;

use quiche::path_state::PrefixLengths;
use quiche::path_state::RemoteEndpoint;

/// Parameters of the keys: how addresses are grouped.
#[derive(Clone, Debug)]
pub struct PathKey {
    group: Option<String>,
    lengths: PrefixLengths,
    dscp: Option<u8>,
}

impl PathKey {
    /// Servers of one `group` share path state; without a group, each sending address has its own.
    /// A `dscp` separates the paths of packets with that mark.
    pub fn new(group: Option<String>, lengths: PrefixLengths, dscp: Option<u8>) -> Self {
        Self { group, lengths, dscp }
    }

    /// Returns the key for packets from `local` to `client`.
    pub fn remote_endpoint(&self, local: IpAddr, client: SocketAddr) -> RemoteEndpoint {
        let mut sender = match &self.group {
            Some(group) => group.clone(),
            None => local.to_canonical().to_string(),
        };
        if let Some(zone) = zone(client) {
            sender = format!("{sender}%{zone}");
        }
        let endpoint = RemoteEndpoint::new(&sender, client.ip(), self.lengths);
        match self.dscp {
            Some(dscp) => endpoint.with_dscp(dscp),
            None => endpoint,
        }
    }
}

/// Returns the zone of a link-local address, which is unique on its link only.
fn zone(client: SocketAddr) -> Option<u32> {
    match client {
        SocketAddr::V6(client) if client.ip().is_unicast_link_local() => {
            Some(client.scope_id()).filter(|zone| *zone != 0)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(group: Option<&str>, local: &str, client: &str) -> String {
        let key = PathKey::new(group.map(str::to_owned), PrefixLengths::default(), None);
        let client = SocketAddr::new(client.parse().unwrap(), 50_000);
        key.remote_endpoint(local.parse().unwrap(), client).to_string()
    }

    #[test]
    fn prefix_lengths_and_dscp_follow_options() {
        let key = PathKey::new(None, PrefixLengths { v4: 20, v6: 56 }, Some(46));
        let local = IpAddr::from([192, 0, 2, 1]);
        for (client, expected) in [
            ("198.51.100.7:1", "192.0.2.1>198.51.96.0/20#46"),
            ("[2001:db8:1:2fff::3]:1", "192.0.2.1>2001:db8:1:2f00::/56#46"),
        ] {
            let endpoint = key.remote_endpoint(local, client.parse().unwrap());
            assert_eq!(endpoint.to_string(), expected);
        }
    }

    // All links use the same link-local prefix.
    #[test]
    fn link_local_key_includes_zone() {
        let key = PathKey::new(None, PrefixLengths::default(), None);
        let local: IpAddr = "fe80::1".parse().unwrap();
        for (client, expected) in [
            ("[fe80::7%3]:1", "fe80::1%3>fe80::/48"),
            ("[fe80::7%4]:1", "fe80::1%4>fe80::/48"),
            ("[fe80::7]:1", "fe80::1>fe80::/48"),
            ("[2001:db8::7%3]:1", "fe80::1>2001:db8::/48"),
        ] {
            let endpoint = key.remote_endpoint(local, client.parse().unwrap());
            assert_eq!(endpoint.to_string(), expected);
        }
    }

    #[test]
    fn key_is_sending_address_and_client_subnet() {
        let table = [
            ("192.0.2.1", "198.51.100.7", "192.0.2.1>198.51.100.0/24"),
            ("::ffff:192.0.2.1", "::ffff:198.51.100.7", "192.0.2.1>198.51.100.0/24"),
            ("2001:db8::1", "2001:db8:1:2::3", "2001:db8::1>2001:db8:1::/48"),
        ];
        for (local, client, expected) in table {
            assert_eq!(key(None, local, client), expected);
        }
    }

    #[test]
    fn path_group_replaces_sending_address() {
        let one = key(Some("pop7"), "192.0.2.1", "198.51.100.7");
        let other = key(Some("pop7"), "192.0.2.2", "198.51.100.8");
        assert_eq!(one, other);
        assert_eq!(one, "pop7>198.51.100.0/24");
    }
}
