//! Counters of clients that were refused for their certificates, by the reason.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::quic::client_certificate::RefusalReason;

/// The counters, shared by QUIC and TCP.
#[derive(Clone)]
pub struct CertificateRefusals(Family<CertificateReasonLabels, Counter>);

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CertificateReasonLabels {
    reason: &'static str,
}

impl CertificateRefusals {
    /// Registers the counters, all at 0.
    pub fn register(registry: &mut Registry) -> Self {
        let refusals = Self(Family::default());
        registry.register(
            "edge_server_client_certificate_refusals",
            "Clients refused for their certificates, by the reason",
            refusals.0.clone(),
        );
        RefusalReason::ALL.into_iter().for_each(|reason| drop(refusals.of(reason)));
        refusals
    }

    /// Counts a refusal.
    pub fn count(&self, reason: RefusalReason) {
        self.of(reason).inc();
    }

    fn of(&self, reason: RefusalReason) -> Counter {
        self.0.get_or_create_owned(&CertificateReasonLabels { reason: reason.name() })
    }
}
