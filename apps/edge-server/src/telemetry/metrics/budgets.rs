//! Budgets of all workers, read at each scrape.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::gauge::Gauge;

use crate::admission::budgets::Budgets;
use crate::admission::budgets::Resource;
use crate::telemetry::metrics::collected::encode;
use crate::telemetry::qlog::budget::QlogBudget;

/// Collector of what connections and qlogs keep.
pub struct BudgetCollector {
    pub budgets: Budgets,
    pub qlogs: QlogBudget,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BudgetLabels {
    what: &'static str,
}

impl std::fmt::Debug for BudgetCollector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BudgetCollector").finish_non_exhaustive()
    }
}

impl Collector for BudgetCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let (used, limits) = (Family::<_, Gauge>::default(), Family::<_, Gauge>::default());
        let evictions = Family::<_, Counter>::default();
        for resource in Resource::ALL {
            let labels = BudgetLabels { what: resource.name() };
            evictions.get_or_create(&labels).inc_by(self.budgets.evictions(resource));
            if resource != Resource::Files {
                used.get_or_create(&labels).set(signed(self.budgets.used(resource)));
                limits.get_or_create(&labels).set(signed(self.budgets.limit(resource)));
            }
        }
        let Self { budgets, qlogs } = self;
        qlogs.refresh();
        let files = [budgets.used(Resource::Files), budgets.limit(Resource::Files)];
        let counts = [
            ("edge_server_files_open", "Files that responses have open", files[0]),
            ("edge_server_files_open_max", "Files that responses may have open", files[1]),
            ("edge_server_qlog_bytes", "Bytes of all qlogs", qlogs.bytes()),
            ("edge_server_qlog_bytes_max", "Bytes that all qlogs may have", qlogs.bytes_max()),
            ("edge_server_qlog_files", "Qlogs in the folder", qlogs.files()),
            ("edge_server_qlog_files_max", "Qlogs that the folder may have", qlogs.files_max()),
        ];
        for (name, help, count) in counts {
            encode(&mut encoder, name, help, &ConstGauge::new(signed(count)))?;
        }
        evictions
            .get_or_create(&BudgetLabels { what: "connections" })
            .inc_by(self.budgets.replacements());
        let gauges = [
            ("edge_server_kept_bytes", "Bytes kept for clients, all connections together", used),
            ("edge_server_kept_bytes_max", "Bytes that may be kept for clients", limits),
        ];
        for (name, help, family) in gauges {
            encode(&mut encoder, name, help, &family)?;
        }
        let (name, help) = ("edge_server_qlog_dropped", "Qlogs not begun, or ended early");
        encode(&mut encoder, name, help, &ConstCounter::new(qlogs.dropped()))?;
        let help = "Connections closed to make room for others";
        encode(&mut encoder, "edge_server_evictions", help, &evictions)
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::budgets::tests::account;
    use crate::admission::budgets::Charge;
    use crate::config::limits::tests::limits;
    use crate::telemetry::metrics::tests::assert_exported;
    use prometheus_client::registry::Registry;

    #[test]
    fn budgets_are_exported_with_their_limits() {
        let budgets = Budgets::default();
        let worker = budgets.of_worker(|| ());
        worker.set_limits(&limits(&["--requests-memory-max", "3000000", "--open-files-max", "90"]));
        worker.charge(0, &mut account("192.0.2.1", true), Charge::new(70, 7, 5));
        worker.count_eviction(Resource::Responses);
        worker.count_replacement();
        let mut registry = Registry::default();
        let qlogs = QlogBudget::default();
        qlogs.set_limits(3000, 30);
        assert!(qlogs.try_create() && qlogs.try_write(0, 100));
        registry.register_collector(Box::new(BudgetCollector { budgets, qlogs }));

        let lines = [
            "kept_bytes{what=\"responses\"} 70",
            "kept_bytes{what=\"requests\"} 7",
            "kept_bytes_max{what=\"responses\"} 1073741824",
            "kept_bytes_max{what=\"requests\"} 3000000",
            "files_open 5",
            "files_open_max 90",
            "qlog_bytes 100",
            "qlog_bytes_max 3000",
            "qlog_files 1",
            "qlog_files_max 30",
            "qlog_dropped_total 0",
            "evictions_total{what=\"files\"} 0",
            "evictions_total{what=\"responses\"} 1",
            "evictions_total{what=\"requests\"} 0",
            "evictions_total{what=\"connections\"} 1",
        ];
        assert_exported(&registry, "edge_server_", &lines);
    }
}
