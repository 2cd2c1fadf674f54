//! Metrics of a service: requests to a store, and their outcomes.

/// Counts since a service was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ServiceMetrics {
    /// Reads.
    pub gets: u64,

    /// Reads that found a record.
    pub hits: u64,

    /// Requests for claims.
    pub claims: u64,

    /// Claims granted.
    pub claims_granted: u64,

    /// Observations recorded.
    pub records: u64,

    /// Claims released.
    pub releases: u64,

    /// Records forgotten after a retreat.
    pub forgets: u64,

    /// Gets, claims and records dropped because a queue was full.
    pub dropped: u64,

    /// Releases and forgets dropped because a queue was full.
    pub dropped_ends: u64,

    /// Requests that failed in the store.
    pub failed: u64,

    /// Transactions or round trips.
    pub batches: u64,
}

impl ServiceMetrics {
    /// Returns every count with its name.
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

    /// Adds to the count of this name, if there is one.
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

    /// Returns the counts since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = Self::default();
        for ((name, now), (_, then)) in self.counts().into_iter().zip(earlier.counts()) {
            since.add(name, now.saturating_sub(then));
        }

        since
    }
}
