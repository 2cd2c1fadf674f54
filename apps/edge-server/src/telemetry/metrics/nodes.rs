//! Metrics of packets that servers of a fleet forward to each other.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// The counters.
#[derive(Clone, Default)]
pub struct NodeMetrics {
    forwarded: Counter,
    received: Counter,
    dropped: Family<NodeDropLabels, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct NodeDropLabels {
    reason: &'static str,
}

/// Reason why a datagram is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeDrop {
    /// More than a worker forwards in a second.
    Rate,

    /// A socket or a worker has no room for it.
    Full,

    /// Its envelope is of no server with the same secrets.
    Forged,

    /// Its connection ID names another server than this.
    Misdirected,

    /// Its connection ID is of a configuration that this server does not have.
    UnknownConfig,
}

impl NodeDrop {
    const ALL: [Self; 5] =
        [Self::Rate, Self::Full, Self::Forged, Self::Misdirected, Self::UnknownConfig];

    fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Full => "full",
            Self::Forged => "forged",
            Self::Misdirected => "misdirected",
            Self::UnknownConfig => "unknown_config",
        }
    }
}

impl NodeMetrics {
    /// Returns counters at 0, registered with `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "edge_server_node_datagrams_forwarded",
            "Datagrams forwarded to the servers that their connection IDs name",
            metrics.forwarded.clone(),
        );
        registry.register(
            "edge_server_node_datagrams_received",
            "Datagrams that other servers have forwarded to this one",
            metrics.received.clone(),
        );
        registry.register(
            "edge_server_node_datagrams_dropped",
            "Datagrams for other servers, or from them, that were dropped, by reason",
            metrics.dropped.clone(),
        );
        for reason in NodeDrop::ALL {
            metrics.drops(reason);
        }
        metrics
    }

    pub fn count_forwarded(&self) {
        self.forwarded.inc();
    }

    pub fn count_received(&self) {
        self.received.inc();
    }

    pub fn count_dropped(&self, reason: NodeDrop) {
        self.drops(reason).inc();
    }

    fn drops(&self, reason: NodeDrop) -> Counter {
        self.dropped.get_or_create_owned(&NodeDropLabels { reason: reason.name() })
    }
}
