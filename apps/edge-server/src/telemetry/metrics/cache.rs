//! Cache of the responses of origins, read at each scrape.

use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::content::cache::counts;
use crate::telemetry::metrics::collected::encode;

/// Collector of the counts of all hosts.
#[derive(Debug)]
pub struct CacheCollector;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CacheLabels {
    result: &'static str,
}

impl Collector for CacheCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let family = Family::<CacheLabels, Counter>::default();
        for (result, count) in counts::results() {
            family.get_or_create(&CacheLabels { result }).inc_by(count);
        }
        let help = "Requests for paths whose responses are kept, by what came of them";
        encode(&mut encoder, "edge_server_cache_requests", help, &family)?;
        let help = "URLs whose responses made room for others";
        let evictions = ConstCounter::new(counts::evictions());
        encode(&mut encoder, "edge_server_cache_evictions", help, &evictions)?;
        let help = "Bytes of responses of origins in memory";
        let held = counts::held().load(Ordering::Relaxed);
        encode(&mut encoder, "edge_server_cache_bytes", help, &ConstGauge::new(held as i64))
    }
}
