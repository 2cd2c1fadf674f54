//! Counters of connections by their state of ECN.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use quiche::ecn::EcnState;

/// State of connections that do not mark.
const OFF: &str = "off";

/// The counters, shared by the workers.
#[derive(Clone, Default)]
pub struct EcnMetrics(Family<StateLabels, Counter>);

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StateLabels {
    state: &'static str,
}

impl EcnMetrics {
    /// Registers the counters.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let help = "Connections that ended, by the state of ECN on their path";
        registry.register("edge_server_ecn_connections", help, metrics.0.clone());
        for state in std::iter::once(None).chain(EcnState::ALL.map(Some)) {
            drop(metrics.of(state));
        }
        metrics
    }

    /// Counts a connection that ends, with the state of its path, or none if it does not mark.
    pub fn count(&self, state: Option<EcnState>) {
        self.of(state).inc();
    }

    fn of(&self, state: Option<EcnState>) -> Counter {
        let state = state.map_or(OFF, EcnState::name);
        self.0.get_or_create_owned(&StateLabels { state })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::tests::assert_exported;

    #[test]
    fn connections_are_counted_by_state() {
        let mut registry = Registry::default();
        let metrics = EcnMetrics::register(&mut registry);
        for state in [None, Some(EcnState::Capable), Some(EcnState::Capable)] {
            metrics.count(state);
        }
        let line = |(state, count)| format!("{{state=\"{state}\"}} {count}");
        let counts = [("off", 1), ("testing", 0), ("unknown", 0), ("failed", 0), ("capable", 2)];
        assert_exported(&registry, "edge_server_ecn_connections_total", &counts.map(line));
    }
}
