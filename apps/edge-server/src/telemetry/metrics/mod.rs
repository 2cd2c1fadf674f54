//! Metrics of the server, in the OpenMetrics format.

mod access;
mod acme;
mod arms;
mod budgets;
mod cache;
mod client_certificates;
mod client_states;
pub mod collected;
mod compression;
mod configuration;
mod drops;
mod early_data;
mod ecn;
pub mod exposition;
mod handshakes;
mod labels;
mod nodes;
mod origins;
mod paths;
mod process;
mod responses;
mod resume;
mod sockets;
mod store;
mod tcp;
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

use self::access::AccessCollector;
pub use self::acme::AcmeMetrics;
pub use self::arms::ArmMetrics;
use self::budgets::BudgetCollector;
use self::cache::CacheCollector;
pub use self::client_certificates::CertificateRefusals;
pub use self::client_states::ClientStateMetrics;
use self::compression::CompressionCollector;
pub use self::configuration::ConfigurationMetrics;
pub use self::drops::DropMetrics;
pub use self::early_data::EarlyDataMetrics;
pub use self::ecn::EcnMetrics;
pub use self::handshakes::HandshakeFailures;
use self::labels::WorkerLabels;
pub use self::nodes::NodeDrop;
pub use self::nodes::NodeMetrics;
use self::origins::OriginCollector;
pub use self::paths::PathMetrics;
use self::process::ProcessCollector;
pub use self::responses::ResponseCounters;
pub use self::responses::ResponseMetrics;
pub use self::resume::ConnectionSnapshot;
pub use self::resume::ResumeMetrics;
pub use self::sockets::SocketDrops;
use self::store::StoreCollector;
pub use self::tcp::TcpMetrics;
pub use self::traffic::StatsDelta;
pub use self::traffic::TrafficMetrics;
use crate::admission::budgets::Budgets;
use crate::admission::metrics::AdmissionMetrics;
use crate::telemetry::qlog::budget::QlogBudget;

/// Buckets of the pacing lateness, in seconds.
const LATENESS_BUCKETS_S: [f64; 10] =
    [10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 10e-3, 100e-3];

/// Metrics of the server.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    connections: Family<WorkerLabels, Counter>,
    connections_now: Family<WorkerLabels, Gauge>,
    disk_reads: Family<WorkerLabels, Counter>,
    datagrams_per_send_max: Family<WorkerLabels, Gauge>,
    lateness_s: Family<WorkerLabels, Histogram, fn() -> Histogram>,
    shared: SharedMetrics,

    /// Lost lines of the access log.
    pub access_log_dropped: Counter,

    /// Datagrams that the workers' sockets dropped.
    pub socket_drops: SocketDrops,

    /// The TCP side.
    pub tcp: TcpMetrics,

    pub acme: AcmeMetrics,

    /// Reloads, key files and certificates.
    pub configuration: ConfigurationMetrics,

    /// What connections keep.
    pub budgets: Budgets,
    pub qlogs: QlogBudget,
}

/// Counters that all workers share.
#[derive(Clone)]
struct SharedMetrics {
    admission: AdmissionMetrics,
    drops: DropMetrics,
    traffic: TrafficMetrics,
    responses: ResponseMetrics,
    resume: ResumeMetrics,
    client_states: ClientStateMetrics,
    arms: ArmMetrics,
    handshake_failures: HandshakeFailures,
    certificate_refusals: CertificateRefusals,
    paths: PathMetrics,
    early_data: EarlyDataMetrics,
    ecn: EcnMetrics,
    nodes: NodeMetrics,
}

/// Counters of one worker. Those with [`WorkerLabels`] have no other writer.
#[derive(Clone)]
pub struct WorkerMetrics {
    connections: Counter,
    connections_now: Gauge,
    disk_reads: Counter,
    datagrams_per_send_max: Gauge,
    lateness_s: Histogram,

    /// Decisions on clients without a connection.
    pub admission: AdmissionMetrics,
    pub drops: DropMetrics,
    pub traffic: TrafficMetrics,
    pub responses: ResponseCounters,
    pub resume: ResumeMetrics,
    pub client_states: ClientStateMetrics,
    pub arms: ArmMetrics,
    pub handshake_failures: HandshakeFailures,
    pub certificate_refusals: CertificateRefusals,
    pub paths: PathMetrics,
    pub early_data: EarlyDataMetrics,
    pub ecn: EcnMetrics,
    pub nodes: NodeMetrics,
}

