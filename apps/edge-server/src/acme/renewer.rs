//! Renewal of the certificates of hosts: those that are due are ordered by the server that has the lock;
//! the others notice what it writes.

use std::convert::Infallible;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;

use anyhow::anyhow;
use anyhow::Context;
use instant_acme::Account;
use instant_acme::CertificateIdentifier;
use log::debug;
use log::warn;
use quiche::clock;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio::time::timeout;

use crate::acme::account;
use crate::acme::order;
use crate::acme::renewal_info;
use crate::acme::renewal_info::SuggestedRenewal;
use crate::acme::schedule::renewal_time;
use crate::acme::schedule::Failures;
use crate::acme::settings::AcmeSettings;
use crate::acme::storage;
use crate::acme::storage::RenewalLock;
use crate::config::acme::AcmeFiles;
use crate::content::file_identity::FileIdentity;
use crate::quic::certificate::CertificateInfo;
use crate::quic::certificate::CertifiedKey;
use crate::quic::random;
use crate::telemetry::metrics::AcmeMetrics;
use crate::telemetry::process_log::notice;

/// How often a server looks at the files, which another one may have written.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// How long an attempt may take: each of its steps has a limit, and requests have none.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(600);

/// How often an order is repeated because the authority says that its requests came too late.
const REPETITIONS_MAX: u32 = 3;

/// How long an authority may take to tell when it wants a certificate to be renewed, and the shortest
/// validity of certificates for which it is asked: its windows are of days.
const ASK_TIMEOUT: Duration = Duration::from_secs(30);
const ASKED_VALIDITY_MIN: Duration = Duration::from_secs(3 * 86_400);

/// A certificate that has just been written is not replaced before this time, or this part of its
/// validity, unless the authority wants it: a wrong clock must not use up the authority's limits.
const REPLACED_AFTER: Duration = Duration::from_secs(6 * 3600);
const REPLACED_AFTER_PART: u32 = 6;

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

    /// When the certificate is to be renewed, and not before which time in any case.
    renewal: SystemTime,
    not_before: SystemTime,
    expiry: Option<SystemTime>,

    /// Failures that could not be written, which delay the next attempt of this server.
    unsaved: Option<Failures>,

    /// How the authority knows the certificate, and when it is asked about it.
    identifier: Option<CertificateIdentifier<'static>>,
    ask: Option<SystemTime>,

    /// Whether the authority has answered.
    has_answered: bool,
}

/// Returns what changes when the file at a path is replaced.
fn identity_of(path: &Path) -> Option<FileIdentity> {
    path.metadata().ok().map(|metadata| FileIdentity::of(&metadata))
}

impl RenewedHost {
    fn new(files: &AcmeFiles, names: &[String], now: SystemTime) -> Option<Self> {
        let path = files.certificate(names.first()?);
        Some(Self {
            names: names.to_vec(),
            path,
            seen: None,
            renewal: now,
            not_before: now,
            expiry: None,
            unsaved: None,
            identifier: None,
            ask: None,
            has_answered: false,
        })
    }

    /// Looks at the file. Returns whether it holds another certificate than before.
    fn look(&mut self, files: &AcmeFiles, now: SystemTime) -> bool {
        let found = identity_of(&self.path);
        if found == self.seen {
            return false;
        }
        let is_first = self.seen.is_none();
        self.seen = found;
        // A file that cannot be used is written again.
        let read = CertifiedKey::read_acme(files, &self.names).unwrap_or_default();
        let info = read.as_ref().map(|certified_key| certified_key.info(self.names.clone()));
        self.identifier =
            read.as_ref().and_then(CertifiedKey::leaf).and_then(renewal_info::identifier);
        let is_long = |info: &&CertificateInfo| {
            let validity = info.expiry.duration_since(info.start);
            validity.is_ok_and(|validity| validity >= ASKED_VALIDITY_MIN)
        };
        let asked = self.identifier.as_ref().and(info.as_ref()).filter(is_long);
        // An authority that always wants another gets one an interval.
        let ask = if is_first { now } else { renewal_info::after_failure(now) };
        self.ask = asked.map(|_| ask);
        self.has_answered = false;
        self.expiry = info.as_ref().map(|info| info.expiry);
        self.renewal = match &info {
            // Names were added.
            Some(info) if !info.uncovered.is_empty() => now,
            Some(info) => renewal_time(info.start, info.expiry, random_part()),
            None => now,
        };
        self.not_before = match &info {
            Some(info) if info.uncovered.is_empty() => {
                let validity = info.expiry.duration_since(info.start).unwrap_or_default();
                let pause = REPLACED_AFTER.min(validity / REPLACED_AFTER_PART);
                // The clock of the server that wrote it may be ahead.
                let written = self.path.metadata().and_then(|file| file.modified());
                written.map_or(now, |written| written.min(now)) + pause
            }
            _ => now,
        };
        info.is_some()
    }

    fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    /// Returns whether the authority is to be asked.
    fn is_asked(&self, now: SystemTime) -> bool {
        self.ask.is_some_and(|ask| ask <= now)
    }

    /// Returns whether an attempt is to be made.
    fn is_due(&self, files: &AcmeFiles, now: SystemTime) -> bool {
        self.renewal.max(self.not_before) <= now
            && self.failures(files).is_none_or(|failures| failures.next_attempt <= now)
    }

    fn failures(&self, files: &AcmeFiles) -> Option<Failures> {
        self.unsaved.or_else(|| failures(files, self.name()))
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

    fn asked(&self) -> Vec<usize> {
        let now = clock::wall_now();
        (0..self.hosts.len()).filter(|place| self.hosts[*place].is_asked(now)).collect()
    }

    /// Renews what is due, unless another server does.
    async fn renew(&mut self) {
        if self.due().is_empty() && self.asked().is_empty() {
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
        for place in self.asked() {
            let answer = timeout(ASK_TIMEOUT, self.ask(place, &mut account)).await;
            let answer = answer.unwrap_or_else(|_| Err(anyhow!("the authority is too slow")));
            self.note_answer(place, answer);
        }
        for place in self.due() {
            let renewed = timeout(ATTEMPT_TIMEOUT, self.renew_one(place, &mut account)).await;
            let renewed = renewed.unwrap_or_else(|_| Err(anyhow!("the authority is too slow")));
            self.metrics.on_order(renewed.is_ok());
            match renewed {
                Ok(()) => self.hosts[place].unsaved = None,
                Err(e) => self.note_failure(place, &e),
            }
            self.look();
        }
        drop(lock);
    }

    async fn account<'b>(
        &self,
        opened: &'b mut Option<Account>,
    ) -> anyhow::Result<&'b mut Account> {
        let options = &self.settings.options;
        Ok(match opened {
            Some(account) => account,
            None => opened.insert(account::open(options, &self.files.account()).await?),
        })
    }

    /// Asks the authority when it wants a certificate to be renewed.
    async fn ask(
        &self,
        place: usize,
        account: &mut Option<Account>,
    ) -> anyhow::Result<SuggestedRenewal> {
        let identifier = self.hosts[place].identifier.as_ref().context("no identifier")?;
        let account = self.account(account).await?;
        Ok(renewal_info::ask(account, identifier, clock::wall_now(), random_part()).await?)
    }

    fn note_answer(&mut self, place: usize, answer: anyhow::Result<SuggestedRenewal>) {
        let host = &mut self.hosts[place];
        match answer {
            Ok(suggested) => {
                // A third of the validity is left in any case.
                if suggested.at < host.renewal {
                    host.renewal = suggested.at;
                    host.not_before = suggested.at;
                }
                host.ask = Some(suggested.ask_again);
                host.has_answered = true;
            }
            Err(e) => {
                debug!("no renewal information for {}: {e:#}", host.name());
                host.ask = Some(renewal_info::after_failure(clock::wall_now()));
            }
        }
    }

