//! Virtual hosts, by name.

use crate::config::host_map::HostMap;
use crate::config::Config;
use crate::content::VirtualHost;

/// Virtual hosts of the server.
#[derive(Clone, Debug)]
pub struct VirtualHosts {
    named: HostMap<VirtualHost>,

    /// Host for all other names.
    default: VirtualHost,
}

impl VirtualHosts {
    /// Opens the hosts of a configuration.
    ///
    /// # Errors
    ///
    /// One line that names the host, and the unusable key or folder.
    pub fn open(config: &Config) -> anyhow::Result<Self> {
        let open = |host: &crate::config::file::Host| {
            let root = host.root.as_ref().unwrap_or(&config.flags.root);
            VirtualHost::open(root, host, config.flags.speedtest)
        };
        // Others inherit its rules, and are not at fault if those are invalid.
        let default = open(&config.file.default_host())?;
        let mut named = HostMap::default();
        for host in config.file.named() {
            let virtual_host = open(&host)?;
            for name in &host.names {
                named.insert(name, virtual_host.clone())?;
            }
        }
        Ok(Self { named, default })
    }

    /// Checks that the error pages of all hosts exist.
    ///
    /// # Errors
    ///
    /// One line that names the page.
    pub fn check_error_pages(&self) -> anyhow::Result<()> {
        self.named.values().chain([&self.default]).try_for_each(VirtualHost::check_error_pages)
    }

    /// Returns the host of a name.
    pub fn find(&self, host: &str) -> &VirtualHost {
        self.named.find(host).unwrap_or(&self.default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_rule_is_reported_once_at_its_own_host() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("edge.toml");
        let bad = "[[host.header]]\npath = '**'\nset = { Bad = 'x' }\n";
        let (named, nameless) = ("[[host]]\nnames = ['a.example']\n", "[[host]]\n");
        for (toml, place) in [
            (format!("{named}{nameless}{bad}"), "[[host]] without names, line 3, column 1: line 4"),
            (format!("{nameless}{named}{bad}"), "[[host]] a.example, line 2, column 1: line 4"),
        ] {
            std::fs::write(&file, &toml).unwrap();
            let (root, file) = (dir.path().to_str().unwrap(), file.to_str().unwrap());
            let args = ["edge-server", "--listen", "[::1]:0", "--root", root, "--config", file];
            let error = VirtualHosts::open(&crate::config::parse(args).unwrap()).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.starts_with(place) && error.matches("[[host]]").count() == 1, "{error}");
        }
    }
}
