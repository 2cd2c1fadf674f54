//! Map from host names and wildcards to values.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::Ipv6Addr;

/// Values by host name or wildcard (`*.example.org`).
#[derive(Clone, Debug)]
pub struct HostMap<T> {
    exact: HashMap<String, T>,

    /// Values of wildcards, by the name after `*.`.
    wildcard: HashMap<String, T>,
}

impl<T> Default for HostMap<T> {
    fn default() -> Self {
        Self { exact: HashMap::new(), wildcard: HashMap::new() }
    }
}

impl<T> HostMap<T> {
    /// Adds the value of `name`, which may begin with `*.`.
    ///
    /// # Errors
    ///
    /// One line if the name is invalid or already in the map.
    pub fn insert(&mut self, name: &str, value: T) -> anyhow::Result<()> {
        let lower = name.to_ascii_lowercase();
        let (map, key) = match lower.strip_prefix("*.") {
            Some(parent) => (&mut self.wildcard, parent),
            None => (&mut self.exact, lower.as_str()),
        };
        let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        anyhow::ensure!(
            key.bytes().all(valid) && !key.split('.').any(str::is_empty),
            "'{name}' is not a host name; write www.example.org, or *.example.org for all below it"
        );
        // A colon is for IPv6 addresses.
        anyhow::ensure!(
            !key.contains(':') || key.parse::<Ipv6Addr>().is_ok(),
            "'{name}' has a port; leave it out: a host is served at the port of --listen"
        );
        let old = map.insert(key.to_owned(), value);
        anyhow::ensure!(old.is_none(), "two hosts have the name '{name}'; list it once");
        Ok(())
    }

    /// Replaces the value of a name that is in the map.
    pub fn replace(&mut self, name: &str, value: T) {
        let lower = name.to_ascii_lowercase();
        let old = match lower.strip_prefix("*.") {
            Some(parent) => self.wildcard.get_mut(parent),
            None => self.exact.get_mut(&lower),
        };
        if let Some(old) = old {
            *old = value;
        }
    }

    /// Returns the value of `host`, or that of the most specific wildcard that matches.
    pub fn find(&self, host: &str) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        let upper = host.bytes().any(|byte| byte.is_ascii_uppercase());
        let host = if upper { Cow::Owned(host.to_ascii_lowercase()) } else { Cow::Borrowed(host) };
        let host = host.strip_suffix('.').unwrap_or(&host);
        self.exact.get(host).or_else(|| {
            let parent = |name: &str| name.split_once('.').map(|(_, rest)| rest.to_owned());
            std::iter::successors(parent(host), |name| parent(name))
                .find_map(|name| self.wildcard.get(&name))
        })
    }

    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.wildcard.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_specific_name_is_found() {
        let mut names = HostMap::default();
        for name in ["a.example", "*.example", "*.b.example", "Upper.example", "::1"] {
            names.insert(name, name.to_owned()).unwrap();
        }
        for (host, expected) in [
            ("a.example", Some("a.example")),
            ("A.Example.", Some("a.example")),
            ("b.example", Some("*.example")),
            ("x.b.example", Some("*.b.example")),
            ("y.x.b.example", Some("*.b.example")),
            ("upper.EXAMPLE", Some("Upper.example")),
            ("::1", Some("::1")),
            ("example", None),
            ("other", None),
            ("", None),
        ] {
            assert_eq!(names.find(host).map(String::as_str), expected, "{host}");
        }
    }

    #[test]
    fn host_name_with_a_port_is_refused() {
        let mut names = HostMap::default();
        for bad in ["example.org:443", "*.example.org:443", "192.0.2.1:443", "a:"] {
            let error = names.insert(bad, ()).unwrap_err().to_string();
            assert!(error.contains(&format!("'{bad}' has a port; leave it out")), "{error}");
        }
        names.insert("2001:db8::1", ()).unwrap();
    }

    #[test]
    fn error_names_invalid_host_name() {
        let mut names = HostMap::default();
        names.insert("a.example", ()).unwrap();
        for bad in ["A.EXAMPLE", "", "*.", "*", "a*.example", "a b", "a/b", "a..b", ".a", "a."] {
            let error = names.insert(bad, ()).unwrap_err().to_string();
            assert!(error.contains(&format!("'{bad}'")), "{error}");
        }
    }
}
