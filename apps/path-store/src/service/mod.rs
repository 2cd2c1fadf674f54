//! Service of a store to event loops: one thread that may block, and bounded queues.
//!
//! There is a queue of requests, and a queue of answers for each event loop. A callback wakes the
//! event loop that has an answer to read.
//!
//! If a store does not block ([`Backend::blocks()`]), the event loop performs requests itself, and
//! no callback is called: see [`StoreHandle::answers_at_once()`].
//!
//! Only [`StoreService::flush()`] and [`StoreService::close()`] wait for the store. When a queue is
//! full, requests are dropped and counted: a connection can always do without an answer.

mod mailbox;
mod metrics;
mod queue;
mod worker;

use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;

use quiche::path_state::ClaimToken;
use quiche::path_state::PathState;
use quiche::path_state::RemoteEndpoint;

use self::mailbox::release_request;
pub use self::mailbox::Answer;
use self::mailbox::Mailbox;
use self::mailbox::ReplyTo;
pub use self::mailbox::Wake;
use self::metrics::Metrics;
use self::queue::ends_claim;
use self::queue::queue_share;
use self::queue::Item;
use self::queue::Queue;
use self::worker::Shared;
use crate::backend::perform_one;
use crate::backend::Backend;
use crate::backend::Request;
use crate::backend_counters::BackendCounters;
use crate::service_metrics::ServiceMetrics;

/// Settings of a [`StoreService`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceOptions {
    /// Maximum number of queued requests of all handles. Reads may use half of it; requests that
    /// end a claim may use twice as much.
    pub queue_max: usize,

    /// Maximum number of outstanding and unread answers of one handle. Answers to reads may use
    /// half of it.
    pub answers_max: usize,

    /// Interval at which expired entries are deleted.
    pub sweep_interval: Duration,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        ServiceOptions {
            queue_max: 4096,
            answers_max: 4096,
            sweep_interval: Duration::from_secs(60),
        }
    }
}

/// Owner of a store and its thread. After a drop, the thread performs the queued requests and
/// ends.
pub struct StoreService {
    backend: Arc<dyn Backend>,
    shared: Arc<Shared>,
    options: ServiceOptions,
    claims_name: Arc<str>,
}

/// View of a [`StoreService`] for metrics. It does not keep the thread alive.
#[derive(Clone)]
pub struct StoreMonitor {
    backend: Arc<dyn Backend>,
    shared: Arc<Shared>,
}

/// Handle of one event loop to a [`StoreService`]. No method blocks.
pub struct StoreHandle {
    backend: Arc<dyn Backend>,
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    answers_max: usize,
    claims_name: Arc<str>,
}

/// Returns a name that no other process has.
fn process_name() -> String {
    format!("process {:016x}{:016x}", ClaimToken::random().0, ClaimToken::random().0)
}

impl StoreService {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The system cannot start a thread.
    pub fn start(backend: Box<dyn Backend>, options: ServiceOptions) -> std::io::Result<Self> {
        let claims_name = backend.claims_name().unwrap_or_else(process_name);
        let service = StoreService {
            backend: Arc::from(backend),
            claims_name: claims_name.into(),
            shared: Arc::new(Shared {
                queue: Queue::new(options.queue_max),
                metrics: Metrics::default(),
            }),
            options,
        };
        worker::start(service.backend.clone(), service.shared.clone(), options.sweep_interval)?;

        Ok(service)
    }

    /// Returns a handle for one event loop, which `wake` wakes when there are answers.
    pub fn handle(&self, wake: Wake) -> StoreHandle {
        StoreHandle {
            backend: self.backend.clone(),
            shared: self.shared.clone(),
            mailbox: Arc::new(Mailbox::new(wake)),
            answers_max: self.options.answers_max,
            claims_name: self.claims_name.clone(),
        }
    }

    /// Returns the counters of requests and answers since the start.
    pub fn metrics(&self) -> ServiceMetrics {
        self.shared.metrics.snapshot()
    }

    /// Returns the store's own counters.
    pub fn backend_counters(&self) -> BackendCounters {
        self.backend.counters()
    }

    /// Returns a view for metrics.
    pub fn monitor(&self) -> StoreMonitor {
        StoreMonitor { backend: self.backend.clone(), shared: self.shared.clone() }
    }

    /// Waits until all requests that are queued now have been performed. Returns false if that
    /// takes longer than `limit`.
    pub fn flush(&self, limit: Duration) -> bool {
        self.shared.queue.wait_until_done(limit)
    }

    /// Refuses new requests, performs the queued ones, and closes the store. Returns false if that
    /// takes longer than `limit`: the remaining requests are then lost with the process, and their
    /// claims expire.
    pub fn close(self, limit: Duration) -> bool {
        self.shared.queue.close();
        self.shared.queue.wait_until_ended(limit)
    }
}

