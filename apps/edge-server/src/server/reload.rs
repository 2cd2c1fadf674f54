//! Reload (SIGHUP): reads the configuration again and applies what needs no restart.

use std::collections::BTreeMap;
use std::ffi::OsString;

use command_line::OnOff;

use crate::config;
use crate::config::Config;
use crate::content::hosts::VirtualHosts;
use crate::quic::certificate::Certificates;
use crate::quic::controllers::HostControllers;
use crate::quic::secrets::SharedSecrets;
use crate::server::resources::Resources;
use crate::telemetry::metrics::ConfigurationMetrics;
use crate::worker::settings::WorkerConfig;

/// Reads the configuration again.
pub struct Reloader {
    args: Vec<OsString>,
    secrets: SharedSecrets,
    metrics: ConfigurationMetrics,

    /// Those in use.
    pub certificates: Certificates,

    /// Options that a reload leaves as they were at the start.
    started: BTreeMap<String, Vec<OsString>>,
    resume: OnOff,
}

impl Reloader {
    /// Of a server that was started with `args`, and so with `config`.
    pub fn new(
        args: Vec<OsString>,
        config: &Config,
        resources: Resources,
        metrics: ConfigurationMetrics,
    ) -> Self {
        let Resources { secrets, certificates, .. } = resources;
        let (started, resume) = (config.options.clone(), config.flags.resume);
        Self { args, secrets, metrics, certificates, started, resume }
    }

    /// Returns what so many workers are to serve with, and the options that have changed and need a
    /// new start.
    ///
    /// # Errors
    ///
    /// One line that names what cannot be used.
    pub fn read(&mut self, workers: usize) -> anyhow::Result<(Vec<WorkerConfig>, Vec<String>)> {
        let read = self.read_once(workers);
        self.metrics.on_reload(read.is_ok());
        read
    }

    fn read_once(&mut self, workers: usize) -> anyhow::Result<(Vec<WorkerConfig>, Vec<String>)> {
        let mut config = config::parse(&self.args).map_err(anyhow::Error::msg)?;
        config.flags.resume = self.resume;
        let virtual_hosts = VirtualHosts::open(&config)?;
        let certificates = Certificates::read(&config)?;
        let controllers = HostControllers::new(&config)?;
        let (cli, secrets) = (&config.flags, &self.secrets);
        let worker_config =
            |_| WorkerConfig::new(cli, &virtual_hosts, &certificates, &controllers, secrets);
        let configs = (0..workers).map(worker_config).collect::<anyhow::Result<_>>()?;
        self.metrics.set_certificates(certificates.expiries());
        certificates.warn();
        virtual_hosts.warn_of_error_pages(&config);
        self.certificates = certificates;
        config.flags.warn_of_conflicts();
        Ok((configs, self.changed(&config.options)))
    }

    /// Options that need a new start.
    fn changed(&self, wanted: &BTreeMap<String, Vec<OsString>>) -> Vec<String> {
        let changed = wanted.iter().filter(|(name, value)| self.started.get(*name) != Some(value));
        let changed = changed.map(|(name, _)| name.as_str());
        let kept = changed.filter(|name| !config::RELOADED.contains(name));
        kept.map(|name| format!("--{name}")).collect()
    }
}
