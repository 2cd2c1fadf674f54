//! Counters of connections, requests and responses that timed out.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::h3::stalled::StalledCounts;

/// Everything that the server ends because it takes too long. Its counter starts at 0, so that
/// `increase()` sees the first event.
const WHATS: [&str; 4] = ["handshake", "connection", "request", "response"];

/// The counters, shared by the workers.
#[derive(Clone, Default)]
pub struct DropMetrics(Family<DropLabels, Counter>);

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DropLabels {
    what: &'static str,
}

impl DropMetrics {
    /// Registers the counters.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "edge_server_drops",
            "Handshakes, requests, responses and connections ended because they took too long",
            metrics.0.clone(),
        );
        for what in WHATS {
            metrics.count(what, 0);
        }
        metrics
    }

    /// Counts a handshake or connection, by its label.
    pub fn count_timeout(&self, what: &'static str) {
        self.count(what, 1);
    }

    /// Counts requests and responses.
    pub fn count_stalled(&self, stalled: StalledCounts) {
        self.count("request", stalled.requests);
        self.count("response", stalled.responses);
    }

    fn count(&self, what: &'static str, count: usize) {
        self.0.get_or_create(&DropLabels { what }).inc_by(count as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::tests::assert_exported;

    #[test]
    fn drop_counters_are_exported() {
        let mut registry = Registry::default();
        let metrics = DropMetrics::register(&mut registry);
        metrics.count_timeout("handshake");
        metrics.count_timeout("connection");
        metrics.count_stalled(StalledCounts { requests: 2, responses: 0 });
        metrics.count_stalled(StalledCounts { requests: 0, responses: 3 });

        let counts = [("handshake", 1), ("connection", 1), ("request", 2), ("response", 3)];
        let lines = counts.map(|(what, count)| format!("{{what=\"{what}\"}} {count}"));
        assert_exported(&registry, "edge_server_drops_total", &lines);
    }
}
