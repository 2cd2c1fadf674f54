//! Access rules of a virtual host: what clients must be, or bring, to get some of its paths.

mod addresses;
pub mod refusal;

use std::net::IpAddr;

use anyhow::ensure;
use anyhow::Context;

use crate::config::file;
use crate::content::access::addresses::AddressRule;
use crate::content::access::refusal::AccessRefusal;
use crate::content::path_pattern::PathPattern;
use crate::http::content_coding::Coding;

/// Access rules of a host, at least one. A request has to satisfy all that match its path.
#[derive(Clone, Debug)]
pub struct AccessRules(Vec<PathAccess>);

#[derive(Clone, Debug)]
struct PathAccess {
    path: PathPattern,
    except: Vec<PathPattern>,
    addresses: AddressRule,
}

/// Path of a request, or of the file that it leads to, which may match rules.
#[derive(Clone, Copy)]
pub struct AccessPath<'a> {
    pub path: &'a str,

    /// Path whose rules have been asked already.
    pub asked: Option<&'a str>,
}

impl AccessRules {
    /// Validates the access rules of a host. Returns `None` if there are none.
    ///
    /// # Errors
    ///
    /// One line that names the invalid key.
    pub fn new(host: &file::Host) -> anyhow::Result<Option<Self>> {
        let rules = host
            .access
            .iter()
            .flatten()
            .map(|rule| PathAccess::new(rule).with_context(|| rule.position.to_string()));
        let rules: Vec<_> = rules.collect::<anyhow::Result<_>>()?;
        Ok((!rules.is_empty()).then_some(Self(rules)))
    }

    /// Asks the rules for a path whether a client of these addresses gets it.
    ///
    /// # Errors
    ///
    /// The reason why not.
    pub fn check(&self, path: AccessPath<'_>, clients: &[IpAddr]) -> Result<(), AccessRefusal> {
        let rules = || self.0.iter().filter(|rule| rule.applies_to(path));
        let allows = |rule: &PathAccess| rule.addresses.allows(clients);
        if !rules().all(allows) {
            return Err(AccessRefusal::Address);
        }
        Ok(())
    }
}

impl PathAccess {
    fn new(rule: &file::AccessRule) -> anyhow::Result<Self> {
        let file::AccessRule { path, except, allow, deny, .. } = rule;
        let pattern = |path: &String| PathPattern::new("access", path);
        let is_empty = allow.is_none() && deny.is_none();
        ensure!(!is_empty, "access: path = '{path}' asks for nothing; give it allow or deny");
        Ok(Self {
            path: pattern(path)?,
            except: except.iter().map(pattern).collect::<anyhow::Result<_>>()?,
            addresses: AddressRule::new(allow.as_deref(), deny.as_deref())?,
        })
    }

    fn applies_to(&self, AccessPath { path, asked }: AccessPath<'_>) -> bool {
        self.matches(path) && !asked.is_some_and(|asked| self.matches(asked))
    }

    fn matches(&self, path: &str) -> bool {
        is_match(&self.path, path) && !self.except.iter().any(|except| except.is_match(path))
    }
}

/// Returns whether a pattern matches a path, the folder that it names without a slash, or the file
/// whose compressed sibling it is.
fn is_match(pattern: &PathPattern, path: &str) -> bool {
    let is_sibling = || {
        let plain = Coding::ALL.iter().find_map(|coding| path.strip_suffix(coding.suffix()));
        plain.is_some_and(|plain| pattern.is_match(plain))
    };
    let is_folder = || !path.ends_with('/') && pattern.is_match(&format!("{path}/"));
    pattern.is_match(path) || is_sibling() || is_folder()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_names_invalid_key() {
        for (toml, named) in [
            ("path = '/a'", "line 2, column 1: access: path = '/a' asks for nothing"),
            ("path = 'a/b'\ndeny = ['::/0']", "access: path = 'a/b': begin with /"),
            ("except = ['/[']\ndeny = ['::/0']", "access: path = '/['"),
            ("allow = ['example.org']", "access: allow: 'example.org' is no subnet"),
            ("deny = ['192.0.2.0/33']", "access: deny: '192.0.2.0/33' is no subnet"),
            ("deny = ['::ffff:192.0.2.0/120']", "write it as IPv4"),
        ] {
            let error = new(toml).expect_err(toml);
            let error = format!("{error:#}");
            assert!(error.contains(named) && !error.contains('\n'), "{toml}: {error}");
        }
    }

    /// Returns the rules of a host with one rule.
    fn new(toml: &str) -> anyhow::Result<Option<AccessRules>> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("edge.toml");
        std::fs::write(&file, format!("[[host]]\n[[host.access]]\n{toml}\n")).unwrap();
        let host = file::ConfigFile::read(&file).unwrap().default_host();
        AccessRules::new(&host)
    }
}
