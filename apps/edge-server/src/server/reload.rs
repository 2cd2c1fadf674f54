//! Reload (SIGHUP): reads the configuration again and applies what needs no restart.

use std::collections::BTreeMap;
use std::ffi::OsString;

use command_line::OnOff;

use crate::config;
use crate::config::listener;
use crate::config::listener::Listener;
use crate::config::Config;
use crate::content::hosts::VirtualHosts;
use crate::quic::certificate::Certificates;
use crate::quic::controllers::HostControllers;
use crate::quic::secrets::SharedSecrets;
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
    secrets: SharedSecrets,
    metrics: ConfigurationMetrics,

    /// Those in use.
    pub certificates: Certificates,

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
        config: &Config,
        resources: Resources,
        metrics: ConfigurationMetrics,
        of_workers: Vec<usize>,
    ) -> Self {
        let Resources { secrets, certificates, .. } = resources;
        let (started, resume) = (config.options.clone(), config.flags.resume);
        let listeners = config.flags.listen.clone();
        Self { args, secrets, metrics, certificates, listeners, of_workers, started, resume }
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
        config.flags.resume = self.resume;
        let virtual_hosts = VirtualHosts::open(&config)?;
        let certificates = Certificates::read(&config)?;
        let controllers = HostControllers::new(&config)?;
        let (cli, secrets) = (&config.flags, &self.secrets);
        let listeners = listener::updated(&self.listeners, &cli.listen);
        let worker_config = |listener: &usize| {
            let listener = &listeners[*listener];
            WorkerConfig::new(cli, listener, &virtual_hosts, &certificates, &controllers, secrets)
        };
        let workers = self.of_workers.iter().map(worker_config);
        let workers = workers.collect::<anyhow::Result<_>>()?;
        let tcp = TcpConfig::new(cli, &virtual_hosts, &certificates, secrets)?;
        virtual_hosts.start_compression()?;
        self.metrics.set_certificates(certificates.expiries());
        certificates.warn();
        virtual_hosts.warn_of_error_pages(&config);
        self.certificates = certificates;
        config.flags.warn_of_conflicts();
        let mut kept = self.changed(&config.options);
        if !listener::have_same_addresses(&listeners, &cli.listen) {
            kept.push("--listen".to_owned());
        }
        self.listeners = listeners;
        Ok(Reloaded { workers, tcp, kept })
    }

    /// Options that need a new start, besides listeners.
    fn changed(&self, wanted: &BTreeMap<String, Vec<OsString>>) -> Vec<String> {
        let changed = wanted.iter().filter(|(name, value)| self.started.get(*name) != Some(value));
        let changed = changed.map(|(name, _)| name.as_str());
        let is_applied = |name: &&str| config::RELOADED.contains(name) || *name == "listen";
        let kept = changed.filter(|name| !is_applied(name));
        kept.map(|name| format!("--{name}")).collect()
    }
}
