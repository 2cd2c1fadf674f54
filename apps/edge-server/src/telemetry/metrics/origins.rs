//! Requests that were forwarded to origins, read at each scrape.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use crate::content::origin::error;
use crate::content::origin::upstream;
use crate::telemetry::metrics::collected::encode;

/// Collector of the counts of all hosts.
#[derive(Debug)]
pub struct OriginCollector;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OriginLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct UpstreamLabels {
    upstream: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct HealthLabels {
    upstream: String,
}

impl Collector for OriginCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let family = Family::<OriginLabels, Counter>::default();
        for (outcome, count) in error::counts() {
            family.get_or_create(&OriginLabels { outcome }).inc_by(count);
        }
        let help = "Requests for origins, by how they ended";
        encode(&mut encoder, "edge_server_origin_requests", help, &family)?;
        encode_upstreams(&mut encoder)
    }
}

/// Adds the metrics of each upstream. Its requests are attempts: a request may have several.
fn encode_upstreams(encoder: &mut DescriptorEncoder) -> Result<(), std::fmt::Error> {
    let requests = Family::<UpstreamLabels, Counter>::default();
    let healthy = Family::<HealthLabels, Gauge>::default();
    for report in upstream::reports() {
        let upstream = report.url.to_string();
        for (outcome, count) in report.outcomes {
            let labels = UpstreamLabels { upstream: upstream.clone(), outcome };
            requests.get_or_create(&labels).inc_by(count);
        }
        if let Some(is_healthy) = report.is_healthy {
            healthy.get_or_create(&HealthLabels { upstream }).set(is_healthy.into());
        }
    }
    let help = "Attempts at upstreams of origins, by how they ended";
    encode(encoder, "edge_server_origin_upstream_requests", help, &requests)?;
    let help = "Whether requests are sent to an upstream";
    encode(encoder, "edge_server_origin_upstream_healthy", help, &healthy)
}
