//! Upstream of an origin: a server that has its paths, with its connections, its health and its counts.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::Context;
use hyper::http::uri::Authority;
use hyper::http::uri::Scheme;
use hyper::Uri;
use log::info;
use log::warn;
use quiche::clock;

use crate::config::file::OriginRule;
use crate::config::PROGRAM;
use crate::content::origin::balance::UpstreamCandidate;
use crate::content::origin::connector::OriginConnector;
use crate::content::origin::error::OriginError;
use crate::content::origin::error::OriginOutcome;
use crate::content::origin::failure_log::FailureLog;
use crate::content::origin::health::HealthChange;
use crate::content::origin::health::UpstreamHealth;
use crate::content::origin::pool::OriginPool;
use crate::http::origin_report::OriginReport;

/// Counts of all upstreams since the process began, by URL. They outlive reloads.
static COUNTS: Mutex<BTreeMap<Arc<str>, Arc<UpstreamCounts>>> = Mutex::new(BTreeMap::new());

/// One server of an origin.
#[derive(Debug)]
pub struct Upstream {
    pub uri: Uri,

    /// As it is named in metrics and logs.
    pub url: Arc<str>,
    pub pool: Arc<OriginPool>,
    health: Mutex<UpstreamHealth>,
    failures: Mutex<FailureLog>,

    /// Requests that it has.
    requests: AtomicUsize,
    counts: Arc<UpstreamCounts>,
}

/// Requests of an upstream, by outcome, and how many origins have it and hold it for unhealthy.
#[derive(Debug, Default)]
struct UpstreamCounts {
    outcomes: [AtomicU64; OriginOutcome::NAMES.len()],
    users: AtomicUsize,
    unhealthy: AtomicUsize,
}

/// What metrics tell of an upstream.
#[derive(Debug)]
pub struct UpstreamReport {
    pub url: Arc<str>,
    pub outcomes: Vec<(&'static str, u64)>,

    /// Absent if no origin has it any longer.
    pub is_healthy: Option<bool>,
}

/// Request that an upstream has. It counts as cancelled unless something else is said.
#[derive(Debug)]
pub struct UpstreamRequest {
    pub upstream: Arc<Upstream>,
    report: Arc<OriginReport>,
    is_trial: bool,
    outcome: Option<OriginOutcome>,
}

impl Upstream {
    /// Returns the upstream at a URL of a rule.
    ///
    /// # Errors
    ///
    /// One line that names the invalid key.
    pub fn new(
        url: &str,
        rule: &OriginRule,
        connect_time: Duration,
        failures_max: u32,
    ) -> anyhow::Result<Self> {
        let uri = address_of(url)?;
        let ca = rule.ca.as_deref();
        let connector = OriginConnector::new(uri.clone(), ca, rule.http_version, connect_time)?;
        let url: Arc<str> = uri.to_string().trim_end_matches('/').into();
        let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = Arc::clone(counts.entry(Arc::clone(&url)).or_default());
        counts.users.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            uri,
            url,
            pool: Arc::new(OriginPool::new(connector)),
            health: Mutex::new(UpstreamHealth::new(failures_max, clock::now())),
            failures: Mutex::default(),
            requests: AtomicUsize::new(0),
            counts,
        })
    }

    /// Returns it as a request may choose it.
    pub fn candidate(&self, is_tried: bool) -> UpstreamCandidate<'_> {
        UpstreamCandidate {
            url: &self.url,
            requests: self.requests.load(Ordering::Relaxed),
            is_tried,
            is_available: self.health().is_available(clock::now()),
        }
    }

    /// Returns whether nothing is known against it.
    pub fn is_healthy(&self) -> bool {
        self.health().is_healthy()
    }

    /// Notes that it gets a request, which has this report.
    pub fn begin(self: &Arc<Self>, report: &Arc<OriginReport>) -> UpstreamRequest {
        report.on_attempt(&self.url);
        self.requests.fetch_add(1, Ordering::Relaxed);
        let is_trial = self.health().on_request(clock::now());
        UpstreamRequest {
            upstream: Arc::clone(self),
            report: Arc::clone(report),
            is_trial,
            outcome: None,
        }
    }

    /// Notes the result of a health check.
    pub fn on_check(&self, result: Result<(), String>) {
        let why = result.as_ref().err().map_or("", String::as_str);
        self.change(why, |health| health.on_check(result.is_ok()));
    }

    /// Changes its health, and tells of it.
    fn change(&self, why: &str, on: impl FnOnce(&mut UpstreamHealth) -> Option<HealthChange>) {
        let mut health = self.health();
        let was_healthy = health.is_healthy();
        let change = on(&mut health);
        match (was_healthy, health.is_healthy()) {
            (true, false) => drop(self.counts.unhealthy.fetch_add(1, Ordering::Relaxed)),
            (false, true) => drop(self.counts.unhealthy.fetch_sub(1, Ordering::Relaxed)),
            _ => (),
        }
        drop(health);
        let url = &self.url;
        match change {
            None => (),
            Some(HealthChange::Back) => info!(target: PROGRAM.0, "origin {url} is back"),
            Some(HealthChange::FailsChecks) => {
                warn!(target: PROGRAM.0, "origin {url} is out until a health check succeeds; the last: {why}");
            }
            Some(HealthChange::Out { failures, time }) => warn!(
                target: PROGRAM.0,
                "origin {url} is out for {} s after {failures} failures; the last: {why}",
                time.as_secs()
            ),
        }
    }

    /// Logs a request without a response, unless that is its client's fault.
    pub fn log_error(&self, error: &OriginError) {
        let status = error.status();
        if [502, 504].contains(&status) {
            self.log_failure(format!("{status} for a request, {error}"));
        }
    }

    /// Logs a failure, now and then.
    fn log_failure(&self, what: String) {
        let line = self.failures().on_failure(what, clock::now());
        self.write(line);
    }

    /// Logs failures that were left out, once a while has passed.
    pub fn log_rest(&self) {
        let line = self.failures().take(clock::now());
        self.write(line);
    }

    fn write(&self, line: Option<String>) {
        if let Some(line) = line {
            warn!(target: PROGRAM.0, "origin {}: {line}", self.url);
        }
    }

    fn failures(&self) -> MutexGuard<'_, FailureLog> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn health(&self) -> MutexGuard<'_, UpstreamHealth> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        if !self.health().is_healthy() {
            self.counts.unhealthy.fetch_sub(1, Ordering::Relaxed);
        }
        self.counts.users.fetch_sub(1, Ordering::Relaxed);
    }
}

