//! Requests that were forwarded to origins, read at each scrape.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use crate::content::origin::error;
use crate::telemetry::metrics::collected::encode;

/// Collector of the counts of all hosts.
#[derive(Debug)]
pub struct OriginCollector;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OriginLabels {
    outcome: &'static str,
}

impl Collector for OriginCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let family = Family::<OriginLabels, Counter>::default();
        for (outcome, count) in error::counts() {
            family.get_or_create(&OriginLabels { outcome }).inc_by(count);
        }
        let help = "Requests for origins, by how they ended";
        encode(&mut encoder, "edge_server_origin_requests", help, &family)
    }
}
