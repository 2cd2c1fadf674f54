//! Counters of a running service.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::backend::Outcome;
use crate::backend::Request;
use crate::service_metrics::ServiceMetrics;

/// [`ServiceMetrics`] that several threads add to.
#[derive(Debug, Default)]
pub struct Metrics {
    gets: AtomicU64,
    hits: AtomicU64,
    claims: AtomicU64,
    claims_granted: AtomicU64,
    records: AtomicU64,
    releases: AtomicU64,
    forgets: AtomicU64,
    dropped: AtomicU64,
    dropped_ends: AtomicU64,
    failed: AtomicU64,
    batches: AtomicU64,
    failing: AtomicBool,
}

impl Metrics {
    pub fn snapshot(&self) -> ServiceMetrics {
        ServiceMetrics {
            gets: self.gets.load(Relaxed),
            hits: self.hits.load(Relaxed),
            claims: self.claims.load(Relaxed),
            claims_granted: self.claims_granted.load(Relaxed),
            records: self.records.load(Relaxed),
            releases: self.releases.load(Relaxed),
            forgets: self.forgets.load(Relaxed),
            dropped: self.dropped.load(Relaxed),
            dropped_ends: self.dropped_ends.load(Relaxed),
            failed: self.failed.load(Relaxed),
            batches: self.batches.load(Relaxed),
        }
    }

    pub fn count_dropped(&self, ends_claim: bool) {
        let counter = match ends_claim {
            true => &self.dropped_ends,
            false => &self.dropped,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub fn count_batch(&self) {
        self.batches.fetch_add(1, Relaxed);
    }

    /// Counts a request that was performed or, without an outcome, that failed.
    pub fn count(&self, request: &Request, outcome: Option<&Outcome>) {
        let counter = match request {
            Request::Get(_) => &self.gets,
            Request::Claim(..) | Request::ClaimOwn(..) => &self.claims,
            Request::Record(..) => &self.records,
            Request::Release(..) => &self.releases,
            Request::Forget(..) => &self.forgets,
        };
        counter.fetch_add(1, Relaxed);

        match outcome {
            None => self.failed.fetch_add(1, Relaxed),
            Some(Outcome::Read(Some(_))) => self.hits.fetch_add(1, Relaxed),
            Some(Outcome::Claimed(Some(_))) => self.claims_granted.fetch_add(1, Relaxed),
            Some(_) => 0,
        };
    }

    pub fn set_failing(&self, failing: bool) {
        self.failing.store(failing, Relaxed);
    }

    pub fn is_failing(&self) -> bool {
        self.failing.load(Relaxed)
    }

    pub fn dropped_total(&self) -> u64 {
        self.dropped.load(Relaxed) + self.dropped_ends.load(Relaxed)
    }
}
