//! Compression of files in the background, read at each scrape.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::content::compression::counts;
use crate::telemetry::metrics::collected::encode;

/// Collector of the counts of all hosts.
#[derive(Debug)]
pub struct CompressionCollector;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CompressionLabels {
    result: &'static str,
}

impl Collector for CompressionCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let family = Family::<CompressionLabels, Counter>::default();
        for (result, count) in counts::results() {
            family.get_or_create(&CompressionLabels { result }).inc_by(count);
        }
        let help = "Files that were to be compressed, by what came of it";
        encode(&mut encoder, "edge_server_compressions", help, &family)?;
        let (input, output) = counts::bytes();
        let help = "Bytes of files that were compressed";
        let name = "edge_server_compression_input_bytes";
        encode(&mut encoder, name, help, &ConstCounter::new(input))?;
        let help = "Bytes that they were compressed to";
        let name = "edge_server_compression_output_bytes";
        encode(&mut encoder, name, help, &ConstCounter::new(output))?;
        let help = "Bytes of compressed variants in memory";
        let name = "edge_server_compression_variant_bytes";
        encode(&mut encoder, name, help, &ConstGauge::new(counts::held_bytes() as i64))
    }
}
