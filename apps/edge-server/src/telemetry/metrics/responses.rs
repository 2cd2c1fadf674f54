//! Counters and times of responses, each counted when it ends.

use std::cell::RefCell;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::http::exchange::FinishedRequest;
use crate::http::exchange::Protocol;

/// Buckets of the time to the first byte, in seconds: what the server itself takes.
const FIRST_BYTE_BUCKETS_S: [f64; 10] =
    [100e-6, 500e-6, 1e-3, 5e-3, 10e-3, 50e-3, 100e-3, 500e-3, 1.0, 5.0];

/// Buckets of durations, in seconds.
const DURATION_BUCKETS_S: [f64; 15] =
    [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// Statuses of responses to requests that the server can answer. Their counters start at 0, so that
/// `increase()` sees the first event.
const STATUSES: [u16; 24] = [
    200, 204, 206, 301, 304, 308, 400, 401, 403, 404, 405, 410, 412, 413, 414, 416, 421, 425, 429,
    431, 499, 500, 501, 503,
];

/// Counters shared by the workers.
#[derive(Clone)]
pub struct ResponseMetrics {
    responses: Family<ResponseLabels, Counter>,
    bytes: Counter,
    first_byte_s: Family<ProtocolLabels, Histogram, fn() -> Histogram>,
    duration_s: Histogram,
}

/// The counters of a worker.
#[derive(Clone)]
pub struct ResponseCounters {
    shared: ResponseMetrics,
    first_byte_s: Histogram,

    /// Cache of used counters: the family locks on each access.
    cached: RefCell<Vec<(ResponseLabels, Counter)>>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResponseLabels {
    protocol: &'static str,
    status: u16,
    complete: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ProtocolLabels {
    protocol: &'static str,
}

impl Default for ResponseMetrics {
    fn default() -> Self {
        Self {
            responses: Family::default(),
            bytes: Counter::default(),
            first_byte_s: Family::new_with_constructor(|| Histogram::new(FIRST_BYTE_BUCKETS_S)),
            duration_s: Histogram::new(DURATION_BUCKETS_S),
        }
    }
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
        registry.register(
            "edge_server_response_first_byte_seconds",
            "Time from a request to the first byte of its response in the transport",
            metrics.first_byte_s.clone(),
        );
        registry.register(
            "edge_server_response_duration_seconds",
            "Time from a request to the acknowledgement of its complete response",
            metrics.duration_s.clone(),
        );
        metrics.start(Protocol::Http3);
        metrics
    }

    /// Starts the counters of a protocol at 0.
    pub fn start(&self, protocol: Protocol) {
        drop(self.first_byte_s(protocol));
        let protocol = protocol.name();
        for status in STATUSES {
            for complete in ["true", "false"] {
                let labels = ResponseLabels { protocol, status, complete };
                drop(self.responses.get_or_create(&labels));
            }
        }
    }

    /// Counts a response.
    pub fn count(&self, request: &FinishedRequest) {
        self.responses.get_or_create(&ResponseLabels::of(request)).inc();
        self.observe(request, &self.first_byte_s(request.protocol));
    }

    fn first_byte_s(&self, protocol: Protocol) -> Histogram {
        let labels = ProtocolLabels { protocol: protocol.name() };
        self.first_byte_s.get_or_create(&labels).clone()
    }

    fn observe(&self, request: &FinishedRequest, first_byte_s: &Histogram) {
        self.bytes.inc_by(request.bytes);
        if let Some(first_byte) = request.first_byte {
            first_byte_s.observe(first_byte.as_secs_f64());
        }
        if request.complete {
            self.duration_s.observe(request.duration.as_secs_f64());
        }
    }

    /// Returns the counters of one more worker, whose responses go out over HTTP/3.
    pub fn of_worker(&self) -> ResponseCounters {
        let first_byte_s = self.first_byte_s(Protocol::Http3);
        ResponseCounters { shared: self.clone(), first_byte_s, cached: RefCell::default() }
    }
}

impl ResponseCounters {
    /// Counts a response.
    pub fn count(&self, request: &FinishedRequest) {
        let labels = ResponseLabels::of(request);
        let mut cached = self.cached.borrow_mut();
        if let Some((_, counter)) = cached.iter().find(|(own, _)| *own == labels) {
            counter.inc();
        } else {
            let counter = self.shared.responses.get_or_create(&labels).clone();
            counter.inc();
            cached.push((labels, counter));
        }
        self.shared.observe(request, &self.first_byte_s);
    }
}

impl ResponseLabels {
    fn of(request: &FinishedRequest) -> Self {
        Self {
            protocol: request.protocol.name(),
            status: request.status,
            complete: if request.complete { "true" } else { "false" },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::exchange::tests::finished;
    use crate::telemetry::metrics::tests::assert_exported;
    use std::time::Duration;

    #[test]
    fn responses_are_counted_by_status() {
        let mut registry = Registry::default();
        let shared = ResponseMetrics::register(&mut registry);
        let workers = [shared.of_worker(), shared.of_worker()];
        let request = |(status, complete)| FinishedRequest {
            duration: Duration::from_millis(300),
            first_byte: Some(Duration::from_millis(2)),
            status,
            bytes: 10,
            complete,
            ..finished()
        };
        for worker in &workers {
            for outcome in [(200, true), (200, false), (404, true), (200, true)] {
                worker.count(&request(outcome));
            }
        }
        let count = |status, complete| {
            let protocol = Protocol::Http3.name();
            shared.responses.get_or_create(&ResponseLabels { protocol, status, complete }).get()
        };
        let counts = [count(200, "true"), count(200, "false"), count(404, "true")];
        assert_eq!((counts, shared.bytes.get()), ([4, 2, 2], 80));

        let lines = [
            "responses_total{protocol=\"HTTP/3\",status=\"503\",complete=\"true\"} 0",
            "response_first_byte_seconds_bucket{le=\"0.001\",protocol=\"HTTP/3\"} 0",
            "response_first_byte_seconds_bucket{le=\"0.005\",protocol=\"HTTP/3\"} 8",
            "response_duration_seconds_bucket{le=\"0.25\"} 0",
            "response_duration_seconds_bucket{le=\"0.5\"} 6",
        ];
        assert_exported(&registry, "edge_server_", &lines);
    }
}
