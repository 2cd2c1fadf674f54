//! All hosts that a server has, by name.

use crate::config::host_map::HostMap;
use crate::config::Config;
use crate::content::VirtualHost;

/// Every host.
#[derive(Clone, Debug)]
pub struct VirtualHosts {
    named: HostMap<VirtualHost>,

    /// For all other names.
    unnamed: VirtualHost,
}

impl VirtualHosts {
    /// The hosts of a configuration.
    ///
    /// # Errors
    ///
    /// One line that names the host, and the key or folder that cannot be used.
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
        Ok(Self { named, unnamed: open(&config.file.unnamed())? })
    }

    /// Whether the pages that hosts show for errors are there.
    ///
    /// # Errors
    ///
    /// One line that names the page.
    pub fn check_error_pages(&self) -> anyhow::Result<()> {
        self.named.values().chain([&self.unnamed]).try_for_each(VirtualHost::check_error_pages)
    }

    /// The host that a request is for.
    pub fn find(&self, host: &str) -> &VirtualHost {
        self.named.find(host).unwrap_or(&self.unnamed)
    }
}
