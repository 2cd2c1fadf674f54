//! Address of a client behind trusted proxies, as they tell it in `X-Forwarded-For` or `Forwarded`
//! (RFC 7239). Fields of all others mean nothing.

use std::net::IpAddr;
use std::net::SocketAddr;

use crate::config::subnets::Subnets;
use crate::http::request::Request;

/// Entries that are read, from the last one: no request has passed so many proxies of ours.
const ENTRIES_MAX: usize = 64;

/// Proxies that tell the truth.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Subnets);

impl TrustedProxies {
    pub fn new(subnets: Subnets) -> Self {
        Self(subnets)
    }

    /// Returns the address of the client that a request from these addresses is for, if all are those of
    /// trusted proxies: the last one told that is none of a trusted proxy. What stands before it may be a lie.
    pub fn client_of(
        &self,
        request: &Request<'_>,
        peers: impl FnOnce() -> Vec<IpAddr>,
    ) -> Option<IpAddr> {
        let is_trusted = |address: &IpAddr| self.0.contains(*address);
        if self.0.is_empty() {
            return None;
        }
        let peers = peers();
        if peers.is_empty() || !peers.iter().all(is_trusted) {
            return None;
        }
        // Proxies that know the other field alone leave this one as their client sent it.
        let lines: Vec<_> = request.raw_values("x-forwarded-for").collect();
        match lines.is_empty() {
            false => self.last_untrusted(&lines, address_of),
            true => {
                let lines: Vec<_> = request.raw_values("forwarded").collect();
                self.last_untrusted(&lines, address_of_element)
            }
        }
    }

    /// Returns the last address that is not trusted, or else the last that is known.
    fn last_untrusted(
        &self,
        lines: &[&[u8]],
        read: impl Fn(&str) -> Option<IpAddr>,
    ) -> Option<IpAddr> {
        let entries = lines.iter().rev().flat_map(|line| line.rsplit(|byte| *byte == b','));
        let mut found = None;
        for entry in entries.take(ENTRIES_MAX) {
            let address = std::str::from_utf8(entry).ok().and_then(|entry| read(entry.trim()));
            let Some(address) = address.map(|address| address.to_canonical()) else { break };
            found = Some(address);
            if !self.0.contains(address) {
                break;
            }
        }
        found
    }
}

/// Returns the address that an entry of `X-Forwarded-For` has, which may have a port.
fn address_of(entry: &str) -> Option<IpAddr> {
    let in_brackets = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let address = match in_brackets {
        Some(address) => address.parse().ok().map(IpAddr::V6),
        None => entry.parse().ok(),
    };
    address.or_else(|| entry.parse::<SocketAddr>().ok().map(|address| address.ip()))
}

