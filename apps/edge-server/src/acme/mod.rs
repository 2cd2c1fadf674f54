//! Certificates by ACME (RFC 8555), on a thread of its own.
//!
//! Servers that share a folder share an account, certificates and responses to challenges. One of them
//! at a time renews.

mod account;
pub mod challenges;
mod order;
mod renewal_info;
mod renewer;
mod schedule;
mod settings;
mod storage;

use std::io;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::thread;

use anyhow::Context;
use log::warn;
use tokio::runtime;
use tokio::sync::watch;
use tokio::sync::Notify;

use crate::acme::challenges::ChallengeKind;
use crate::acme::renewer::OnRenewal;
use crate::acme::renewer::Renewer;
use crate::acme::settings::AcmeSettings;
use crate::config::acme::AcmeOptions;
use crate::config::preflight;
use crate::config::Config;
use crate::telemetry::metrics::AcmeMetrics;

/// Checks whether the folder can be written, and the root certificate read, without asking anybody.
///
/// # Errors
///
/// The option, and one line that names its value.
pub fn check(options: &AcmeOptions) -> Result<(), (&'static str, anyhow::Error)> {
    if let Some(dir) = &options.acme_dir {
        let checked = preflight::folder(dir);
        let unusable =
            || format!("cannot use --acme-dir {}; name a writable folder", dir.display());
        checked.with_context(unusable).map_err(|e| ("acme-dir", e))?;
    }
    if let Some(root) = &options.acme_ca {
        let checked = account::check_root(root);
        let unusable = || format!("cannot use --acme-ca {}; name a PEM file", root.display());
        checked.with_context(unusable).map_err(|e| ("acme-ca", e))?;
    }
    if let Some(path) = &options.acme_external_account {
        account::read_external(path).map_err(|e| ("acme-external-account", e))?;
    }
    Ok(())
}

/// Stage of the thread that renews.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AcmeStage {
    settings: Arc<AcmeSettings>,

    /// Whether another process serves, and renews.
    is_paused: bool,
    is_stopped: bool,
}

/// Control of the thread that renews, which begins when a host needs it.
#[derive(Clone)]
pub struct AcmeHandle {
    stage: Arc<watch::Sender<AcmeStage>>,
    retry: Arc<Notify>,
    metrics: AcmeMetrics,

    /// What the thread takes along, until it begins.
    on_renewal: Arc<Mutex<Option<OnRenewal>>>,
}

impl AcmeHandle {
    /// Returns the handle of a server with this configuration.
    pub fn new(config: &Config, metrics: AcmeMetrics) -> Self {
        // The listeners stay as they are at the start.
        let kind = match config.flags.http.is_empty() {
            true => ChallengeKind::TlsAlpn01,
            false => ChallengeKind::Http01,
        };
        let settings = Arc::new(AcmeSettings::new(config, kind));
        let (stage, _) =
            watch::channel(AcmeStage { settings, is_paused: false, is_stopped: false });
        Self { stage: Arc::new(stage), retry: Arc::default(), metrics, on_renewal: Arc::default() }
    }

    /// Begins to renew, if a host needs it, now or after a reload. `on_renewal` takes new certificates
    /// into service.
    ///
    /// # Errors
    ///
    /// The process can start no more threads.
    pub fn start(&self, on_renewal: impl Fn() + Send + 'static) -> io::Result<()> {
        *self.lock() = Some(Box::new(on_renewal));
        self.begin()
    }

    /// Applies a configuration, and has what failed tried again at once.
    pub fn reload(&self, config: &Config) {
        self.stage.send_if_modified(|stage| {
            let settings = AcmeSettings::new(config, stage.settings.kind);
            let is_changed = *stage.settings != settings;
            if is_changed {
                stage.settings = Arc::new(settings);
            }
            is_changed
        });
        self.retry.notify_one();
        if let Err(e) = self.begin() {
            warn!("cannot start the thread of ACME: {e}");
        }
    }

    /// Leaves renewals to another process, or takes them back.
    pub fn set_paused(&self, is_paused: bool) {
        self.stage.send_modify(|stage| stage.is_paused = is_paused);
    }

    /// Ends renewals.
    pub fn stop(&self) {
        self.stage.send_modify(|stage| stage.is_stopped = true);
    }

    fn begin(&self) -> io::Result<()> {
        let stages = self.stage.subscribe();
        if stages.borrow().settings.hosts.is_empty() {
            return Ok(());
        }
        let Some(on_renewal) = self.lock().take() else { return Ok(()) };
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (retry, metrics) = (Arc::clone(&self.retry), self.metrics.clone());
        let run = move || runtime.block_on(run(stages, retry, metrics, on_renewal));
        thread::Builder::new().name("acme".into()).spawn(run).map(drop)
    }

    fn lock(&self) -> MutexGuard<'_, Option<OnRenewal>> {
        self.on_renewal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Renews by the settings of each stage until the server ends.
async fn run(
    mut stages: watch::Receiver<AcmeStage>,
    retry: Arc<Notify>,
    metrics: AcmeMetrics,
    on_renewal: OnRenewal,
) {
    loop {
        let stage = stages.borrow_and_update().clone();
        if stage.is_stopped {
            return;
        }
        let renewer = Renewer::new(&stage.settings, &metrics, &on_renewal, Arc::clone(&retry));
        // Hosts of the stage before may have none any more.
        metrics.clear_renewals();
        let renew = async {
            match renewer.filter(|_| !stage.is_paused) {
                Some(renewer) => match renewer.run().await {},
                None => std::future::pending::<()>().await,
            }
        };
        tokio::select! {
            changed = stages.changed() => if changed.is_err() { return },
            () = renew => (),
        }
    }
}
