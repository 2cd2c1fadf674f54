//! Renewal of the certificates of hosts: those that are due are ordered by the server that has the lock;
//! the others notice what it writes.

use std::convert::Infallible;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;

use anyhow::anyhow;
use instant_acme::Account;
use log::warn;
use quiche::clock;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio::time::timeout;

use crate::acme::account;
use crate::acme::order;
use crate::acme::schedule::renewal_time;
use crate::acme::schedule::Failures;
use crate::acme::settings::AcmeSettings;
use crate::acme::storage;
use crate::acme::storage::RenewalLock;
use crate::config::acme::AcmeFiles;
use crate::quic::certificate::CertifiedKey;
use crate::quic::random;
use crate::telemetry::metrics::AcmeMetrics;
use crate::telemetry::process_log::notice;

/// How often a server looks at the files, which another one may have written.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// How long an attempt may take: each of its steps has a limit, and requests have none.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(600);

/// Type of the problem that a request came too late, or that the authority says so; and how often an
/// order is repeated for that.
const BAD_NONCE: &str = "urn:ietf:params:acme:error:badNonce";
const REPETITIONS_MAX: u32 = 3;

/// Age of a response to a challenge that a server which has ended left behind.
const CHALLENGE_AGE_MAX: Duration = Duration::from_secs(3600);

/// Takes new certificates into service.
pub type OnRenewal = Box<dyn Fn() + Send>;

/// What renews the certificates of a configuration.
pub struct Renewer<'a> {
    settings: &'a AcmeSettings,
    files: AcmeFiles,
    hosts: Vec<RenewedHost>,
    metrics: &'a AcmeMetrics,
    on_renewal: &'a OnRenewal,

    /// Told so that failures do not delay the next attempt.
    retry: Arc<Notify>,

    /// Whether the lock could not be used, of which a warning told.
    cannot_lock: bool,
}

/// Host, and what its certificate's file was like at the last look.
struct RenewedHost {
    names: Vec<String>,
    path: PathBuf,
    seen: Option<FileIdentity>,

    /// When the certificate is to be renewed.
    renewal: SystemTime,
    expiry: Option<SystemTime>,
}

/// What changes when a file is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileIdentity {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

impl FileIdentity {
    fn of(path: &Path) -> Option<Self> {
        let of = |file: Metadata| Self {
            inode: file.ino(),
            bytes: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
        };
        path.metadata().ok().map(of)
    }
}

impl RenewedHost {
    fn new(files: &AcmeFiles, names: &[String], now: SystemTime) -> Option<Self> {
        let path = files.certificate(names.first()?);
        Some(Self { names: names.to_vec(), path, seen: None, renewal: now, expiry: None })
    }

    /// Looks at the file. Returns whether it holds another certificate than before.
    fn look(&mut self, files: &AcmeFiles, now: SystemTime) -> bool {
        let found = FileIdentity::of(&self.path);
        if found == self.seen {
            return false;
        }
        self.seen = found;
        // A file that cannot be used is written again.
        let read = CertifiedKey::read_acme(files, &self.names).unwrap_or_default();
        let info = read.map(|certified_key| certified_key.info(self.names.clone()));
        self.expiry = info.as_ref().map(|info| info.expiry);
        self.renewal = match &info {
            // Names were added.
            Some(info) if !info.uncovered.is_empty() => now,
            Some(info) => renewal_time(info.start, info.expiry, random_part()),
            None => now,
        };
        info.is_some()
    }

    fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// Returns whether an attempt is to be made.
    fn is_due(&self, files: &AcmeFiles, now: SystemTime) -> bool {
        self.renewal <= now
            && failures(files, self.name()).is_none_or(|failures| failures.next_attempt <= now)
    }
}

impl<'a> Renewer<'a> {
    /// Returns what renews by `settings`, if they name a folder.
    pub fn new(
        settings: &'a AcmeSettings,
        metrics: &'a AcmeMetrics,
        on_renewal: &'a OnRenewal,
        retry: Arc<Notify>,
    ) -> Option<Self> {
        let files = settings.options.files()?;
        let now = clock::wall_now();
        let hosts = settings.hosts.iter();
        let hosts = hosts.filter_map(|names| RenewedHost::new(&files, names, now)).collect();
        Some(Self { settings, files, hosts, metrics, on_renewal, retry, cannot_lock: false })
    }

    /// Renews until it is dropped.
    pub async fn run(mut self) -> Infallible {
        let retry = Arc::clone(&self.retry);
        self.metrics.clear_renewals();
        loop {
            self.look();
            self.renew().await;
            tokio::select! {
                () = sleep(LOOK_INTERVAL) => (),
                () = retry.notified() => self.forget_failures(),
            }
        }
    }