impl StoreMonitor {
    /// Returns the counters of requests and answers since the start.
    pub fn metrics(&self) -> ServiceMetrics {
        self.shared.metrics.snapshot()
    }

    /// Returns the store's own counters.
    pub fn backend_counters(&self) -> BackendCounters {
        self.backend.counters()
    }

    /// Returns whether the last request failed.
    pub fn is_failing(&self) -> bool {
        self.shared.metrics.is_failing()
    }

    /// Returns the number of queued requests.
    pub fn queued(&self) -> usize {
        self.shared.queue.len()
    }
}

impl Drop for StoreService {
    fn drop(&mut self) {
        self.shared.queue.close();
    }
}

impl StoreHandle {
    /// Requests the record of `endpoint`. Returns false if a queue is full: there will be no
    /// answer.
    pub fn get(&self, tag: u64, endpoint: &RemoteEndpoint) -> bool {
        self.request(tag, Request::Get(endpoint.clone()))
    }

    /// Requests a claim on the record of `endpoint`, for a connection whose current RTT
    /// is `rtt`. Returns false if a queue is full: there will be no answer.
    pub fn claim(&self, tag: u64, endpoint: &RemoteEndpoint, rtt: Duration) -> bool {
        self.request(tag, Request::Claim(endpoint.clone(), rtt))
    }

    /// Requests a claim for a connection that brings saved parameters of its own. Returns false
    /// if a queue is full: there will be no answer.
    pub fn claim_own(
        &self,
        tag: u64,
        endpoint: &RemoteEndpoint,
        own: &PathState,
        rtt: Duration,
    ) -> bool {
        self.request(tag, Request::ClaimOwn(endpoint.clone(), *own, rtt))
    }

    /// Records an observation. Returns false if the queue is full.
    pub fn record(&self, endpoint: &RemoteEndpoint, observed: &PathState) -> bool {
        self.push(Item::new(Request::Record(endpoint.clone(), *observed), None))
    }

    /// Releases a claim. Returns false if even the reserved part of the queue is full: the claim
    /// then ends with its lease.
    pub fn release(&self, endpoint: &RemoteEndpoint, token: ClaimToken) -> bool {
        self.push(Item::new(Request::Release(endpoint.clone(), token), None))
    }

    /// Forgets the record after a safe retreat, unless it was observed later than the one that
    /// was `used`. Returns false if even the reserved part of the queue is full.
    pub fn forget(&self, endpoint: &RemoteEndpoint, token: ClaimToken, used: SystemTime) -> bool {
        self.push(Item::new(Request::Forget(endpoint.clone(), token, used), None))
    }

    /// Returns [`Backend::claims_name()`], and a random name if no other process shares the claims.
    pub fn claims_name(&self) -> &str {
        &self.claims_name
    }

    /// Returns whether each answer is available as soon as its request returns. The service then
    /// calls no callback.
    pub fn answers_at_once(&self) -> bool {
        !self.backend.blocks()
    }

    /// Returns the next answer, if there is one. Answers are in the order of requests.
    pub fn poll(&self) -> Option<Answer> {
        self.mailbox.take()
    }

    fn request(&self, tag: u64, request: Request) -> bool {
        if !self.mailbox.reserve(queue_share(&request, self.answers_max)) {
            self.shared.metrics.count_dropped(ends_claim(&request));
            return false;
        }

        let reply_to = ReplyTo { tag, mailbox: self.mailbox.clone() };
        let queued = self.push(Item::new(request, Some(reply_to)));
        if !queued {
            self.mailbox.cancel_reservation();
        }

        queued
    }

    fn push(&self, item: Item) -> bool {
        if self.answers_at_once() {
            self.perform(item);
            return true;
        }
        let ends_claim = ends_claim(&item.request);
        let queued = self.shared.queue.push(item);
        if !queued {
            self.shared.metrics.count_dropped(ends_claim);
        }

        queued
    }

    fn perform(&self, item: Item) {
        let outcome = perform_one(&*self.backend, &item.request).ok();
        self.shared.metrics.count(&item.request, outcome.as_ref());
        if let Some(reply_to) = item.reply_to {
            // Cannot fail: the mailbox belongs to this handle, which exists.
            let _ = reply_to.mailbox.deliver(reply_to.answer(&item.request, outcome.as_ref()));
        }
    }
}

impl Drop for StoreHandle {
    // An unread claim would lock its record until its lease ends.
    fn drop(&mut self) {
        for answer in self.mailbox.close() {
            if let Some(request) = release_request(answer) {
                self.push(Item::new(request, None));
            }
        }
    }
}
