//! Counters of a service: what connections asked, and what came of it.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::backend::Outcome;
use crate::backend::Request;

/// What a service did since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ServiceMetrics {
    /// Sets asked for.
    pub gets: u64,

    /// Of these, found.
    pub hits: u64,

    /// Claims asked for.
    pub claims: u64,

    /// Of these, granted.
    pub claims_granted: u64,

    /// Observations handed to the store.
    pub records: u64,

    /// Claims released.
    pub releases: u64,

    /// Sets forgotten after a retreat.
    pub forgets: u64,

    /// Requests dropped for want of room that began no harm: misses.
    pub dropped: u64,

    /// Releases and forgets dropped for want of room.
    pub dropped_ends: u64,

    /// Requests that the store failed at.
    pub failed: u64,

    /// Transactions or round trips that all of these took.
    pub batches: u64,
}

impl ServiceMetrics {
    /// Every count with its name.
    pub fn counts(&self) -> [(&'static str, u64); 11] {
        [
            ("gets", self.gets),
            ("hits", self.hits),
            ("claims", self.claims),
            ("claims_granted", self.claims_granted),
            ("records", self.records),
            ("releases", self.releases),
            ("forgets", self.forgets),
            ("dropped", self.dropped),
            ("dropped_ends", self.dropped_ends),
            ("failed", self.failed),
            ("batches", self.batches),
        ]
    }

    /// Adds to the count of that name, if there is one.
    pub fn add(&mut self, name: &str, count: u64) {
        let slot = match name {
            "gets" => &mut self.gets,
            "hits" => &mut self.hits,
            "claims" => &mut self.claims,
            "claims_granted" => &mut self.claims_granted,
            "records" => &mut self.records,
            "releases" => &mut self.releases,
            "forgets" => &mut self.forgets,
            "dropped" => &mut self.dropped,
            "dropped_ends" => &mut self.dropped_ends,
            "failed" => &mut self.failed,
            "batches" => &mut self.batches,
            _ => return,
        };
        *slot = slot.saturating_add(count);
    }

    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = Self::default();
        for ((name, now), (_, then)) in self.counts().into_iter().zip(earlier.counts()) {
            since.add(name, now.saturating_sub(then));
        }

        since
    }
}

/// [`ServiceMetrics`], counting.
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

    /// Counts a request that was done, or without an outcome, failed.
    pub fn count(&self, request: &Request, outcome: Option<&Outcome>) {
        let counter = match request {
            Request::Get(_) => &self.gets,
            Request::Claim(..) => &self.claims,
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

    pub fn dropped_in_all(&self) -> u64 {
        self.dropped.load(Relaxed) + self.dropped_ends.load(Relaxed)
    }
}
