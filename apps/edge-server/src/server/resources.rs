//! Resources of the server: folders, certificates, secrets and hash keys, read before it starts.

use std::path::Path;

use anyhow::Context;
use path_store::key_file;
use path_store::key_file::KeyText;
use path_store::HashKeys;
use path_store::WatchedHashKeys;

use crate::acme;
use crate::config::listener::Listener;
use crate::config::Cli;
use crate::config::Config;
use crate::content::hosts::VirtualHosts;
use crate::quic::certificate::Certificates;
use crate::quic::controllers::HostControllers;
use crate::quic::quic_lb_set::QuicLbSet;
use crate::quic::secrets;
use crate::quic::secrets::Secrets;
use crate::quic::secrets::SharedSecrets;
use crate::tcp::settings::TcpConfig;
use crate::telemetry::metrics::ConfigurationMetrics;
use crate::worker::settings::WorkerConfig;

/// What the workers of a server share.
#[derive(Clone)]
pub struct Resources {
    pub virtual_hosts: VirtualHosts,
    pub certificates: Certificates,
    pub controllers: HostControllers,
    pub secrets: SharedSecrets,
    pub quic_lb: QuicLbSet,
    pub hash_keys: Option<WatchedHashKeys>,
}

impl Resources {
    /// What a configuration names.
    ///
    /// # Errors
    ///
    /// One line that names what cannot be used.
    pub fn read(config: &Config) -> anyhow::Result<Self> {
        let cli = &config.flags;
        cli.warn_of_conflicts();
        acme::check(&cli.acme).map_err(|(option, e)| config.unusable(option, e))?;
        let virtual_hosts = VirtualHosts::open(config)?;
        let certificates = Certificates::read(config)?;
        certificates.warn();
        let controllers = HostControllers::new(config)?;
        let secrets = secrets::open(cli.secrets.as_deref());
        let secrets = secrets.map_err(|e| config.option_error("secrets", &e))?;
        let quic_lb = QuicLbSet::read(config)?;
        let hash_keys = cli.hash_keys.as_deref().map(WatchedHashKeys::watch).transpose();
        let hash_keys = hash_keys
            .context("cannot use --hash-keys")
            .map_err(|e| config.option_error("hash-keys", &e))?;
        Ok(Self { virtual_hosts, certificates, controllers, secrets, quic_lb, hash_keys })
    }

    /// Checks the files of keys of a configuration that is to be reloaded. A server reads such a file whenever
    /// it changes, or after a restart if it has another name.
    ///
    /// # Errors
    ///
    /// One line that names the file that cannot be used.
    pub fn check_key_files(config: &Config) -> anyhow::Result<()> {
        fn check<T: KeyText>(
            config: &Config,
            option: &str,
            path: Option<&Path>,
        ) -> anyhow::Result<()> {
            let read = path.map(key_file::read::<T>).transpose();
            let read = read.with_context(|| format!("cannot use --{option}"));
            Ok(read.map(drop).map_err(|e| config.option_error(option, &e))?)
        }
        check::<Secrets>(config, "secrets", config.flags.secrets.as_deref())?;
        check::<HashKeys>(config, "hash-keys", config.flags.hash_keys.as_deref())
    }

    /// Has metrics follow the files.
    pub fn watch(&self, config: &Config, metrics: &ConfigurationMetrics) {
        metrics.set_certificates(self.certificates.expiries());
        if config.flags.secrets.is_some() {
            let secrets = self.secrets.clone();
            metrics.watch_key_file("secrets", move || secrets.last_read());
        }
        if let Some(hash_keys) = self.hash_keys.clone() {
            metrics.watch_key_file("hash-keys", move || hash_keys.last_read());
        }
    }

    /// What the TCP side serves with.
    ///
    /// # Errors
    ///
    /// A certificate cannot be used.
    pub fn tcp_config(&self, cli: &Cli) -> anyhow::Result<TcpConfig> {
        TcpConfig::new(cli, &self.virtual_hosts, &self.certificates, &self.secrets)
    }

    /// What one worker of a listener serves with.
    ///
    /// # Errors
    ///
    /// A certificate or an option cannot be used.
    pub fn worker_config(&self, cli: &Cli, listener: &Listener) -> anyhow::Result<WorkerConfig> {
        let Self { virtual_hosts, certificates, controllers, secrets, quic_lb, .. } = self;
        WorkerConfig::new(cli, listener, virtual_hosts, certificates, controllers, secrets, quic_lb)
    }
}
