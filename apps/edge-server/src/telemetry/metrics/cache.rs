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

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct WriteFailureLabels {
    reason: &'static str,
}

impl Collector for CacheCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let family = counted(counts::results(), |result| CacheLabels { result });
        let help = "Requests for paths whose responses are kept, by what came of them";
        encode(&mut encoder, "edge_server_cache_requests", help, &family)?;
        let help = "URLs whose responses made room for others";
        let evictions = ConstCounter::new(counts::evictions());
        encode(&mut encoder, "edge_server_cache_evictions", help, &evictions)?;
        let slices = counted(counts::slices(), |result| CacheLabels { result });
        let help = "Slices of long responses, by whether they were there";
        encode(&mut encoder, "edge_server_cache_slices", help, &slices)?;
        encode_disk(&mut encoder)?;
        let help = "Bytes of responses of origins in memory";
        let held = counts::held().load(Ordering::Relaxed);
        encode(&mut encoder, "edge_server_cache_bytes", help, &ConstGauge::new(held as i64))
    }
}

/// Adds the metrics of the folder.
fn encode_disk(encoder: &mut DescriptorEncoder) -> Result<(), std::fmt::Error> {
    let (files, bytes) = counts::disk();
    let help = "Files of responses of origins on disk";
    encode(encoder, "edge_server_cache_disk_files", help, &ConstGauge::new(files as i64))?;
    let help = "Bytes of responses of origins on disk";
    encode(encoder, "edge_server_cache_disk_bytes", help, &ConstGauge::new(bytes as i64))?;
    let help = "Responses and slices that were read from disk for requests";
    let hits = ConstCounter::new(counts::disk_hits());
    encode(encoder, "edge_server_cache_disk_hits", help, &hits)?;
    let failures = counted(counts::write_failures(), |reason| WriteFailureLabels { reason });
    let help = "Responses and slices that were to be written to disk, and were not";
    encode(encoder, "edge_server_cache_disk_write_failures", help, &failures)
}

/// Returns the counters of named counts.
fn counted<L>(
    counts: impl Iterator<Item = (&'static str, u64)>,
    labels: impl Fn(&'static str) -> L,
) -> Family<L, Counter>
where
    L: Clone + std::hash::Hash + Eq,
{
    let family = Family::<L, Counter>::default();
    for (name, count) in counts {
        family.get_or_create(&labels(name)).inc_by(count);
    }
    family
}
