//! Gaps in access rules: files of a host that another host serves without its rules.

use std::path::Path;
use std::path::PathBuf;

use crate::config::file::AccessRule;
use crate::config::file::Host;
use crate::config::preflight::resolved;
use crate::config::Config;
use crate::content::access::covered_paths::CoveredPaths;

/// Host with its folder.
struct HostFolder {
    host: Host,
    folder: PathBuf,
}

impl HostFolder {
    fn new(config: &Config, host: Host) -> Self {
        let folder = resolved(host.root.as_ref().unwrap_or(&config.flags.root));
        Self { host, folder }
    }

    fn rules(&self) -> &[AccessRule] {
        self.host.access.as_deref().unwrap_or_default()
    }

    /// Returns whether a rule asks who the client is, for a path that begins so.
    fn protects(&self, below: &str) -> bool {
        self.rules().iter().filter(|rule| is_guard(rule)).any(|rule| {
            let paths = CoveredPaths::new(&rule.path, &rule.except);
            rule.path.starts_with(below)
                || paths.is_ok_and(|paths| paths.contains(&format!("{below}x")))
        })
    }
}

/// Returns a line for each host whose access rules another one gets around.
pub fn find(config: &Config) -> Vec<String> {
    let default = HostFolder::new(config, config.file.default_host());
    let named = config.file.named().map(|host| HostFolder::new(config, host));
    let named: Vec<_> = named.collect();
    let of_default = named.iter().filter_map(|host| gap_of_default(host, &default));
    let hosts = || std::iter::once(&default).chain(&named);
    let inner = hosts().filter(|host| host.rules().iter().any(is_guard)).filter_map(|host| {
        let mut others = hosts().filter(|other| other.host.names != host.host.names);
        others.find_map(|other| gap_of_other(host, other))
    });
    of_default.chain(inner).collect()
}

/// Returns the line for a host in the folder of the one without names, which has fewer rules.
fn gap_of_default(host: &HostFolder, default: &HostFolder) -> Option<String> {
    // Those of the host without names are its own, too.
    let is_open = host.rules().len() > default.rules().len() && host.folder == default.folder;
    is_open.then(|| {
        format!(
            "{} has access rules that other names of the same folder do not: who requests \
             another name gets the files without them; give the rules to a [[host]] without \
             names, or that one another root",
            host.host
        )
    })
}

/// Returns the line for a host in the folder of another one, or below, that protects none of it.
fn gap_of_other(host: &HostFolder, other: &HostFolder) -> Option<String> {
    let within = host.folder.strip_prefix(&other.folder).ok()?;
    let is_same = within == Path::new("");
    let below = if is_same { "/".to_owned() } else { format!("/{}/", within.display()) };
    let is_told = is_same && other.host.names.is_empty();
    if is_told || other.protects(&below) {
        return None;
    }
    let name = other.host.first_name();
    Some(format!(
        "{} has access rules, and [[host]] {name} serves the same files below {below} without any: give \
         that one rules for {below}**, or one of them another root",
        host.host
    ))
}

/// Returns whether a rule asks who the client is.
fn is_guard(rule: &AccessRule) -> bool {
    let AccessRule { allow, deny, basic_auth, signed_url, .. } = rule;
    allow.is_some() || deny.is_some() || basic_auth.is_some() || signed_url.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_rules_that_another_host_gets_around_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let (root, file) = (dir.path().to_str().unwrap(), dir.path().join("edge.toml"));
        std::fs::create_dir_all(dir.path().join("other/in")).unwrap();
        std::fs::create_dir(dir.path().join("otherwise")).unwrap();
        let rule = "[[host.access]]\ndeny = ['::/0']\n";
        let rate = "[[host.access]]\nrequests-per-second = 9\n";
        let rule_of = |path: &str| format!("[[host.access]]\npath = '{path}'\ndeny = ['::/0']\n");
        let named = "[[host]]\nnames = ['a']\n";
        let nameless = "[[host]]\n";
        let root_of = |folder: &str| format!("root = '{root}/{folder}'\n");
        let (other, inner) = (root_of("other"), root_of("other/in"));
        let second = format!("[[host]]\nnames = ['b']\n{other}");
        for (toml, expected) in [
            (named.to_owned(), 0),
            (format!("{named}{rule}"), 1),
            (format!("{nameless}{rule}{named}"), 0),
            (format!("{nameless}{rule}{named}{rule}"), 1),
            (format!("{nameless}{rule}"), 0),
            (format!("{nameless}{other}{named}root = '{root}/other/'\n{rule}"), 1),
            // In a folder of the host without names, which may protect it.
            (format!("{named}{other}{rule}"), 1),
            (format!("{named}{other}{rate}"), 0),
            (format!("{nameless}{rate}{named}{other}{rule}"), 1),
            (format!("{nameless}{}{named}{other}{rule}", rule_of("/other/**")), 0),
            (format!("{nameless}{}{named}{other}{rule}", rule_of("/other")), 0),
            (format!("{nameless}{}{named}{other}{rule}", rule_of("/other/in/**")), 0),
            (format!("{nameless}{}{named}{other}{rule}", rule_of("/otherwise")), 1),
            // In that of another host with names.
            (format!("{nameless}{}{named}{inner}{rule}{second}", root_of("otherwise")), 1),
            (format!("{nameless}{}{named}{inner}{rule}{second}{rule}", root_of("otherwise")), 0),
            (format!("{nameless}{}{named}{other}{rule}{second}", root_of("otherwise")), 1),
            (format!("{nameless}{}{named}{other}{second}{rule}", root_of("other/in")), 1),
        ] {
            std::fs::write(&file, &toml).unwrap();
            let words = ["edge-server", "--listen", "127.0.0.1:0", "--root", root, "--config"];
            let words = words.into_iter().chain(file.to_str());
            let config = crate::config::parse(words).unwrap();
            let found = find(&config);
            assert_eq!(found.len(), expected, "{toml}{found:?}");
        }
    }
}
