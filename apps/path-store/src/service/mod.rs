//! Service of a store to event loops: one thread that may block, and bounded queues.
//!
//! Requests and answers have a queue each, and a callback wakes the event loop that has an
//! answer to read.
//!
//! For a store that does not block ([`Backend::blocks()`]), the event loop itself performs
//! requests, and wakes nobody: see [`StoreHandle::answers_at_once()`].
//!
//! Only [`StoreService::flush()`] and [`StoreService::close()`] wait for the store. A request
//! that does not fit into a queue is dropped and counted: a miss is always legal.

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
    /// The most requests in the queue, of all handles: reads fill at most half of it, and
    /// requests that end a claim may fill it twice.
    pub queue_max: usize,

    /// The most answers that one handle waits for or has not read: those to reads are at most
    /// half of them.
    pub answers_max: usize,

    /// How often expired entries are deleted.
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

/// Owns a store and its thread. After it is dropped, the thread performs what is queued and
/// ends.
pub struct StoreService {
    backend: Arc<dyn Backend>,
    shared: Arc<Shared>,
    options: ServiceOptions,
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
}

impl StoreService {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// The system cannot start a thread.
    pub fn start(backend: Box<dyn Backend>, options: ServiceOptions) -> std::io::Result<Self> {
        let service = StoreService {
            backend: Arc::from(backend),
            shared: Arc::new(Shared {
                queue: Queue::new(options.queue_max),
                metrics: Metrics::default(),
            }),
            options,
        };
        worker::start(service.backend.clone(), service.shared.clone(), options.sweep_interval)?;

        Ok(service)
    }

    /// Returns a handle for one event loop, which `wake` wakes when answers wait.
    pub fn handle(&self, wake: Wake) -> StoreHandle {
        StoreHandle {
            backend: self.backend.clone(),
            shared: self.shared.clone(),
            mailbox: Arc::new(Mailbox::new(wake)),
            answers_max: self.options.answers_max,
        }
    }

    /// Returns what was asked, answered and dropped since the start.
    pub fn metrics(&self) -> ServiceMetrics {
        self.shared.metrics.snapshot()
    }

    /// Returns what happened inside the store.
    pub fn backend_counters(&self) -> BackendCounters {
        self.backend.counters()
    }

    /// Returns a view for metrics.
    pub fn monitor(&self) -> StoreMonitor {
        StoreMonitor { backend: self.backend.clone(), shared: self.shared.clone() }
    }

    /// Waits until everything that is queued now was performed, at most `limit`. Returns false
    /// if time ran out.
    pub fn flush(&self, limit: Duration) -> bool {
        self.shared.queue.wait_until_done(limit)
    }

    /// Refuses new requests, performs what is queued, and closes the store, within at most
    /// `limit`. Returns false if time ran out: the rest is lost with the process, and its claims
    /// expire.
    pub fn close(self, limit: Duration) -> bool {
        self.shared.queue.close();
        self.shared.queue.wait_until_ended(limit)
    }
}

impl StoreMonitor {
    /// Returns what was asked, answered and dropped since the start.
    pub fn metrics(&self) -> ServiceMetrics {
        self.shared.metrics.snapshot()
    }

    /// Returns what happened inside the store.
    pub fn backend_counters(&self) -> BackendCounters {
        self.backend.counters()
    }

    /// Returns whether the last request failed.
    pub fn is_failing(&self) -> bool {
        self.shared.metrics.is_failing()
    }

    /// Returns how many requests are queued.
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
    /// Requests the record of `endpoint`. Returns false if there is no room: no answer will
    /// come.
    pub fn get(&self, tag: u64, endpoint: &RemoteEndpoint) -> bool {
        self.request(tag, Request::Get(endpoint.clone()))
    }

    /// Requests a claim on the record of `endpoint`, for a connection whose current RTT
    /// is `rtt`. Returns false if there is no room: no answer will come.
    pub fn claim(&self, tag: u64, endpoint: &RemoteEndpoint, rtt: Duration) -> bool {
        self.request(tag, Request::Claim(endpoint.clone(), rtt))
    }

    /// Records an observation. Returns false if there is no room.
    pub fn record(&self, endpoint: &RemoteEndpoint, observed: &PathState) -> bool {
        self.push(Item::new(Request::Record(endpoint.clone(), *observed), None))
    }

    /// Releases a claim. Returns false if even the room that is reserved for this is full: the
    /// claim ends with its lease.
    pub fn release(&self, endpoint: &RemoteEndpoint, token: ClaimToken) -> bool {
        self.push(Item::new(Request::Release(endpoint.clone(), token), None))
    }

    /// Forgets the record after a safe retreat, unless it was observed later than the one that
    /// was `used`. Returns false if even the room that is reserved for this is full.
    pub fn forget(&self, endpoint: &RemoteEndpoint, token: ClaimToken, used: SystemTime) -> bool {
        self.push(Item::new(Request::Forget(endpoint.clone(), token, used), None))
    }

    /// Returns whether each answer waits when its request returns. The service wakes nobody then.
    pub fn answers_at_once(&self) -> bool {
        !self.backend.blocks()
    }

    /// Returns the next answer, if there is one. Answers come in the order of requests.
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
            // The mailbox is that of this handle, which is not dropped.
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
