//! Metrics of the server, for Prometheus. Counting costs an addition.

mod drops;
mod labels;
mod responses;
mod resume;
mod sockets;
mod store;
mod traffic;

use std::sync::Arc;
use std::time::Duration;

use path_store::StoreMonitor;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

pub use self::drops::DropMetrics;
use self::labels::WorkerLabels;
pub use self::responses::ResponseCounters;
pub use self::responses::ResponseMetrics;
pub use self::resume::ConnectionSnapshot;
pub use self::resume::ResumeMetrics;
pub use self::sockets::SocketDrops;
use self::store::StoreCollector;
pub use self::traffic::StatsDelta;
pub use self::traffic::TrafficMetrics;
use crate::admission::metrics::AdmissionMetrics;

/// Upper bounds of how late packets leave, in seconds.
const LATENESS: [f64; 10] =
    [10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 10e-3, 100e-3];

/// The counters of a server.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    connections: Family<WorkerLabels, Counter>,
    connections_now: Family<WorkerLabels, Gauge>,
    disk_reads: Family<WorkerLabels, Counter>,
    lateness_s: Family<WorkerLabels, Histogram, fn() -> Histogram>,
    shared: SharedMetrics,

    /// Lines of the access log that were lost.
    pub access_log_dropped: Counter,

    /// Of the workers' sockets.
    pub socket_drops: SocketDrops,
}

/// The counters that all workers write to.
#[derive(Clone)]
struct SharedMetrics {
    admission: AdmissionMetrics,
    drops: DropMetrics,
    traffic: TrafficMetrics,
    responses: ResponseMetrics,
    resume: ResumeMetrics,
}

/// The counters of one worker. Those of [`WorkerLabels`] no other writes to.
#[derive(Clone)]
pub struct WorkerMetrics {
    connections: Counter,
    connections_now: Gauge,
    disk_reads: Counter,
    lateness_s: Histogram,

    /// How clients without a connection were met.
    pub admission: AdmissionMetrics,
    pub drops: DropMetrics,
    pub traffic: TrafficMetrics,
    pub responses: ResponseCounters,
    pub resume: ResumeMetrics,
}

impl Metrics {
    /// All at nothing.
    pub fn new(store: Option<StoreMonitor>) -> Self {
        let mut registry = Registry::default();
        let connections = Family::default();
        let connections_now = Family::default();
        let disk_reads = Family::default();
        let lateness_s = Family::new_with_constructor((|| Histogram::new(LATENESS)) as fn() -> _);
        registry.register("edge_server_connections", "Connections accepted", connections.clone());
        registry.register(
            "edge_server_connections_open",
            "Connections open now",
            connections_now.clone(),
        );
        registry.register(
            "edge_server_disk_reads",
            "Pieces of files that were not in memory",
            disk_reads.clone(),
        );
        registry.register(
            "edge_server_pacing_lateness_seconds",
            "How late a worker sends paced packets",
            lateness_s.clone(),
        );
        let access_log_dropped = Counter::default();
        registry.register(
            "edge_server_access_log_dropped",
            "Lines missing from the access log",
            access_log_dropped.clone(),
        );
        let socket_drops = SocketDrops::default();
        registry.register_collector(Box::new(socket_drops.clone()));
        let shared = SharedMetrics {
            admission: AdmissionMetrics::register(&mut registry),
            drops: DropMetrics::register(&mut registry),
            traffic: TrafficMetrics::register(&mut registry),
            responses: ResponseMetrics::register(&mut registry),
            resume: ResumeMetrics::register(&mut registry),
        };
        if let Some(store) = store {
            registry.register_collector(Box::new(StoreCollector(store)));
        }

        Self {
            registry: Arc::new(registry),
            connections,
            connections_now,
            disk_reads,
            lateness_s,
            shared,
            access_log_dropped,
            socket_drops,
        }
    }

    /// The counters of one worker.
    pub fn of_worker(&self, worker: u8) -> WorkerMetrics {
        let labels = WorkerLabels { worker };
        let SharedMetrics { admission, drops, traffic, responses, resume } = self.shared.clone();
        WorkerMetrics {
            connections: self.connections.get_or_create(&labels).clone(),
            connections_now: self.connections_now.get_or_create(&labels).clone(),
            disk_reads: self.disk_reads.get_or_create(&labels).clone(),
            lateness_s: self.lateness_s.get_or_create(&labels).clone(),
            admission,
            drops,
            traffic,
            responses: responses.of_worker(),
            resume,
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

    /// A connection could have sent so long ago.
    pub fn count_lateness(&self, late: Duration) {
        self.lateness_s.observe(late.as_secs_f64());
    }
}

#[cfg(test)]
mod tests;
