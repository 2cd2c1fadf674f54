//! Metrics of a service: what connections asked of a store, and what came of it.

/// What a service did since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct ServiceMetrics {
    /// Records asked for.
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

    /// Records forgotten after a retreat.
    pub forgets: u64,

    /// Requests dropped for want of room that began no harm: misses.
    pub dropped: u64,

    /// Releases and forgets dropped for want of room.
    pub dropped_ends: u64,

    /// Requests that failed in the store.
    pub failed: u64,

    /// Transactions or round trips that all of these took.
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

    /// Returns what was counted since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = Self::default();
        for ((name, now), (_, then)) in self.counts().into_iter().zip(earlier.counts()) {
            since.add(name, now.saturating_sub(then));
        }

        since
    }
}
