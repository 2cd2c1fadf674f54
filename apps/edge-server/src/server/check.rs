//! Configuration check (`--check`): reads everything a start would, and writes nothing.

use crate::config::Cli;
use crate::config::Config;
use crate::content::cache::disk;
use crate::resume::store;
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
    cli.listen.iter().try_for_each(|listener| resources.worker_config(cli, listener).map(drop))?;
    resources.virtual_hosts.warn_of_missing_files(config);
    if let Some(dir) = &cli.qlog_dir {
        file::check_dir(dir).map_err(|e| config.unusable("qlog-dir", e))?;
    }
    if let Some(dir) = &cli.cache_dir {
        disk::check_dir(dir).map_err(|e| config.unusable("cache-dir", e))?;
    }
    if let Some(path) = &cli.access_log {
        access_log::check(path).map_err(|e| config.unusable("access-log", e))?;
    }
    check_sockets(config)?;
    store::check(cli).map_err(|e| config.unusable("store", e))?;
    config.warn_of_paths();
    Ok(())
}

/// Checks whether the Unix sockets that a configuration names can be there.
///
/// # Errors
///
/// One line that names the path.
pub fn check_sockets(config: &Config) -> anyhow::Result<()> {
    let Cli { admin, takeover, .. } = &config.flags;
    if let Some(path) = admin {
        socket::check(path).map_err(|e| config.unusable("admin", e))?;
    }
    if let Some(path) = takeover {
        takeover::check(path).map_err(|e| config.unusable("takeover", e))?;
    }
    Ok(())
}
