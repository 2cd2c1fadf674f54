//! Service of a store to an event loop: one thread that may block, and bounded queues.
//!
//! There is a queue in either direction, and a callback that wakes whoever has an
//! answer to read.
//!
//! A store that does not block ([`Backend::blocks()`]) is asked on the spot, and its
//! answers wait before anybody could be woken: see [`StoreHandle::answers_at_once()`].
//!
//! Nothing here waits for the store except [`StoreService::flush()`] and
//! [`StoreService::close()`]. What does not fit into a queue is dropped and
//! counted: a miss is always legal.

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

use self::mailbox::release_of;
pub use self::mailbox::Answer;
use self::mailbox::Mailbox;
use self::mailbox::Reply;
pub use self::mailbox::Wake;
use self::metrics::Metrics;
use self::queue::ends_claim;
use self::queue::room_for;
use self::queue::Item;
use self::queue::Queue;
use self::worker::Shared;
use crate::backend::perform_one;
use crate::backend::Backend;
use crate::backend::BackendCounters;
use crate::backend::Request;
use crate::service_metrics::ServiceMetrics;

/// Bounds of a [`StoreService`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceOptions {
    /// The most requests that wait, all handles together: reads up to half of them,
    /// and as many again if they end a claim.
    pub queue_max: usize,

    /// The most answers that one handle waits for or has not read; reads are asked
    /// for up to half of them.
    pub answers_max: usize,

    /// How often entries whose time has passed are looked for.
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

/// Owns a store and the thread that it runs on. Dropping it lets the thread
/// finish what is queued and end by itself.
pub struct StoreService {
    backend: Arc<dyn Backend>,
    shared: Arc<Shared>,
    options: ServiceOptions,
}

/// What a [`StoreService`] did and does, for metrics.
#[derive(Clone)]
pub struct StoreMonitor {
    backend: Arc<dyn Backend>,
    shared: Arc<Shared>,
}

/// One event loop's end of a [`StoreService`]. No method blocks.
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
    /// The system has no thread to spare.
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

    /// Returns a handle for one event loop; `wake` tells it that answers wait.
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

    /// Returns what another thread may look at; it does not keep the service alive.
    pub fn monitor(&self) -> StoreMonitor {
        StoreMonitor { backend: self.backend.clone(), shared: self.shared.clone() }
    }

    /// Waits until everything that is queued now has been done, `limit` at
    /// most. False if time ran out.
    pub fn flush(&self, limit: Duration) -> bool {
        self.shared.queue.wait_until_done(limit)
    }

    /// Refuses new requests, does what is queued, and closes the store, waiting
    /// `limit` at most. False if time ran out: what is left is lost with the
    /// process, and its claims lapse.
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

    /// Tells whether the last request failed.
    pub fn is_failing(&self) -> bool {
        self.shared.metrics.is_failing()
    }

    /// Returns how many requests wait.
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
    /// Asks for the record of `endpoint`. False if there is no room: no answer will
    /// come.
    pub fn get(&self, tag: u64, endpoint: &RemoteEndpoint) -> bool {
        self.ask(tag, Request::Get(endpoint.clone()))
    }

    /// Asks for a claim on the record of `endpoint`, for a connection whose current RTT
    /// is `rtt`. False if there is no room: no answer will come.
    pub fn claim(&self, tag: u64, endpoint: &RemoteEndpoint, rtt: Duration) -> bool {
        self.ask(tag, Request::Claim(endpoint.clone(), rtt))
    }

    /// Has an observation kept. False if there is no room.
    pub fn record(&self, endpoint: &RemoteEndpoint, observed: &PathState) -> bool {
        self.push(Item::new(Request::Record(endpoint.clone(), *observed), None))
    }

    /// Ends a claim and keeps the record. False if there is no room, although more
    /// is kept for this: the lease will lapse.
    pub fn release(&self, endpoint: &RemoteEndpoint, token: ClaimToken) -> bool {
        self.push(Item::new(Request::Release(endpoint.clone(), token), None))
    }

    /// Has the record forgotten after a safe retreat, unless it was observed later than
    /// the one that was `used`. False if there is no room, although more is kept for
    /// this.
    pub fn forget(&self, endpoint: &RemoteEndpoint, token: ClaimToken, used: SystemTime) -> bool {
        self.push(Item::new(Request::Forget(endpoint.clone(), token, used), None))
    }

    /// Tells whether an answer waits as soon as it has been asked for. Nobody is woken for
    /// it.
    pub fn answers_at_once(&self) -> bool {
        !self.backend.blocks()
    }

    /// Returns the next answer, if one is there. Answers come in the order of requests.
    pub fn poll(&self) -> Option<Answer> {
        self.mailbox.take()
    }

    fn ask(&self, tag: u64, request: Request) -> bool {
        if !self.mailbox.expect_one(room_for(&request, self.answers_max)) {
            self.shared.metrics.count_dropped(ends_claim(&request));
            return false;
        }

        let reply = Reply { tag, mailbox: self.mailbox.clone() };
        let queued = self.push(Item::new(request, Some(reply)));
        if !queued {
            self.mailbox.expect_one_less();
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
        if let Some(reply) = item.reply {
            // Its own mailbox is open.
            let _ = reply.mailbox.deliver(reply.answer(&item.request, outcome.as_ref()));
        }
    }
}

impl Drop for StoreHandle {
    // A claim that nobody read about would lock its record until the lease lapses.
    fn drop(&mut self) {
        for answer in self.mailbox.close() {
            if let Some(request) = release_of(answer) {
                self.push(Item::new(request, None));
            }
        }
    }
}
