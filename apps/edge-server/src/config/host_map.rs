//! Map of host names: a name's own value, or that of all names below one.

use std::borrow::Cow;
use std::collections::HashMap;

/// Things by the names of hosts.
#[derive(Clone, Debug)]
pub struct HostMap<T> {
    exact: HashMap<String, T>,

    /// By what comes after `*.`.
    below: HashMap<String, T>,
}

impl<T> Default for HostMap<T> {
    fn default() -> Self {
        Self { exact: HashMap::new(), below: HashMap::new() }
    }
}

impl<T> HostMap<T> {
    /// Adds what belongs to `name`, which may begin with `*.`.
    ///
    /// # Errors
    ///
    /// It is no name, or taken: one line that says so.
    pub fn insert(&mut self, name: &str, value: T) -> anyhow::Result<()> {
        let lower = name.to_ascii_lowercase();
        let (map, key) = match lower.strip_prefix("*.") {
            Some(below) => (&mut self.below, below),
            None => (&mut self.exact, lower.as_str()),
        };
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        anyhow::ensure!(
            !key.is_empty() && key.bytes().all(good),
            "'{name}' is not a host name; write www.example.org, or *.example.org for all below it"
        );
        let old = map.insert(key.to_owned(), value);
        anyhow::ensure!(old.is_none(), "two hosts have the name '{name}'; list it once");
        Ok(())
    }

    /// What belongs to `host`: its own, or that of the nearest name above with `*.`.
    pub fn find(&self, host: &str) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        let upper = host.bytes().any(|byte| byte.is_ascii_uppercase());
        let host = if upper { Cow::Owned(host.to_ascii_lowercase()) } else { Cow::Borrowed(host) };
        let host = host.strip_suffix('.').unwrap_or(&host);
        self.exact.get(host).or_else(|| {
            let above = |name: &str| name.split_once('.').map(|(_, rest)| rest.to_owned());
            std::iter::successors(above(host), |name| above(name))
                .find_map(|name| self.below.get(&name))
        })
    }

    /// What belongs to any name.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.exact.values().chain(self.below.values())
    }

    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.below.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_counts() {
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
    fn bad_names_are_named() {
        let mut names = HostMap::default();
        names.insert("a.example", ()).unwrap();
        for bad in ["A.EXAMPLE", "", "*.", "*", "a*.example", "a b", "a/b"] {
            let error = names.insert(bad, ()).unwrap_err().to_string();
            assert!(error.contains(&format!("'{bad}'")), "{error}");
        }
    }
}
