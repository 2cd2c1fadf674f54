//! Client addresses that an access rule allows and denies.

use std::net::IpAddr;

use anyhow::anyhow;
use anyhow::ensure;
use ipnet::IpNet;

use crate::config::subnets;
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
        ensure!(
            deny.is_none_or(|list| !list.is_empty()),
            "access: deny = [] denies nobody; name subnets, or leave it out"
        );
        Ok(Self {
            allow: allow.map(|list| parse("allow", list)).transpose()?,
            deny: parse("deny", deny.unwrap_or_default())?,
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

fn parse(key: &str, list: &[String]) -> anyhow::Result<Subnets> {
    let parsed = list.iter().map(|text| subnet(key, text)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(Subnets::new(&parsed))
}

/// Parses a subnet, or the address of one client.
fn subnet(key: &str, text: &str) -> anyhow::Result<IpNet> {
    let parsed = text.parse::<IpAddr>().map_or_else(|_| subnets::parse(text), |ip| Ok(ip.into()));
    let parsed = parsed.and_then(subnets::not_mapped);
    parsed.map_err(|why| anyhow!("access: {key}: '{text}' {why}"))
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
