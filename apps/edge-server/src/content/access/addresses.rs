//! Client addresses that an access rule allows and denies.

use std::net::IpAddr;

use anyhow::bail;
use ipnet::IpNet;

use crate::config::subnets::Subnets;

/// Addresses of a rule: what is denied is so even if it is allowed, too.
#[derive(Clone, Debug)]
pub struct AddressRule {
    /// If there is a list, others are denied.
    allow: Option<Subnets>,
    deny: Subnets,
}

impl AddressRule {
    /// Parses the lists of a rule.
    ///
    /// # Errors
    ///
    /// One line that names the key.
    pub fn new(allow: Option<&[String]>, deny: Option<&[String]>) -> anyhow::Result<Self> {
        Ok(Self {
            allow: allow.map(|list| subnets("allow", list)).transpose()?,
            deny: subnets("deny", deny.unwrap_or_default())?,
        })
    }

    /// Returns whether a client may have what it asks for. Each of its addresses counts.
    pub fn allows(&self, clients: &[IpAddr]) -> bool {
        clients.iter().all(|client| {
            let is_allowed = self.allow.as_ref().is_none_or(|allow| allow.contains(*client));
            is_allowed && !self.deny.contains(*client)
        })
    }
}

fn subnets(key: &str, list: &[String]) -> anyhow::Result<Subnets> {
    let parsed = list.iter().map(|text| subnet(key, text)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Subnets::new(&parsed))
}

/// Parses a subnet, or the address of one client.
fn subnet(key: &str, text: &str) -> anyhow::Result<IpNet> {
    let subnet = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    let Ok(subnet) = subnet else {
        bail!(
            "access: {key}: '{text}' is no subnet; write 192.0.2.0/24, 2001:db8::/32 or an address"
        );
    };
    if matches!(subnet, IpNet::V6(v6) if v6.addr().to_ipv4_mapped().is_some()) {
        bail!("access: {key}: '{text}' is IPv4 written as IPv6; write it as IPv4");
    }
    Ok(subnet)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn denied_address_is_denied_and_list_of_allowed_denies_others() {
        let allow = &["192.0.2.0/24", "2001:db8::/32", "198.51.100.7"][..];
        let deny = &["192.0.2.66", "2001:db8:6::/48"][..];
        for (allow, deny, clients, expected) in [
            (None, None, &["192.0.2.1"][..], true),
            (Some(allow), None, &["192.0.2.1"], true),
            (Some(allow), None, &["::ffff:192.0.2.1"], true),
            (Some(allow), None, &["192.0.3.1"], false),
            (Some(allow), None, &["198.51.100.7"], true),
            (Some(allow), None, &["198.51.100.8"], false),
            (Some(allow), None, &["2001:db8::1"], true),
            (Some(&[][..]), None, &["192.0.2.1"], false),
            (None, Some(deny), &["192.0.2.1"], true),
            (None, Some(deny), &["192.0.2.66"], false),
            (None, Some(deny), &["::ffff:192.0.2.66"], false),
            (Some(allow), Some(deny), &["192.0.2.66"], false),
            (Some(allow), Some(deny), &["2001:db8:6::1"], false),
            (Some(allow), Some(deny), &["2001:db8:7::1"], true),
            // A client on its way from one address to another.
            (Some(allow), None, &["192.0.2.1", "192.0.3.1"], false),
            (Some(allow), None, &["192.0.2.1", "192.0.2.2"], true),
        ] {
            let case = format!("{allow:?} {deny:?} {clients:?}");
            let (allow, deny) = (allow.map(strings), deny.map(strings));
            let rule = AddressRule::new(allow.as_deref(), deny.as_deref()).unwrap();
            let clients: Vec<_> = clients.iter().map(|client| client.parse().unwrap()).collect();
            assert_eq!(rule.allows(&clients), expected, "{case}");
        }
    }
}