/// Returns the address that an element of `Forwarded` has (RFC 7239, 4). Commas in quotes divide elements,
/// too: what is left of one then has half of the quotes, and is none.
fn address_of_element(element: &str) -> Option<IpAddr> {
    let is_whole = element.matches('"').count().is_multiple_of(2) && !element.contains('\\');
    let pairs = element.split(';').filter_map(|pair| pair.trim().split_once('='));
    let mut nodes = pairs.filter(|(name, _)| name.eq_ignore_ascii_case("for"));
    let (_, node) = nodes.next().filter(|_| is_whole)?;
    if nodes.next().is_some() {
        return None;
    }
    let unquoted = node.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    address_of(unquoted.unwrap_or(node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiche::h3;

    fn client(peers: &[&str], fields: &[(&str, &str)]) -> Option<String> {
        let trusted = ["192.0.2.0/24", "2001:db8::/32"];
        let trusted = Subnets::new(&trusted.map(|subnet| subnet.parse().unwrap()));
        let start = [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/")];
        let lines = start.iter().chain(fields);
        let lines: Vec<_> =
            lines.map(|(name, value)| h3::Header::new(name.as_bytes(), value.as_bytes())).collect();
        let request = Request::read(&lines).unwrap();
        let peers: Vec<_> = peers.iter().map(|peer| peer.parse().unwrap()).collect();
        let client = TrustedProxies::new(trusted).client_of(&request, || peers);
        client.map(|client| client.to_string())
    }

    #[test]
    fn client_is_the_last_that_no_trusted_proxy_is() {
        let many = "6.6.6.6, ".repeat(2000) + "1.1.1.1";
        let trusted = "192.0.2.1, ".repeat(2000) + "192.0.2.9";
        for (told, expected) in [
            ("1.1.1.1", Some("1.1.1.1")),
            ("1.1.1.1 ,\t192.0.2.7", Some("1.1.1.1")),
            ("1.1.1.1:4433", Some("1.1.1.1")),
            ("2001:db9::1", Some("2001:db9::1")),
            ("[2001:db9::1]", Some("2001:db9::1")),
            ("[2001:db9::1]:4433", Some("2001:db9::1")),
            ("::ffff:1.1.1.1", Some("1.1.1.1")),
            ("6.6.6.6, 1.1.1.1, 192.0.2.7, 2001:db8::2", Some("1.1.1.1")),
            ("6.6.6.6,1.1.1.1", Some("1.1.1.1")),
            ("192.0.2.8, 192.0.2.7", Some("192.0.2.8")),
            // What is before garbage may be a lie.
            ("6.6.6.6, unknown, 192.0.2.7", Some("192.0.2.7")),
            ("6.6.6.6, , 192.0.2.7", Some("192.0.2.7")),
            ("6.6.6.6, unknown", None),
            ("1.1.1.1,", None),
            ("1.1.1.1/8", None),
            ("[1.1.1.1]", None),
            ("1.1.1", None),
            ("127.0.0.1;1.1.1.1", None),
            ("\"1.1.1.1\"", None),
            ("é", None),
            ("", None),
            (&many, Some("1.1.1.1")),
            (&trusted, Some("192.0.2.1")),
        ] {
            let found = client(&["192.0.2.7"], &[("x-forwarded-for", told)]);
            assert_eq!(found.as_deref(), expected, "{}", &told[..told.len().min(99)]);
        }
    }

    #[test]
    fn element_of_forwarded_is_read_as_the_rfc_has_it() {
        for (told, expected) in [
            ("for=1.1.1.1", Some("1.1.1.1")),
            ("For=\"1.1.1.1:80\"; proto=http;by=203.0.113.43", Some("1.1.1.1")),
            ("proto=http;for=\"[2001:db9::1]:80\"", Some("2001:db9::1")),
            ("for=6.6.6.6, for=1.1.1.1, for=192.0.2.7", Some("1.1.1.1")),
            ("for=6.6.6.6, for=_hidden, for=192.0.2.7", Some("192.0.2.7")),
            ("for=6.6.6.6, for=unknown", None),
            ("for=6.6.6.6, proto=http", None),
            ("for=6.6.6.6;for=1.1.1.1", None),
            ("for=\"x, for=1.1.1.1", Some("1.1.1.1")),
            // A proxy that puts a host into quotes does not have it end an element.
            ("for=1.1.1.1;host=\"a,for=6.6.6.6\"", None),
            ("for=1.1.1.1;host=\"a,for=6.6.6.6;x=\"", None),
            ("for=1.1.1.1;host=\"a\\\",for=6.6.6.6;x=\\\"\"", None),
            ("1.1.1.1", None),
        ] {
            let found = client(&["192.0.2.7"], &[("forwarded", told)]);
            assert_eq!(found.as_deref(), expected, "{told}");
        }
    }

    #[test]
    fn fields_count_if_all_addresses_of_the_peer_are_trusted() {
        let told = ("x-forwarded-for", "1.1.1.1");
        let other = ("forwarded", "for=3.3.3.3");
        for (peers, fields, expected) in [
            (&["192.0.2.7"][..], &[told][..], Some("1.1.1.1")),
            (&["::ffff:192.0.2.7"], &[told], Some("1.1.1.1")),
            (&["192.0.2.7", "192.0.2.8"], &[told], Some("1.1.1.1")),
            (&["192.0.2.7", "198.51.100.1"], &[told], None),
            (&["198.51.100.1"], &[told], None),
            (&[], &[told], None),
            (&["192.0.2.7"], &[], None),
            (&["192.0.2.7"], &[other, told], Some("1.1.1.1")),
            (&["192.0.2.7"], &[("x-forwarded-for", "x"), other], None),
            (&["192.0.2.7"], &[("x-forwarded-for", "6.6.6.6"), told], Some("1.1.1.1")),
            (&["192.0.2.7"], &[("x_forwarded_for", "6.6.6.6"), other], Some("3.3.3.3")),
        ] {
            assert_eq!(client(peers, fields).as_deref(), expected, "{peers:?} {fields:?}");
        }
    }
}
