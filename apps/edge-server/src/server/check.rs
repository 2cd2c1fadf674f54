//! Configuration check (`--check`): reads everything a start would, and writes nothing.

use anyhow::Context;

use crate::config::Config;
use crate::server::resources::Resources;
use crate::server::takeover;
use crate::telemetry::access_log;
use crate::telemetry::admin::socket;
use crate::telemetry::qlog::file;

/// Reads all that a configuration names.
///
/// # Errors
///
/// One line that names what a server could not use.
pub fn check(config: &Config) -> anyhow::Result<()> {
    let cli = &config.flags;
    let resources = Resources::read(config)?;
    resources.worker_config(cli)?;
    resources.virtual_hosts.check_error_pages(config)?;
    if let Some(dir) = &cli.qlog_dir {
        file::check_dir(dir)?;
    }
    if let Some(path) = &cli.access_log {
        access_log::check(path)?;
    }
    if let Some(path) = &cli.admin {
        socket::check(path)?;
    }
    if let Some(path) = &cli.takeover {
        takeover::check(path)?;
    }
    path_store::check(&cli.store).context("cannot use --store")
}
