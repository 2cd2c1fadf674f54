//! Histograms of what paths carry, apart for connections that jumped: RTT, congestion window and
//! goodput.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::http::exchange::FinishedRequest;

/// Buckets of RTTs, in seconds: geostationary satellites are between 500 and 800 ms.
const RTT_BUCKETS_S: [f64; 12] =
    [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.2, 2.5];

/// Buckets of windows, in bytes: an initial window and its doublings, up to 64 MiB.
const WINDOW_BUCKETS_BYTES: [f64; 13] = [
    16_384.0,
    32_768.0,
    65_536.0,
    131_072.0,
    262_144.0,
    524_288.0,
    1_048_576.0,
    2_097_152.0,
    4_194_304.0,
    8_388_608.0,
    16_777_216.0,
    33_554_432.0,
    67_108_864.0,
];

/// Buckets of goodput, in bytes a second: 0.1 Mbit/s to 1 Gbit/s.
const GOODPUT_BUCKETS: [f64; 12] =
    [12.5e3, 62.5e3, 125e3, 312.5e3, 625e3, 1.25e6, 2.5e6, 6.25e6, 12.5e6, 31.25e6, 62.5e6, 125e6];

/// Shortest body that counts for goodput, in bytes. Shorter ones tell the RTT.
const GOODPUT_BYTES_MIN: u64 = 100_000;

/// The histograms, shared by the workers.
#[derive(Clone)]
pub struct PathMetrics {
    /// Those of connections that jumped come second.
    by_jump: [PathHistograms; 2],
}

#[derive(Clone)]
struct PathHistograms {
    rtt_s: Histogram,
    window_bytes: Histogram,
    goodput: Histogram,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct JumpLabels {
    jumped: &'static str,
}

type Histograms = Family<JumpLabels, Histogram, fn() -> Histogram>;

impl PathMetrics {
    /// Registers the histograms, with both values of their label.
    pub fn register(registry: &mut Registry) -> Self {
        let rtts = Histograms::new_with_constructor(|| Histogram::new(RTT_BUCKETS_S));
        let windows = Histograms::new_with_constructor(|| Histogram::new(WINDOW_BUCKETS_BYTES));
        let goodputs = Histograms::new_with_constructor(|| Histogram::new(GOODPUT_BUCKETS));
        registry.register(
            "edge_server_connection_rtt_seconds",
            "Smallest RTT of connections that ended, in seconds",
            rtts.clone(),
        );
        registry.register(
            "edge_server_connection_window_bytes",
            "Congestion window of connections that ended, in bytes",
            windows.clone(),
        );
        registry.register(
            "edge_server_response_goodput_bytes_per_second",
            "Rate of complete responses of at least 100 kB, in bytes per second",
            goodputs.clone(),
        );
        let by_jump = ["false", "true"].map(|jumped| {
            let labels = JumpLabels { jumped };
            PathHistograms {
                rtt_s: rtts.get_or_create_owned(&labels),
                window_bytes: windows.get_or_create_owned(&labels),
                goodput: goodputs.get_or_create_owned(&labels),
            }
        });
        Self { by_jump }
    }

    /// Observes the path of a connection that ends.
    pub fn observe_path(&self, jumped: bool, min_rtt: Option<Duration>, window_bytes: usize) {
        let histograms = &self.by_jump[usize::from(jumped)];
        if let Some(min_rtt) = min_rtt {
            histograms.rtt_s.observe(min_rtt.as_secs_f64());
        }
        histograms.window_bytes.observe(window_bytes as f64);
    }

    /// Observes the goodput of a response that ends.
    pub fn observe_response(&self, jumped: bool, request: &FinishedRequest) {
        let duration_s = request.duration.as_secs_f64();
        if request.complete && request.bytes >= GOODPUT_BYTES_MIN && duration_s > 0.0 {
            let goodput = request.bytes as f64 / duration_s;
            self.by_jump[usize::from(jumped)].goodput.observe(goodput);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::exchange::tests::finished;
    use crate::telemetry::metrics::tests::assert_exported;

    #[test]
    fn paths_and_goodput_are_observed_apart_for_jumps() {
        let mut registry = Registry::default();
        let paths = PathMetrics::register(&mut registry);
        let request = |bytes, complete| FinishedRequest {
            duration: Duration::from_secs(2),
            bytes,
            complete,
            ..finished()
        };
        paths.observe_path(true, Some(Duration::from_millis(550)), 3_000_000);
        paths.observe_path(false, None, 20_000);
        paths.observe_response(true, &request(1_000_000, true));
        paths.observe_response(false, &request(1_000_000, false));
        paths.observe_response(false, &request(99_999, true));

        let lines = [
            "connection_rtt_seconds_bucket{le=\"0.4\",jumped=\"true\"} 0",
            "connection_rtt_seconds_bucket{le=\"0.6\",jumped=\"true\"} 1",
            "connection_rtt_seconds_count{jumped=\"false\"} 0",
            "connection_window_bytes_bucket{le=\"2097152.0\",jumped=\"true\"} 0",
            "connection_window_bytes_bucket{le=\"4194304.0\",jumped=\"true\"} 1",
            "connection_window_bytes_count{jumped=\"false\"} 1",
            "response_goodput_bytes_per_second_sum{jumped=\"true\"} 500000.0",
            "response_goodput_bytes_per_second_count{jumped=\"false\"} 0",
        ];
        assert_exported(&registry, "edge_server_", &lines);
    }
}
