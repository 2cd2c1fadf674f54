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
        let mut named = HostMap::default();
        for host in config.file.named() {
            let virtual_host = open(&host)?;
            for name in &host.names {
                named.insert(name, virtual_host.clone())?;
            }
        }
        Ok(Self { named, default: open(&config.file.default_host())? })
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