impl Metrics {
    /// Registers all metrics.
    pub fn new(store: Option<StoreMonitor>) -> Self {
        let mut registry = Registry::default();
        let connections = Family::default();
        let connections_now = Family::default();
        let disk_reads = Family::default();
        let datagrams_per_send_max = Family::default();
        let lateness_s =
            Family::new_with_constructor((|| Histogram::new(LATENESS_BUCKETS_S)) as fn() -> _);
        registry.register("edge_server_connections", "Connections accepted", connections.clone());
        registry.register(
            "edge_server_connections_open",
            "Connections open now",
            connections_now.clone(),
        );
        registry.register(
            "edge_server_disk_reads",
            "Reads of file chunks that were not in memory",
            disk_reads.clone(),
        );
        registry.register(
            "edge_server_datagrams_per_send_max",
            "Datagrams in one system call: 1 while the network device refuses to segment",
            datagrams_per_send_max.clone(),
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
        let (budgets, qlogs) = (Budgets::default(), QlogBudget::default());
        let collector = BudgetCollector { budgets: budgets.clone(), qlogs: qlogs.clone() };
        registry.register_collector(Box::new(collector));
        let shared = SharedMetrics {
            admission: AdmissionMetrics::register(&mut registry),
            drops: DropMetrics::register(&mut registry),
            traffic: TrafficMetrics::register(&mut registry),
            responses: ResponseMetrics::register(&mut registry),
            resume: ResumeMetrics::register(&mut registry),
            client_states: ClientStateMetrics::register(&mut registry),
            arms: ArmMetrics::register(&mut registry),
            handshake_failures: HandshakeFailures::register(&mut registry),
            certificate_refusals: CertificateRefusals::register(&mut registry),
            paths: PathMetrics::register(&mut registry),
            early_data: EarlyDataMetrics::register(&mut registry),
            ecn: EcnMetrics::register(&mut registry),
            nodes: NodeMetrics::register(&mut registry),
        };
        let tcp = TcpMetrics::register(
            &mut registry,
            shared.responses.clone(),
            shared.certificate_refusals.clone(),
        );
        let configuration = ConfigurationMetrics::register(&mut registry);
        let acme = AcmeMetrics::register(&mut registry);
        registry.register_collector(Box::new(AccessCollector));
        registry.register_collector(Box::new(CompressionCollector));
        registry.register_collector(Box::new(CacheCollector));
        registry.register_collector(Box::new(OriginCollector));
        registry.register_collector(Box::new(ProcessCollector::new()));
        if let Some(store) = store {
            registry.register_collector(Box::new(StoreCollector(store)));
        }

        Self {
            registry: Arc::new(registry),
            connections,
            connections_now,
            disk_reads,
            datagrams_per_send_max,
            lateness_s,
            shared,
            access_log_dropped,
            socket_drops,
            tcp,
            acme,
            configuration,
            budgets,
            qlogs,
        }
    }

    /// Returns the counters of what servers forward to each other.
    pub fn nodes(&self) -> NodeMetrics {
        self.shared.nodes.clone()
    }

    /// Returns the counters of one worker.
    pub fn of_worker(&self, worker: u8) -> WorkerMetrics {
        let labels = WorkerLabels { worker };
        let SharedMetrics {
            admission,
            drops,
            traffic,
            responses,
            resume,
            client_states,
            arms,
            handshake_failures,
            certificate_refusals,
            paths,
            early_data,
            ecn,
            nodes,
        } = self.shared.clone();
        WorkerMetrics {
            connections: self.connections.get_or_create(&labels).clone(),
            connections_now: self.connections_now.get_or_create(&labels).clone(),
            disk_reads: self.disk_reads.get_or_create(&labels).clone(),
            datagrams_per_send_max: self.datagrams_per_send_max.get_or_create(&labels).clone(),
            lateness_s: self.lateness_s.get_or_create(&labels).clone(),
            admission,
            drops,
            traffic,
            responses: responses.of_worker(),
            resume,
            client_states,
            arms,
            handshake_failures,
            certificate_refusals,
            paths,
            early_data,
            ecn,
            nodes,
        }
    }

    /// Returns the page in the OpenMetrics format.
    pub fn page(&self) -> String {
        let mut page = String::new();
        // Writing to a string never fails.
        let _ = text::encode(&mut page, &self.registry);
        page
    }
}

impl WorkerMetrics {
    /// Counts a new connection.
    pub fn count_connection(&self) {
        self.connections.inc();
        self.connections_now.inc();
    }

    /// Counts the end of a connection.
    pub fn count_end(&self) {
        self.connections_now.dec();
    }

    /// Counts a read that was not served from memory.
    pub fn count_disk_read(&self) {
        self.disk_reads.inc();
    }

    /// Sets how many datagrams a system call may send.
    pub fn set_datagrams_per_send_max(&self, datagrams: usize) {
        self.datagrams_per_send_max.set(datagrams as i64);
    }

    /// Observes that a packet is sent `late` after its release time.
    pub fn count_lateness(&self, late: Duration) {
        self.lateness_s.observe(late.as_secs_f64());
    }
}

#[cfg(test)]
pub mod tests;
