//! Requests that access rules refused, and responses that they delayed, read at each scrape.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use crate::content::access::refusal;
use crate::http::response_rate;
use crate::telemetry::metrics::collected::encode;

/// Collector of the counts of all hosts.
#[derive(Debug)]
pub struct AccessCollector;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AccessLabels {
    reason: &'static str,
}

impl Collector for AccessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let family = Family::<AccessLabels, Counter>::default();
        for (reason, count) in refusal::counts() {
            family.get_or_create(&AccessLabels { reason }).inc_by(count);
        }
        let help = "Requests refused by the access rules of hosts";
        encode(&mut encoder, "edge_server_access_refusals", help, &family)?;
        let delayed = Counter::<u64>::default();
        delayed.inc_by(response_rate::delayed_responses());
        let help = "Responses that waited for the rate of their client";
        encode(&mut encoder, "edge_server_access_delayed_responses", help, &delayed)
    }
}
