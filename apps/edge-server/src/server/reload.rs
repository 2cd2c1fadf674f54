//! Reload (SIGHUP): reads the configuration again and applies what needs no restart.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use command_line::OnOff;

use crate::acme;
use crate::config;
use crate::config::listener;
use crate::config::listener::Listener;
use crate::config::Cli;
use crate::config::Config;
use crate::content::cache::purge::PurgeTarget;
use crate::quic::certificate::Certificates;
use crate::quic::controllers::HostControllers;
use crate::quic::quic_lb_set::QuicLbSet;
use crate::server::resources::Resources;
use crate::tcp::settings::TcpConfig;
use crate::telemetry::metrics::ConfigurationMetrics;
use crate::worker::settings::WorkerConfig;

/// What a reload applies.
pub struct Reloaded {
    /// What each worker serves with, in their order.
    pub workers: Vec<WorkerConfig>,
    pub tcp: TcpConfig,

    /// Options that have changed and need a new start.
    pub kept: Vec<String>,
}

/// Reads the configuration again.
pub struct Reloader {
    args: Vec<OsString>,
    metrics: ConfigurationMetrics,

    /// The configuration in use, and what was read for it.
    pub config: Arc<Config>,
    resources: Resources,

    /// Listeners, and that of each worker by its place among them.
    listeners: Vec<Listener>,
    of_workers: Vec<usize>,

    /// Options that a reload leaves as they were at the start.
    started: BTreeMap<String, Vec<OsString>>,
    resume: OnOff,
}

impl Reloader {
    /// Of a server that was started with `args`, and so with `config`, and whose workers have these
    /// listeners, by their places.
    pub fn new(
        args: Vec<OsString>,
        config: Arc<Config>,
        resources: Resources,
        metrics: ConfigurationMetrics,
        of_workers: Vec<usize>,
    ) -> Self {
        let (started, resume) = (config.options.clone(), config.flags.resume);
        let listeners = config.flags.listen.clone();
        Self { args, metrics, config, resources, listeners, of_workers, started, resume }
    }

    /// Returns whether an option has changed, by the last reload, that needs a restart.
    pub fn needs_restart(&self) -> bool {
        !self.kept(&self.config).is_empty()
    }

    /// Returns the certificates in use.
    pub fn certificates(&self) -> &Certificates {
        &self.resources.certificates
    }

    /// Has the cache of origins forget what is meant. Returns how many responses there were, or `None` if
    /// there is no cache.
    pub fn purge(&self, target: &PurgeTarget) -> Option<usize> {
        self.resources.virtual_hosts.purge(target)
    }

    /// Returns what is to be served with.
    ///
    /// # Errors
    ///
    /// One line that names what cannot be used.
    pub fn read(&mut self) -> anyhow::Result<Reloaded> {
        let read = self.read_once();
        self.metrics.on_reload(read.is_ok());
        read
    }

    fn read_once(&mut self) -> anyhow::Result<Reloaded> {
        let mut config = config::parse(&self.args).map_err(anyhow::Error::msg)?;
        config.check_paths_of(&self.started)?;
        config.flags.resume = self.resume;
        acme::check(&config.flags.acme).map_err(|(option, e)| config.unusable(option, e))?;
        Resources::check_key_files(&config)?;
        let resources = Resources {
            virtual_hosts: self.resources.virtual_hosts.reopen(&config)?,
            certificates: Certificates::read(&config)?,
            controllers: HostControllers::new(&config)?,
            secrets: self.resources.secrets.clone(),
            quic_lb: QuicLbSet::read(&config)?,
            hash_keys: self.resources.hash_keys.clone(),
        };
        let cli = &config.flags;
        let listeners = listener::updated(&self.listeners, &cli.listen);
        let (workers, tcp) = self.configs(cli, &listeners, &resources)?;
        resources.virtual_hosts.start_compression()?;
        self.metrics.set_certificates(resources.certificates.expiries());
        resources.certificates.warn();
        resources.virtual_hosts.warn_of_missing_files(&config);
        self.resources = resources;
        config.flags.warn_of_conflicts();
        config.warn_of_paths();
        self.listeners = listeners;
        let kept = self.kept(&config);
        self.config = Arc::new(config);
        Ok(Reloaded { workers, tcp, kept })
    }

    /// Returns what is to be served with once ACME has brought certificates, if it has: all else stays
    /// as it is, whatever the files say by now.
    ///
    /// # Errors
    ///
    /// One line that names what cannot be used.
    pub fn read_acme(&mut self) -> anyhow::Result<Option<Reloaded>> {
        let renewed = self.resources.certificates.with_acme_renewals(&self.config);
        let Some(certificates) = renewed else { return Ok(None) };
        let resources = Resources { certificates, ..self.resources.clone() };
        let (workers, tcp) = self.configs(&self.config.flags, &self.listeners, &resources)?;
        self.metrics.set_certificates(resources.certificates.expiries());
        self.resources = resources;
        Ok(Some(Reloaded { workers, tcp, kept: Vec::new() }))
    }

    /// Returns what each worker and the TCP side serve with.
    fn configs(
        &self,
        cli: &Cli,
        listeners: &[Listener],
        resources: &Resources,
    ) -> anyhow::Result<(Vec<WorkerConfig>, TcpConfig)> {
        let worker_config = |listener: &usize| resources.worker_config(cli, &listeners[*listener]);
        let workers = self.of_workers.iter().map(worker_config);
        Ok((workers.collect::<anyhow::Result<_>>()?, resources.tcp_config(cli)?))
    }

    /// Options that a configuration changes and that need a new start.
    fn kept(&self, config: &Config) -> Vec<String> {
        let mut kept = self.changed(&config.options);
        if !listener::have_same_addresses(&self.listeners, &config.flags.listen) {
            kept.push("--listen".to_owned());
        }
        kept
    }

    /// The same besides listeners.
    fn changed(&self, wanted: &BTreeMap<String, Vec<OsString>>) -> Vec<String> {
        let changed = wanted.iter().filter(|(name, value)| self.started.get(*name) != Some(value));
        let changed = changed.map(|(name, _)| name.as_str());
        let is_applied = |name: &&str| config::RELOADED.contains(name) || *name == "listen";
        let kept = changed.filter(|name| !is_applied(name));
        kept.map(|name| format!("--{name}")).collect()
    }
}
