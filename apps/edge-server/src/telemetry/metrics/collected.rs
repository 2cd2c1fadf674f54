//! Encoding of metrics that a collector reads at each scrape.

use std::fmt;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::EncodeMetric;

/// Encodes a metric.
pub fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    metric: &impl EncodeMetric,
) -> Result<(), fmt::Error> {
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

/// Returns a time in seconds since 1970, as Prometheus has it.
pub fn unix_seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
