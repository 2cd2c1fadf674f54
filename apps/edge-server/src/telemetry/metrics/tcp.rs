//! Counters of the TCP side.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::admission::connection_limits::Limit;
use crate::http::exchange::FinishedRequest;
use crate::http::exchange::Protocol;
use crate::quic::client_certificate::RefusalReason;
use crate::telemetry::metrics::client_certificates::CertificateRefusals;
use crate::telemetry::metrics::responses::ResponseMetrics;

/// Limits of which TCP connections are refused.
const LIMITS: [Limit; 3] = [Limit::Connections, Limit::Subnet, Limit::Rate];

/// The counters, shared by all connections.
#[derive(Clone)]
pub struct TcpMetrics {
    connections: Counter,
    connections_now: Gauge,
    handshake_failures: Counter,
    certificate_refusals: CertificateRefusals,
    refused: Family<TcpLimitLabels, Counter>,
    replaced: Counter,
    responses: ResponseMetrics,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TcpLimitLabels {
    limit: &'static str,
}

/// Count of an open connection, until it is dropped.
pub struct OpenConnection(Gauge);

impl TcpMetrics {
    /// Registers the counters. Responses and refused certificates are counted with those of QUIC.
    pub fn register(
        registry: &mut Registry,
        responses: ResponseMetrics,
        certificate_refusals: CertificateRefusals,
    ) -> Self {
        let metrics = Self {
            connections: Counter::default(),
            connections_now: Gauge::default(),
            handshake_failures: Counter::default(),
            certificate_refusals,
            refused: Family::default(),
            replaced: Counter::default(),
            responses,
        };
        registry.register(
            "edge_server_tcp_connections",
            "TCP connections accepted for HTTPS",
            metrics.connections.clone(),
        );
        registry.register(
            "edge_server_tcp_connections_open",
            "TCP connections open now",
            metrics.connections_now.clone(),
        );
        registry.register(
            "edge_server_tcp_handshake_failures",
            "TLS handshakes over TCP that failed or timed out",
            metrics.handshake_failures.clone(),
        );
        registry.register(
            "edge_server_tcp_refused",
            "TCP connections closed at once, by the limit that was reached",
            metrics.refused.clone(),
        );
        registry.register(
            "edge_server_tcp_replaced",
            "Idle TCP connections closed because another client needed their place",
            metrics.replaced.clone(),
        );
        for limit in LIMITS {
            drop(metrics.refused.get_or_create(&TcpLimitLabels { limit: limit.name() }));
        }
        metrics
    }

    /// Starts the counters of responses at 0.
    pub fn start(&self) {
        for protocol in [Protocol::Http11, Protocol::Http2] {
            self.responses.start(protocol);
        }
    }

    /// Counts a connection, which is open until the result is dropped.
    pub fn count_connection(&self) -> OpenConnection {
        self.connections.inc();
        self.connections_now.inc();
        OpenConnection(self.connections_now.clone())
    }

    /// Counts a handshake that failed.
    pub fn count_handshake_failure(&self) {
        self.handshake_failures.inc();
    }

    /// Counts a client that was refused for its certificate.
    pub fn count_certificate_refusal(&self, reason: RefusalReason) {
        self.certificate_refusals.count(reason);
    }

    /// Counts a connection that was refused.
    pub fn count_refusal(&self, limit: Limit) {
        self.refused.get_or_create(&TcpLimitLabels { limit: limit.name() }).inc();
    }

    /// Counts an idle connection that made room for another.
    pub fn count_replaced(&self) {
        self.replaced.inc();
    }

    /// Counts a response.
    pub fn count_response(&self, request: &FinishedRequest) {
        self.responses.count(request);
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}
