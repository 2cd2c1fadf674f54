//! What the server did, counted for Prometheus. Counting costs an addition.

use std::sync::Arc;

use path_store::StoreMonitor;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::EncodeMetric;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use quiche::resume::Phase;
use quiche::resume::Trigger;

use crate::admission_metrics::AdmissionMetrics;

/// The counters of a server.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    connections: Family<WorkerLabels, Counter>,
    connections_now: Family<WorkerLabels, Gauge>,
    disk_reads: Family<WorkerLabels, Counter>,
    phases: Family<PhaseLabels, Counter>,
    admission: AdmissionMetrics,

    /// Lines of the access log that were lost.
    pub access_log_dropped: Counter,
}

/// The counters of one worker, which no other writes to as a rule.
#[derive(Clone)]
pub struct WorkerMetrics {
    connections: Counter,
    connections_now: Gauge,
    disk_reads: Counter,
    phases: Family<PhaseLabels, Counter>,

    /// How clients without a connection were met.
    pub admission: AdmissionMetrics,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WorkerLabels {
    worker: u8,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct PhaseLabels {
    phase: &'static str,
    trigger: &'static str,
}

/// The store's own counters, read when somebody asks.
struct StoreCollector(StoreMonitor);

impl Metrics {
    /// All at nothing.
    pub fn new(store: Option<StoreMonitor>) -> Self {
        let mut registry = Registry::default();
        let connections = Family::default();
        let connections_now = Family::default();
        let disk_reads = Family::default();
        let phases = Family::default();
        registry.register("edge_server_connections", "Connections accepted", connections.clone());
        registry.register(
            "edge_server_connections_open",
            "Connections that are open",
            connections_now.clone(),
        );
        registry.register(
            "edge_server_disk_reads",
            "Pieces of files that were not in memory",
            disk_reads.clone(),
        );
        registry.register(
            "edge_server_resume_phases",
            "Phases of Careful Resume that connections came to, and why",
            phases.clone(),
        );
        let access_log_dropped = Counter::default();
        registry.register(
            "edge_server_access_log_dropped",
            "Lines that the access log did not take in time, or could not write",
            access_log_dropped.clone(),
        );
        let admission = AdmissionMetrics::register(&mut registry);
        if let Some(store) = store {
            registry.register_collector(Box::new(StoreCollector(store)));
        }

        Self {
            registry: Arc::new(registry),
            connections,
            connections_now,
            disk_reads,
            phases,
            admission,
            access_log_dropped,
        }
    }

    /// The counters of one worker.
    pub fn of_worker(&self, worker: u8) -> WorkerMetrics {
        let labels = WorkerLabels { worker };
        WorkerMetrics {
            connections: self.connections.get_or_create(&labels).clone(),
            connections_now: self.connections_now.get_or_create(&labels).clone(),
            disk_reads: self.disk_reads.get_or_create(&labels).clone(),
            phases: self.phases.clone(),
            admission: self.admission.clone(),
        }
    }

    /// The page for Prometheus.
    pub fn page(&self) -> String {
        let mut page = String::new();
        // Text takes everything.
        let _ = text::encode(&mut page, &self.registry);
        page
    }
}

impl WorkerMetrics {
    pub fn count_connection(&self) {
        self.connections.inc();
        self.connections_now.inc();
    }

    pub fn count_end(&self) {
        self.connections_now.dec();
    }

    pub fn count_disk_read(&self) {
        self.disk_reads.inc();
    }

    /// Careful Resume came to a phase on a connection.
    pub fn count_phase(&self, phase: Phase, trigger: Option<Trigger>) {
        let trigger = trigger.map_or("none", Trigger::name);
        self.phases.get_or_create(&PhaseLabels { phase: phase.name(), trigger }).inc();
    }
}

impl std::fmt::Debug for StoreCollector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreCollector").finish_non_exhaustive()
    }
}

impl Collector for StoreCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let (service, inside) = (self.0.metrics(), self.0.backend_counters());
        let counters = [
            ("gets", "Saved sets asked for", service.gets),
            ("hits", "Saved sets found", service.hits),
            ("claims", "Claims asked for", service.claims),
            ("claims_granted", "Claims granted", service.claims_granted),
            ("records", "Observations handed to the store", service.records),
            ("releases", "Claims released", service.releases),
            ("forgets", "Saved sets forgotten after a retreat", service.forgets),
            ("dropped", "Requests dropped because the store is too slow", service.dropped),
            ("dropped_ends", "Releases and forgets dropped for that", service.dropped_ends),
            ("failed", "Requests that the store failed at", service.failed),
            ("batches", "Transactions or round trips", service.batches),
            ("records_damaged", "Damaged records removed", inside.records_damaged),
            ("records_newer", "Records of a newer version met", inside.records_newer),
            ("entries_expired", "Entries deleted at their time", inside.entries_expired),
            ("entries_evicted", "Entries deleted to make room", inside.entries_evicted),
            ("databases_set_aside", "Damaged databases replaced", inside.databases_set_aside),
            ("reconnects", "Connections made to a store's server", inside.reconnects),
        ];
        for (name, help, value) in counters {
            let counter = ConstCounter::new(value);
            let name = format!("path_store_{name}");
            let metric = encoder.encode_descriptor(&name, help, None, counter.metric_type())?;
            counter.encode(metric)?;
        }

        let gauges = [
            ("path_store_failing", "1 while the store fails", i64::from(self.0.is_failing())),
            ("path_store_queued", "Requests that wait for the store", self.0.queued() as i64),
        ];
        for (name, help, value) in gauges {
            let gauge = ConstGauge::new(value);
            let metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(metric)?;
        }

        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use path_store::StoreService;
    use quiche::path_state::MemoryStore;
    use std::time::Duration;

    #[test]
    fn what_was_counted_is_told() {
        let store = Box::new(MemoryStore::new(10));
        let service = StoreService::start(store, Default::default()).unwrap();
        let metrics = Metrics::new(Some(service.monitor()));

        let (one, other) = (metrics.of_worker(0), metrics.of_worker(1));
        one.count_connection();
        one.count_connection();
        one.count_end();
        other.count_connection();
        one.count_phase(Phase::SafeRetreat, Some(Trigger::PacketLoss));
        other.count_phase(Phase::SafeRetreat, Some(Trigger::PacketLoss));
        one.count_phase(Phase::Reconnaissance, None);
        let handle = service.handle(Arc::new(|| ()));
        let here =
            quiche::path_state::RemoteEndpoint::new("s", [10, 0, 0, 1].into(), Default::default());
        handle.get(1, &here);
        assert!(service.flush(Duration::from_secs(60)));

        let page = metrics.page();
        for line in [
            "edge_server_connections_total{worker=\"0\"} 2",
            "edge_server_connections_total{worker=\"1\"} 1",
            "edge_server_connections_open{worker=\"0\"} 1",
            "edge_server_resume_phases_total{phase=\"safe_retreat\",trigger=\"packet_loss\"} 2",
            "edge_server_resume_phases_total{phase=\"reconnaissance\",trigger=\"none\"} 1",
            "path_store_gets_total 1",
            "path_store_hits_total 0",
            "path_store_failing 0",
            "# EOF",
        ] {
            assert!(page.lines().any(|said| said == line), "{line}: {page}");
        }
    }
}
