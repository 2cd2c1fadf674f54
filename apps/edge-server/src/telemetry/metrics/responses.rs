//! Counters of responses, which count each when it ends.

use std::cell::RefCell;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::h3::exchanges::FinishedRequest;

/// Counters shared by the workers.
#[derive(Clone, Default)]
pub struct ResponseMetrics {
    responses: Family<ResponseLabels, Counter>,
    bytes: Counter,
}

/// The counters of a worker.
#[derive(Clone)]
pub struct ResponseCounters {
    shared: ResponseMetrics,

    /// Cache of used counters: the family locks on each access.
    cached: RefCell<Vec<(ResponseLabels, Counter)>>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResponseLabels {
    status: u16,
    complete: &'static str,
}

impl ResponseMetrics {
    /// Registers the counters.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "edge_server_responses",
            "Responses that ended, and whether the client received all of them",
            metrics.responses.clone(),
        );
        registry.register(
            "edge_server_response_bytes",
            "Bytes of response bodies",
            metrics.bytes.clone(),
        );
        metrics
    }

    /// Returns the counters of one more worker.
    pub fn of_worker(&self) -> ResponseCounters {
        ResponseCounters { shared: self.clone(), cached: RefCell::default() }
    }
}

impl ResponseCounters {
    /// Counts a response.
    pub fn count(&self, request: &FinishedRequest) {
        let complete = if request.complete { "true" } else { "false" };
        let labels = ResponseLabels { status: request.status, complete };
        let mut cached = self.cached.borrow_mut();
        if let Some((_, counter)) = cached.iter().find(|(own, _)| *own == labels) {
            counter.inc();
        } else {
            let counter = self.shared.responses.get_or_create(&labels).clone();
            counter.inc();
            cached.push((labels, counter));
        }
        self.shared.bytes.inc_by(request.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h3::exchanges::RequestSummary;
    use std::time::Duration;
    use std::time::UNIX_EPOCH;

    #[test]
    fn responses_are_counted_by_status() {
        let shared = ResponseMetrics::default();
        let workers = [shared.of_worker(), shared.of_worker()];
        let finished = |(status, complete)| FinishedRequest {
            summary: RequestSummary::default(),
            started: UNIX_EPOCH,
            duration: Duration::ZERO,
            status,
            bytes: 10,
            complete,
        };
        for worker in &workers {
            for outcome in [(200, true), (200, false), (404, true), (200, true)] {
                worker.count(&finished(outcome));
            }
        }
        let count = |status, complete| {
            shared.responses.get_or_create(&ResponseLabels { status, complete }).get()
        };
        let counts = [count(200, "true"), count(200, "false"), count(404, "true")];
        assert_eq!((counts, shared.bytes.get()), ([4, 2, 2], 80));
    }
}
