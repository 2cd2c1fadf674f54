//! Responses, counted when they end.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::http::exchanges::Ended;

/// The counters, shared by the workers.
#[derive(Clone, Default)]
pub struct ResponseMetrics {
    responses: Family<Labels, Counter>,
    bytes: Counter,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    status: u16,
    complete: &'static str,
}

impl ResponseMetrics {
    /// All at nothing, and part of what `registry` tells.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "edge_server_responses",
            "Responses that ended, and whether the client has all of them",
            metrics.responses.clone(),
        );
        registry.register(
            "edge_server_response_bytes",
            "Bytes of bodies in responses that ended",
            metrics.bytes.clone(),
        );
        metrics
    }

    /// A response has ended.
    pub fn count(&self, ended: &Ended) {
        let complete = if ended.complete { "true" } else { "false" };
        self.responses.get_or_create(&Labels { status: ended.status, complete }).inc();
        self.bytes.inc_by(ended.bytes);
    }
}