    async fn renew_one(&self, place: usize, account: &mut Option<Account>) -> anyhow::Result<()> {
        let Self { settings, files, .. } = self;
        let host = &self.hosts[place];
        let replaces = host.identifier.as_ref().filter(|_| host.has_answered);
        let opened = self.account(account).await?;
        let mut repetitions = 0;
        let issued = loop {
            let issued = order::issue(opened, files, settings.kind, &host.names, replaces).await;
            match issued.as_ref().err().and_then(order::problem_type) {
                Some(account::UNKNOWN) if repetitions == 0 => {
                    *opened = account::replace(&settings.options, &files.account()).await?;
                }
                // The library has repeated the request.
                Some(order::BAD_NONCE) if repetitions < REPETITIONS_MAX => (),
                _ => break issued?,
            }
            repetitions += 1;
        };
        storage::write(&host.path, issued.as_bytes())?;
        // Its file system may have given the file a mode that is refused.
        CertifiedKey::read_acme(files, &host.names)?.context("the new certificate is gone")?;
        let _ = std::fs::remove_file(files.failures(host.name()));
        notice!("ACME: there is a new certificate of {}", host.names.join(", "));
        Ok(())
    }

    /// Tells of a failure once, and delays the next attempt of all servers.
    fn note_failure(&mut self, place: usize, error: &anyhow::Error) {
        let host = &mut self.hosts[place];
        let now = clock::wall_now();
        let pause = Duration::from_secs(self.settings.options.acme_retry.into());
        let not_before = order::no_order_before(error, now);
        let previous = host.failures(&self.files);
        let failures = Failures::and(previous, now, pause, not_before, random_part());
        let path = self.files.failures(host.name());
        let written = storage::write(&path, failures.to_string().as_bytes());
        host.unsaved = written.is_err().then_some(failures);
        let certificate = match host.expiry {
            Some(expiry) => {
                format!("which expires at {}", humantime::format_rfc3339_seconds(expiry))
            }
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

    fn forget_failures(&mut self) {
        for host in &mut self.hosts {
            host.unsaved = None;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acme::challenges::ChallengeKind;
    use crate::config::acme::AcmeOptions;
    use prometheus_client::registry::Registry;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering;

    const DAY: Duration = Duration::from_secs(86_400);

    fn settings(dir: &Path) -> AcmeSettings {
        let options = AcmeOptions {
            acme_dir: Some(dir.to_owned()),
            // Nobody listens there.
            acme_directory: "https://127.0.0.1:1/".to_owned(),
            acme_contact: None,
            acme_ca: None,
            acme_external_account: None,
            acme_retry: 100,
        };
        let hosts = vec![vec!["a.example".to_owned(), "b.example".to_owned()]];
        AcmeSettings { options, hosts, kind: ChallengeKind::Http01 }
    }

    /// Writes a certificate for names that was valid from some days ago to some days from now.
    fn write(path: &Path, names: &[&str], days: [u32; 2]) {
        let names: Vec<_> = names.iter().map(|name| name.to_string()).collect();
        let mut params = rcgen::CertificateParams::new(names).unwrap();
        params.not_before = (clock::wall_now() - DAY * days[0]).into();
        params.not_after = (clock::wall_now() + DAY * days[1]).into();
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem() + &key.serialize_pem();
        storage::write(path, pem.as_bytes()).unwrap();
    }

    #[test]
    fn certificate_is_due_by_validity_names_and_failures() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path());
        let files = settings.options.files().unwrap();
        let certificate = files.certificate("a.example");
        let both = ["A.example", "b.example", "more.example"];
        let now = clock::wall_now();
        let failed = |after: Duration| {
            let failures = Failures { count: 1, next_attempt: now + after };
            storage::write(&files.failures("a.example"), failures.to_string().as_bytes()).unwrap();
        };
        let mut host = RenewedHost::new(&files, &settings.hosts[0], now).unwrap();
        let mut look = |expected| {
            assert_eq!((host.look(&files, now), host.is_due(&files, now)), expected);
        };
        // There is none.
        look((false, true));
        failed(DAY);
        look((false, false));
        failed(Duration::ZERO);
        look((false, true));
        for (names, days, age, is_due) in [
            (&both[..], [50, 40], DAY, false),
            (&both, [65, 25], DAY, true),
            (&both, [90, 0], DAY, true),
            (&both[..1], [50, 40], Duration::ZERO, true),
            // Just written: the clock is wrong, here or where it was written.
            (&both, [65, 25], Duration::ZERO, false),
            (&both, [65, 25], REPLACED_AFTER / 2, false),
            (&both, [65, 25], REPLACED_AFTER, true),
        ] {
            write(&certificate, names, days);
            let file = std::fs::File::options().write(true).open(&certificate).unwrap();
            file.set_modified(now - age).unwrap();
            look((true, is_due));
            look((false, is_due));
        }
        storage::write(&certificate, b"broken").unwrap();
        look((false, true));
    }

    #[test]
    fn certificate_of_another_server_is_taken_into_service() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path());
        let metrics = AcmeMetrics::register(&mut Registry::default());
        let taken = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&taken);
        let on_renewal: OnRenewal = Box::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let mut renewer = Renewer::new(&settings, &metrics, &on_renewal, Arc::default()).unwrap();
        renewer.look();
        assert_eq!(taken.load(Ordering::Relaxed), 0);
        let certificate = renewer.files.certificate("a.example");
        for expected in 1..3 {
            write(&certificate, &["a.example", "b.example"], [1, 80]);
            renewer.look();
            renewer.look();
            assert_eq!(taken.load(Ordering::Relaxed), expected);
        }
        assert!(renewer.due().is_empty());
    }

    #[test]
    fn only_the_server_with_the_lock_tries() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path());
        let metrics = AcmeMetrics::register(&mut Registry::default());
        let on_renewal: OnRenewal = Box::new(|| ());
        let mut renewer = Renewer::new(&settings, &metrics, &on_renewal, Arc::default()).unwrap();
        let files = settings.options.files().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let lock = RenewalLock::try_acquire(&files.lock()).unwrap();
        runtime.block_on(renewer.renew());
        assert_eq!(failures(&files, "a.example"), None);
        drop(lock);
        runtime.block_on(renewer.renew());
        let first = failures(&files, "a.example").unwrap();
        assert_eq!(first.count, 1);
        // It is not time yet.
        runtime.block_on(renewer.renew());
        assert_eq!(failures(&files, "a.example"), Some(first));
        renewer.forget_failures();
        assert_eq!(renewer.due(), [0]);
    }

    #[test]
    fn failure_that_cannot_be_written_delays_the_next_attempt() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path());
        let metrics = AcmeMetrics::register(&mut Registry::default());
        let on_renewal: OnRenewal = Box::new(|| ());
        let mut renewer = Renewer::new(&settings, &metrics, &on_renewal, Arc::default()).unwrap();
        // Nothing can be renamed to it.
        std::fs::create_dir_all(renewer.files.failures("a.example").join("x")).unwrap();
        for count in 1..3 {
            assert_eq!(renewer.due(), [0]);
            renewer.note_failure(0, &anyhow!("no room"));
            assert!(renewer.due().is_empty());
            let failures = renewer.hosts[0].unsaved.as_mut().unwrap();
            assert_eq!(failures.count, count);
            failures.next_attempt = clock::wall_now();
        }
        renewer.hosts[0].unsaved.as_mut().unwrap().next_attempt += DAY;
        renewer.forget_failures();
        assert_eq!(renewer.due(), [0]);
    }

    #[test]
    fn authority_can_only_have_a_certificate_renewed_earlier() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path());
        let metrics = AcmeMetrics::register(&mut Registry::default());
        let on_renewal: OnRenewal = Box::new(|| ());
        let mut renewer = Renewer::new(&settings, &metrics, &on_renewal, Arc::default()).unwrap();
        write(&renewer.files.certificate("a.example"), &["a.example", "b.example"], [1, 80]);
        renewer.look();
        let own = renewer.hosts[0].renewal;
        let now = clock::wall_now();
        for (answer, expected) in
            [(Some(own + DAY), own), (None, own), (Some(own - DAY), own - DAY), (Some(now), now)]
        {
            let suggested = answer.map(|at| SuggestedRenewal { at, ask_again: now + DAY });
            renewer.note_answer(0, suggested.context("no answer"));
            assert_eq!(renewer.hosts[0].renewal, expected, "{answer:?}");
        }
        assert_eq!(renewer.due(), [0]);
        // What replaces it is not asked about at once.
        assert!(renewer.asked().is_empty());
        write(&renewer.files.certificate("a.example"), &["a.example", "b.example"], [1, 80]);
        renewer.look();
        assert!(renewer.asked().is_empty() && renewer.due().is_empty());
    }
}
