//! Counters of connections by what became of their early data.

use boring_sys::ssl_early_data_reason_t as Reason;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

const ACCEPTED: &str = "accepted";

/// The server's limits are not those that the client remembers.
const LIMITS: &str = "limits";

/// Refused for another reason.
const REFUSED: &str = "refused";

/// Accepted, and the handshake was never complete: a replay, or a client that left.
const UNCONFIRMED: &str = "unconfirmed";

/// The client sent none, or it is off.
const NONE: &str = "none";

/// The counters, shared by the workers.
#[derive(Clone, Default)]
pub struct EarlyDataMetrics(Family<ResultLabels, Counter>);

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

impl EarlyDataMetrics {
    /// Registers the counters.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let help = "Connections that ended, by what became of the client's early data";
        registry.register("edge_server_early_data_connections", help, metrics.0.clone());
        for result in [ACCEPTED, UNCONFIRMED, LIMITS, REFUSED, NONE] {
            drop(metrics.of(result));
        }
        metrics
    }

    /// Counts a connection that ends, with the reason that BoringSSL tells.
    pub fn count(&self, reason: u32) {
        self.of(result(Reason(reason))).inc();
    }

    /// Counts a connection whose early data was accepted, and whose handshake has failed.
    pub fn count_unconfirmed(&self) {
        self.of(UNCONFIRMED).inc();
    }

    fn of(&self, result: &'static str) -> Counter {
        self.0.get_or_create_owned(&ResultLabels { result })
    }
}

/// Other reasons tell that the client offered none, or no session that it goes with.
fn result(reason: Reason) -> &'static str {
    match reason {
        Reason::ssl_early_data_accepted => ACCEPTED,
        Reason::ssl_early_data_quic_parameter_mismatch => LIMITS,
        Reason::ssl_early_data_hello_retry_request
        | Reason::ssl_early_data_alpn_mismatch
        | Reason::ssl_early_data_alps_mismatch
        | Reason::ssl_early_data_ticket_age_skew => REFUSED,
        _ => NONE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::tests::assert_exported;

    #[test]
    fn connections_are_counted_by_result() {
        let mut registry = Registry::default();
        let metrics = EarlyDataMetrics::register(&mut registry);
        for reason in [2, 2, 13, 12, 9, 8, 0, 1, 4, 5, 6, 7] {
            metrics.count(reason);
        }
        metrics.count_unconfirmed();
        let line = |(result, count)| format!("{{result=\"{result}\"}} {count}");
        let counts =
            [("accepted", 2), ("unconfirmed", 1), ("limits", 1), ("refused", 3), ("none", 6)];
        assert_exported(&registry, "edge_server_early_data_connections_total", &counts.map(line));
    }
}