    /// Looks at all files, and takes what another server has written into service.
    fn look(&mut self) {
        let now = clock::wall_now();
        let mut is_changed = false;
        for host in &mut self.hosts {
            is_changed |= host.look(&self.files, now);
            for name in &host.names {
                self.metrics.set_renewal(name, host.renewal);
            }
        }
        if is_changed {
            (self.on_renewal)();
        }
    }

    fn due(&self) -> Vec<usize> {
        let now = clock::wall_now();
        let is_due = |place: &usize| self.hosts[*place].is_due(&self.files, now);
        (0..self.hosts.len()).filter(is_due).collect()
    }

    /// Renews what is due, unless another server does.
    async fn renew(&mut self) {
        if self.due().is_empty() {
            return;
        }
        let lock = match RenewalLock::try_acquire(&self.files.lock()) {
            Ok(Some(lock)) => lock,
            Ok(None) => return,
            Err(e) => {
                if !std::mem::replace(&mut self.cannot_lock, true) {
                    warn!("cannot renew certificates: {e:#}");
                }
                return;
            }
        };
        self.cannot_lock = false;
        // The server that had it may just have written.
        self.look();
        storage::remove_older(&self.files.challenges(), CHALLENGE_AGE_MAX, clock::wall_now());
        let mut account = None;
        for place in self.due() {
            let renewed = timeout(ATTEMPT_TIMEOUT, self.renew_one(place, &mut account)).await;
            let renewed = renewed.unwrap_or_else(|_| Err(anyhow!("the authority is too slow")));
            self.metrics.on_order(renewed.is_ok());
            if let Err(e) = renewed {
                self.note_failure(place, &e);
            }
            self.look();
        }
        drop(lock);
    }

    async fn renew_one(
        &self,
        place: usize,
        account: &mut Option<Account>,
    ) -> anyhow::Result<()> {
        let Self { settings, files, .. } = self;
        let host = &self.hosts[place];
        let opened = match account {
            Some(account) => account,
            None => account.insert(account::open(&settings.options, &files.account()).await?),
        };
        let mut repetitions = 0;
        let issued = loop {
            let issued = order::issue(opened, files, settings.kind, &host.names).await;
            match issued.as_ref().err().and_then(order::problem_type) {
                Some(account::UNKNOWN) if repetitions == 0 => {
                    *opened = account::replace(&settings.options, &files.account()).await?;
                }
                // The library has repeated the request.
                Some(BAD_NONCE) if repetitions < REPETITIONS_MAX => (),
                _ => break issued?,
            }
            repetitions += 1;
        };
        storage::write(&host.path, issued.as_bytes())?;
        let _ = std::fs::remove_file(files.failures(host.name()));
        notice!("ACME: there is a new certificate of {}", host.names.join(", "));
        Ok(())
    }

    /// Tells of a failure once, and delays the next attempt of all servers.
    fn note_failure(&self, place: usize, error: &anyhow::Error) {
        let host = &self.hosts[place];
        let now = clock::wall_now();
        let pause = Duration::from_secs(self.settings.options.acme_retry.into());
        let not_before = order::no_order_before(error, now);
        let previous = failures(&self.files, host.name());
        let failures = Failures::and(previous, now, pause, not_before, random_part());
        let path = self.files.failures(host.name());
        let written = storage::write(&path, failures.to_string().as_bytes());
        let certificate = match host.expiry {
            Some(expiry) => format!("which expires at {}", humantime::format_rfc3339_seconds(expiry)),
            None => "which has none yet".to_owned(),
        };
        warn!(
            "ACME cannot bring a certificate of {}, {certificate}, by {}; trying again at {}: {error:#}",
            host.names.join(", "),
            self.settings.kind.name(),
            humantime::format_rfc3339_seconds(failures.next_attempt),
        );
        if let Err(e) = written {
            warn!("{e:#}");
        }
    }

    fn forget_failures(&self) {
        for host in &self.hosts {
            let _ = std::fs::remove_file(self.files.failures(host.name()));
        }
    }
}

fn failures(files: &AcmeFiles, name: &str) -> Option<Failures> {
    Failures::parse(&std::fs::read_to_string(files.failures(name)).ok()?)
}

/// Returns a random number from 0 to 1.
fn random_part() -> f64 {
    let mut bytes = [0; 4];
    // Without randomness there is no jitter.
    let _ = random::fill(&mut bytes);
    f64::from(u32::from_be_bytes(bytes)) / f64::from(u32::MAX)
}
