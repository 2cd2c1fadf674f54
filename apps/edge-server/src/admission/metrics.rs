//! Counters of admission: Retry packets, refusals, handshakes, tokens.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::admission::reason::Refusal;
use crate::admission::reason::RetryReason;
use crate::quic::token::TokenError;
use crate::quic::token::TokenKind;

/// The counters, shared by the workers.
#[derive(Clone, Default)]
pub struct AdmissionMetrics {
    retries: Family<AdmissionReasonLabels, Counter>,
    refusals: Family<AdmissionReasonLabels, Counter>,
    resets: Counter,
    handshakes: Family<HandshakeLabels, Counter>,
    tokens: Family<TokenLabels, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct TokenLabels {
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct AdmissionReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct HandshakeLabels {
    outcome: &'static str,
}

impl AdmissionMetrics {
    /// Returns counters at 0, registered with `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let (retries, resets) = (metrics.retries.clone(), metrics.resets.clone());
        registry.register("edge_server_retries", "Retry packets sent", retries);
        registry.register("edge_server_stateless_resets", "Stateless resets sent", resets);
        let (refusals, handshakes) = (metrics.refusals.clone(), metrics.handshakes.clone());
        registry.register(
            "edge_server_refusals",
            "Connections refused before their handshake",
            refusals,
        );
        registry.register("edge_server_handshakes", "Handshakes that ended", handshakes);
        registry.register(
            "edge_server_tokens",
            "Address-validation tokens received, by kind and validity",
            metrics.tokens.clone(),
        );
        metrics.start_at_zero();
        metrics
    }

    /// Creates every counter, so that `increase()` sees the first event.
    fn start_at_zero(&self) {
        for reason in RetryReason::ALL {
            self.retry(reason);
        }
        for refusal in Refusal::ALL {
            self.refusal(refusal);
        }
        for completed in [true, false] {
            self.handshake(completed);
        }
        self.token(None, Some(TokenError::Unknown));
        for kind in [TokenKind::Retry, TokenKind::NewToken] {
            for error in TokenError::ALL.map(Some).into_iter().chain([None]) {
                self.token(Some(kind), error);
            }
        }
    }

    pub fn count_retry(&self, reason: RetryReason) {
        self.retry(reason).inc();
    }

    fn retry(&self, reason: RetryReason) -> Counter {
        self.retries.get_or_create_owned(&AdmissionReasonLabels { reason: reason.name() })
    }

    pub fn count_refusal(&self, refusal: Refusal) {
        self.refusal(refusal).inc();
    }

    fn refusal(&self, refusal: Refusal) -> Counter {
        self.refusals.get_or_create_owned(&AdmissionReasonLabels { reason: refusal.name() })
    }

    /// Counts a handshake that has ended, complete or not.
    pub fn count_handshake(&self, completed: bool) {
        self.handshake(completed).inc();
    }

    fn handshake(&self, completed: bool) -> Counter {
        let outcome = if completed { "completed" } else { "failed" };
        self.handshakes.get_or_create_owned(&HandshakeLabels { outcome })
    }

    pub fn count_reset(&self) {
        self.resets.inc();
    }

    /// Counts a token that a client offered, valid unless there is an error.
    pub fn count_token(&self, kind: Option<TokenKind>, error: Option<TokenError>) {
        self.token(kind, error).inc();
    }

    fn token(&self, kind: Option<TokenKind>, error: Option<TokenError>) -> Counter {
        let kind = match kind {
            Some(TokenKind::Retry) => "retry",
            Some(TokenKind::NewToken) => "new_token",
            None => "unknown",
        };
        let outcome = error.map_or("accepted", TokenError::name);
        self.tokens.get_or_create_owned(&TokenLabels { kind, outcome })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::connection_limits::Limit;
    use prometheus_client::encoding::text;

    #[test]
    fn page_has_every_counter() {
        let mut registry = Registry::default();
        let metrics = AdmissionMetrics::register(&mut registry);
        metrics.count_retry(RetryReason::Limit(Limit::Rate));
        metrics.count_reset();
        metrics.count_refusal(Refusal::Draining);
        metrics.count_handshake(true);
        metrics.count_handshake(false);
        metrics.count_token(Some(TokenKind::Retry), None);
        metrics.count_token(Some(TokenKind::NewToken), Some(TokenError::Replayed));
        metrics.count_token(None, Some(TokenError::Unknown));

        let mut page = String::new();
        text::encode(&mut page, &registry).unwrap();
        for line in [
            "edge_server_retries_total{reason=\"rate\"} 1",
            "edge_server_stateless_resets_total 1",
            "edge_server_refusals_total{reason=\"draining\"} 1",
            "edge_server_handshakes_total{outcome=\"completed\"} 1",
            "edge_server_handshakes_total{outcome=\"failed\"} 1",
            "edge_server_tokens_total{kind=\"retry\",outcome=\"accepted\"} 1",
            "edge_server_tokens_total{kind=\"new_token\",outcome=\"replayed\"} 1",
            "edge_server_tokens_total{kind=\"unknown\",outcome=\"unknown\"} 1",
        ] {
            assert!(page.lines().any(|written| written == line), "{line}: {page}");
        }
    }
}
