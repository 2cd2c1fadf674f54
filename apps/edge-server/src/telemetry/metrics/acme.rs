//! Metrics of certificates that come by ACME.

use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::telemetry::metrics::collected::unix_seconds;

/// The metrics.
#[derive(Clone, Debug, Default)]
pub struct AcmeMetrics {
    orders: Family<OrderLabels, Counter>,
    renewal_s: Family<RenewalLabels, Gauge<f64, AtomicU64>>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OrderLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RenewalLabels {
    host: String,
}

impl AcmeMetrics {
    /// Registers the metrics.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "edge_server_acme_orders",
            "Certificates that this server ordered by ACME, by outcome",
            metrics.orders.clone(),
        );
        registry.register(
            "edge_server_acme_renewal_timestamp_seconds",
            "Time from which a host's certificate is to be renewed, in seconds since 1970",
            metrics.renewal_s.clone(),
        );
        for outcome in ["succeeded", "failed"] {
            drop(metrics.orders.get_or_create(&OrderLabels { outcome }));
        }
        metrics
    }

    /// Counts an order.
    pub fn on_order(&self, succeeded: bool) {
        let outcome = if succeeded { "succeeded" } else { "failed" };
        self.orders.get_or_create(&OrderLabels { outcome }).inc();
    }

    /// Sets when the certificate of a host is to be renewed.
    pub fn set_renewal(&self, host: &str, at: SystemTime) {
        let labels = RenewalLabels { host: host.to_owned() };
        self.renewal_s.get_or_create(&labels).set(unix_seconds(at));
    }

    /// Forgets all hosts.
    pub fn clear_renewals(&self) {
        self.renewal_s.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::tests::page_of;
    use std::time::Duration;
    use std::time::UNIX_EPOCH;

    #[test]
    fn orders_and_renewals_are_exported() {
        let mut registry = Registry::default();
        let metrics = AcmeMetrics::register(&mut registry);
        metrics.set_renewal("gone.example", UNIX_EPOCH);
        metrics.clear_renewals();
        metrics.set_renewal("a.example", UNIX_EPOCH + Duration::from_secs(5));
        metrics.on_order(false);
        let page = page_of(&registry);
        for line in [
            "edge_server_acme_orders_total{outcome=\"succeeded\"} 0",
            "edge_server_acme_orders_total{outcome=\"failed\"} 1",
            "edge_server_acme_renewal_timestamp_seconds{host=\"a.example\"} 5.0",
        ] {
            assert!(page.contains(line), "{line}: {page}");
        }
        assert!(!page.contains("gone.example"), "{page}");
    }
}