impl UpstreamRequest {
    /// Notes that the response has begun.
    pub fn on_response(&self) {
        let now = clock::now();
        self.report.on_response(now);
        self.upstream.change("", |health| health.on_success(now));
    }

    /// Notes that all of the response has come.
    pub fn on_whole_response(&self) {
        self.report.on_end(clock::now());
    }

    /// Notes that the request ends so, by the upstream's fault.
    pub fn fail(mut self, outcome: OriginOutcome, why: &str) {
        self.upstream.change(why, |health| health.on_failure(clock::now()));
        self.outcome = Some(outcome);
    }

    /// Notes that the response breaks off.
    pub fn break_off(self, why: &str) {
        let what = format!("a response breaks off: {why}");
        self.upstream.log_failure(what.clone());
        self.fail(OriginOutcome::Broken, &what);
    }

    /// Notes that the request ends so, by nobody's fault.
    pub fn end(mut self, outcome: OriginOutcome) {
        self.outcome = Some(outcome);
    }
}

impl Drop for UpstreamRequest {
    fn drop(&mut self) {
        self.report.on_end(clock::now());
        self.upstream.requests.fetch_sub(1, Ordering::Relaxed);
        if self.is_trial {
            self.upstream.health().on_trial_end(clock::now());
        }
        let outcome = self.outcome.unwrap_or(OriginOutcome::Cancelled);
        self.upstream.counts.outcomes[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns what metrics tell of all upstreams.
pub fn reports() -> Vec<UpstreamReport> {
    let counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    let report = |(url, counts): (&Arc<str>, &Arc<UpstreamCounts>)| {
        let outcomes = counts.outcomes.iter().map(|count| count.load(Ordering::Relaxed));
        let is_used = counts.users.load(Ordering::Relaxed) > 0;
        UpstreamReport {
            url: Arc::clone(url),
            outcomes: OriginOutcome::NAMES.into_iter().zip(outcomes).collect(),
            is_healthy: is_used.then(|| counts.unhealthy.load(Ordering::Relaxed) == 0),
        }
    };
    counts.iter().map(report).collect()
}

/// Returns scheme, and host and port, of a URL.
fn address_of(url: &str) -> anyhow::Result<Uri> {
    let uri: Option<Uri> = url.parse().ok();
    let parts = uri.map(Uri::into_parts).unwrap_or_default();
    let scheme = parts.scheme.filter(|scheme| [Scheme::HTTP, Scheme::HTTPS].contains(scheme));
    let is_root = parts.path_and_query.as_ref().is_none_or(|path| path == "/");
    let authority = parts.authority.filter(|authority| !authority.as_str().contains('@'));
    let authority = authority.filter(|authority| !authority.host().is_empty());
    let authority = authority.filter(|_| is_root && !url.contains('#'));
    let has_port = |authority: &Authority| match authority.as_str().rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => {
            authority.port_u16().is_some_and(|port| port > 0)
        }
        _ => true,
    };
    let authority = authority.filter(has_port);
    let address = scheme.zip(authority).and_then(|(scheme, authority)| {
        Uri::builder().scheme(scheme).authority(authority).path_and_query("/").build().ok()
    });
    address
        .with_context(|| format!("origin: url = '{url}': write http://host:port or https://host"))
}
