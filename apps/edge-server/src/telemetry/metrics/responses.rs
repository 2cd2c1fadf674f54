//! Responses, counted when they end.

use std::cell::RefCell;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use crate::h3::exchanges::FinishedRequest;

/// What the workers share.
#[derive(Clone, Default)]
pub struct ResponseMetrics {
    responses: Family<Labels, Counter>,
    bytes: Counter,
}

/// The counters of a worker.
#[derive(Clone)]
pub struct ResponseCounters {
    shared: ResponseMetrics,

    /// Those that it has used: the others are behind a lock.
    used: RefCell<Vec<(Labels, Counter)>>,
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
            "Responses that ended, and whether the client received all of them",
            metrics.responses.clone(),
        );
        registry.register(
            "edge_server_response_bytes",
            "Bytes of bodies in responses that ended",
            metrics.bytes.clone(),
        );
        metrics
    }

    /// Counters for one more worker.
    pub fn of_worker(&self) -> ResponseCounters {
        ResponseCounters { shared: self.clone(), used: RefCell::default() }
    }
}

impl ResponseCounters {
    /// A response has ended.
    pub fn count(&self, ended: &FinishedRequest) {
        let complete = if ended.complete { "true" } else { "false" };
        let labels = Labels { status: ended.status, complete };
        let mut used = self.used.borrow_mut();
        if let Some((_, counter)) = used.iter().find(|(own, _)| *own == labels) {
            counter.inc();
        } else {
            let counter = self.shared.responses.get_or_create(&labels).clone();
            counter.inc();
            used.push((labels, counter));
        }
        self.shared.bytes.inc_by(ended.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h3::exchanges::RequestSummary;
    use std::time::Duration;
    use std::time::UNIX_EPOCH;

    #[test]
    fn each_outcome_has_its_counter_whichever_worker_counts() {
        let shared = ResponseMetrics::default();
        let workers = [shared.of_worker(), shared.of_worker()];
        let ended = |(status, complete)| FinishedRequest {
            asked: RequestSummary::default(),
            begun: UNIX_EPOCH,
            duration: Duration::ZERO,
            status,
            bytes: 10,
            complete,
        };
        for worker in &workers {
            for outcome in [(200, true), (200, false), (404, true), (200, true)] {
                worker.count(&ended(outcome));
            }
        }
        let count =
            |status, complete| shared.responses.get_or_create(&Labels { status, complete }).get();
        let counts = [count(200, "true"), count(200, "false"), count(404, "true")];
        assert_eq!((counts, shared.bytes.get()), ([4, 2, 2], 80));
    }
}
