//! Counters of failed handshakes, by the TLS alert or other reason, and by the endpoint that gave up.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use quiche::ConnectionError;
use quiche::WireErrorCode;

/// First code of TLS alerts among QUIC's errors (RFC 9000, 20.1).
const CRYPTO_ERROR: u64 = 0x100;

/// TLS alerts (RFC 8446, 6; RFC 7301, 3.2; RFC 9849, 11.2) that end a handshake.
const ALERTS: [(u8, &str); 26] = [
    (0, "close_notify"),
    (10, "unexpected_message"),
    (20, "bad_record_mac"),
    (22, "record_overflow"),
    (40, "handshake_failure"),
    (42, "bad_certificate"),
    (43, "unsupported_certificate"),
    (44, "certificate_revoked"),
    (45, "certificate_expired"),
    (46, "certificate_unknown"),
    (47, "illegal_parameter"),
    (48, "unknown_ca"),
    (49, "access_denied"),
    (50, "decode_error"),
    (51, "decrypt_error"),
    (70, "protocol_version"),
    (71, "insufficient_security"),
    (80, "internal_error"),
    (86, "inappropriate_fallback"),
    (90, "user_canceled"),
    (109, "missing_extension"),
    (110, "unsupported_extension"),
    (112, "unrecognized_name"),
    (116, "certificate_required"),
    (120, "no_application_protocol"),
    (121, "ech_required"),
];

/// Reasons besides TLS alerts.
const OTHER_ALERT: &str = "other_alert";
const TRANSPORT_ERROR: &str = "transport_error";
const SHUTDOWN: &str = "shutdown";
const TIMEOUT: &str = "timeout";

const BY_CLIENT: &str = "client";
const BY_SERVER: &str = "server";

/// The counters, shared by the workers.
#[derive(Clone, Default)]
pub struct HandshakeFailures(Family<FailureLabels, Counter>);

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FailureLabels {
    by: &'static str,
    reason: &'static str,
}

impl HandshakeFailures {
    /// Registers the counters, all at 0, so that `increase()` sees the first event.
    pub fn register(registry: &mut Registry) -> Self {
        let failures = Self::default();
        registry.register(
            "edge_server_handshake_failures",
            "Handshakes that failed, by the endpoint that gave up and its TLS alert",
            failures.0.clone(),
        );
        for by in [BY_CLIENT, BY_SERVER] {
            let alerts = ALERTS.map(|(_, alert)| alert);
            for reason in alerts.into_iter().chain([OTHER_ALERT, TRANSPORT_ERROR]) {
                drop(failures.of(by, reason));
            }
        }
        for reason in [TIMEOUT, SHUTDOWN] {
            drop(failures.of(BY_SERVER, reason));
        }
        failures
    }

    /// Counts a handshake that the client ended with an error, or this server, or neither.
    pub fn count(&self, client: Option<&ConnectionError>, server: Option<&ConnectionError>) {
        let (by, reason) = match (client, server) {
            (Some(error), _) => (BY_CLIENT, reason(error)),
            (None, Some(error)) if is_refusal(error) => (BY_SERVER, TIMEOUT),
            (None, Some(error)) => (BY_SERVER, reason(error)),
            (None, None) => (BY_SERVER, TIMEOUT),
        };
        self.of(by, reason).inc();
    }

    fn of(&self, by: &'static str, reason: &'static str) -> Counter {
        self.0.get_or_create_owned(&FailureLabels { by, reason })
    }
}

/// Returns whether the server used up its patience: it closes late handshakes with this code.
fn is_refusal(error: &ConnectionError) -> bool {
    !error.is_app && error.error_code == WireErrorCode::ConnectionRefused as u64
}

fn reason(error: &ConnectionError) -> &'static str {
    if error.is_app || error.error_code == WireErrorCode::NoError as u64 {
        return SHUTDOWN;
    }
    let alert = error.error_code.checked_sub(CRYPTO_ERROR).map(u8::try_from);
    match alert {
        Some(Ok(alert)) => {
            let known = ALERTS.iter().find(|(code, _)| *code == alert);
            known.map_or(OTHER_ALERT, |(_, name)| name)
        }
        _ => TRANSPORT_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::tests::assert_exported;

    #[test]
    fn handshake_failure_is_counted_by_alert() {
        let mut registry = Registry::default();
        let failures = HandshakeFailures::register(&mut registry);
        let error =
            |is_app, error_code| Some(ConnectionError { is_app, error_code, reason: Vec::new() });
        for (client, server) in [
            (error(false, 0x100 + 48), None),
            (error(false, 0x100 + 48), error(false, 0x100 + 40)),
            (None, error(false, 0x100 + 120)),
            (error(false, 0x100 + 200), None),
            (error(false, 0xa), None),
            (error(false, 0x10_000), None),
            (error(true, 0x100), None),
            (None, error(false, 0x2)),
            (None, None),
        ] {
            failures.count(client.as_ref(), server.as_ref());
        }
        let counts = [
            ("client", "unknown_ca", 2),
            ("server", "no_application_protocol", 1),
            ("client", "other_alert", 1),
            ("client", "transport_error", 2),
            ("client", "shutdown", 1),
            ("server", "timeout", 2),
            ("server", "handshake_failure", 0),
            ("server", "shutdown", 0),
        ];
        let line = |(by, reason, count)| format!("{{by=\"{by}\",reason=\"{reason}\"}} {count}");
        let lines = counts.map(line);
        assert_exported(&registry, "edge_server_handshake_failures_total", &lines);
    }
}
