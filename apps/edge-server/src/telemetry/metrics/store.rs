//! Metrics of the store.

use path_store::StoreMonitor;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::telemetry::metrics::collected::encode;

/// Collector of the store's own counters, read at each scrape.
pub struct StoreCollector(pub StoreMonitor);

impl std::fmt::Debug for StoreCollector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreCollector").finish_non_exhaustive()
    }
}

impl Collector for StoreCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let (service, backend) = (self.0.metrics(), self.0.backend_counters());
        let counters = [
            ("gets", "Reads", service.gets),
            ("hits", "Reads that found an entry", service.hits),
            ("claims", "Claims requested", service.claims),
            ("claims_granted", "Claims granted", service.claims_granted),
            ("records", "Observations recorded", service.records),
            ("releases", "Claims released", service.releases),
            ("forgets", "Entries deleted after a retreat", service.forgets),
            ("dropped", "Requests dropped because the store is too slow", service.dropped),
            (
                "dropped_ends",
                "Releases and forgets dropped because the store is too slow",
                service.dropped_ends,
            ),
            ("failed", "Requests that failed in the store", service.failed),
            ("batches", "Transactions or round trips", service.batches),
            ("records_damaged", "Damaged records removed", backend.records_damaged),
            ("records_newer", "Records of a newer version found", backend.records_newer),
            ("entries_expired", "Entries deleted because they expired", backend.entries_expired),
            ("entries_evicted", "Entries deleted to make room", backend.entries_evicted),
            ("databases_set_aside", "Damaged databases replaced", backend.databases_quarantined),
            ("reconnects", "Connections made to a store's server", backend.reconnects),
        ];
        for (name, help, value) in counters {
            let name = format!("path_store_{name}");
            encode(&mut encoder, &name, help, &ConstCounter::new(value))?;
        }

        let gauges = [
            ("path_store_failing", "1 while the store fails", i64::from(self.0.is_failing())),
            ("path_store_queued", "Requests in the store's queue", self.0.queued() as i64),
        ];
        for (name, help, value) in gauges {
            encode(&mut encoder, name, help, &ConstGauge::new(value))?;
        }

        Ok(())
    }
}
