//! Worker of a service: the thread that may block on the store.

use std::panic::catch_unwind;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use quiche::path_state::StoreError;

use super::mailbox::release_request;
use super::mailbox::Mailbox;
use super::metrics::Metrics;
use super::queue::ends_claim;
use super::queue::Item;
use super::queue::Queue;
use crate::backend::Backend;
use crate::backend::Outcome;
use crate::backend::Request;
use crate::backend::SWEEP_MAX;
use crate::service_metrics::ServiceMetrics;

/// Time from each failure of a request that ends a claim to its retry: in all, about as long
/// as a lease.
const RETRY_DELAYS: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
];

/// How often counts are added to the store's totals.
const TOTALS_INTERVAL: Duration = Duration::from_secs(10);

/// The shortest time between two log lines of one kind.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// State that the thread, the service and its handles share.
pub struct Shared {
    pub queue: Queue,
    pub metrics: Metrics,
}

struct Worker {
    backend: Arc<dyn Backend>,
    shared: Arc<Shared>,
    sweep_interval: Duration,

    /// When a sweep last deleted all that had expired.
    swept: Option<Instant>,
    counted: ServiceMetrics,
    counted_at: Instant,
    incident: Incident,
    dropped_logged: Option<Instant>,
    dropped: u64,
}

/// Kinds of work that may fail apart: on a full disk, reads succeed, and so do claims on records
/// that do not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Reads,
    Claims,
    Writes,
    Sweeps,
}

impl Work {
    fn of(request: &Request) -> Self {
        match request {
            Request::Get(_) => Work::Reads,
            Request::Claim(..) | Request::ClaimOwn(..) => Work::Claims,
            Request::Record(..) | Request::Release(..) | Request::Forget(..) => Work::Writes,
        }
    }
}

/// Failure of the store, and what was logged of it.
#[derive(Debug, Default)]
struct Incident {
    /// What failed last time.
    failing: Vec<Work>,
    logged: Option<Instant>,

    /// The start of this failure was logged, and so its end will be.
    is_logged: bool,
}

/// Notes the end of the thread, also after a panic.
struct EndGuard(Arc<Shared>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.metrics.set_failing(true);
            log::error!(
                "path store: its thread panicked; connections start slowly until a restart"
            );
        }
        self.0.queue.end();
    }
}

/// Calls the store. A panic of it is an error as any other: the next request may succeed.
fn call<T>(store: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(store)).unwrap_or_else(|_| Err("the store panicked".into()))
}

/// Starts the thread.
pub fn start(
    backend: Arc<dyn Backend>,
    shared: Arc<Shared>,
    sweep_interval: Duration,
) -> std::io::Result<()> {
    let worker = Worker {
        backend,
        shared,
        sweep_interval,
        swept: None,
        counted: ServiceMetrics::default(),
        counted_at: quiche::clock::now(),
        incident: Incident::default(),
        dropped_logged: None,
        dropped: 0,
    };

    let run = move || {
        let _end = EndGuard(worker.shared.clone());
        worker.run();
    };
    std::thread::Builder::new().name("path-store".into()).spawn(run).map(drop)
}

impl Worker {
    fn run(mut self) {
        while let Some(items) = self.shared.queue.take(self.pause()) {
            if !items.is_empty() {
                self.perform(items);
            }
            self.sweep_when_due();
            self.add_to_totals_when_due();
            self.log_drops();
        }
        self.add_to_totals();
    }

    fn perform(&mut self, items: Vec<Item>) {
        let requests: Vec<Request> = items.iter().map(|item| item.request.clone()).collect();
        let work: Vec<Work> = requests.iter().map(Work::of).collect();
        let result = call(|| self.backend.perform(&requests));
        self.shared.metrics.count_batch();

        match result {
            Ok(outcomes) => {
                self.succeeded(&work);
                self.answer(items, &outcomes);
            }
            Err(error) => {
                self.failed(&work, &error);
                let failed = self.retry_ends(items);
                self.answer(failed, &[]);
            }
        }
    }

    /// Retries requests that end a claim after a delay, and returns the others.
    fn retry_ends(&self, items: Vec<Item>) -> Vec<Item> {
        let now = quiche::clock::now();
        let mut failed = Vec::new();

        for item in items {
            let delay = RETRY_DELAYS.get(item.failures).filter(|_| ends_claim(&item.request));
            match delay {
                None => failed.push(item),
                Some(delay) => {
                    let again = Item { failures: item.failures + 1, ..item };
                    failed.extend(self.shared.queue.retry_at(again, now + *delay));
                }
            }
        }

        failed
    }

    /// Answers with the outcomes in the order of items; without outcomes, with misses.
    fn answer(&self, items: Vec<Item>, outcomes: &[Outcome]) {
        let mut to_wake: Vec<Arc<Mailbox>> = Vec::new();
        let mut unused = Vec::new();

        let count = items.len();

        for (i, item) in items.into_iter().enumerate() {
            let outcome = outcomes.get(i);
            self.shared.metrics.count(&item.request, outcome);

            let Some(reply_to) = item.reply_to else { continue };
            let unread = reply_to.mailbox.deliver(reply_to.answer(&item.request, outcome));
            if let Some(request) = unread.and_then(release_request) {
                unused.push(Item::new(request, None));
            } else if !to_wake.iter().any(|mailbox| Arc::ptr_eq(mailbox, &reply_to.mailbox)) {
                to_wake.push(reply_to.mailbox);
            }
        }

        self.shared.queue.push_internal(unused);
        for mailbox in to_wake {
            mailbox.wake();
        }
        self.shared.queue.done(count);
    }

    /// Returns how long to wait for requests before the next periodic task.
    fn pause(&self) -> Duration {
        match self.swept {
            None => Duration::ZERO,
            Some(_) => self.sweep_interval.min(TOTALS_INTERVAL),
        }
    }

    /// Sweeps once per interval. If too many records have expired for one sweep, sweeps again
    /// after the next requests, so that these do not wait for all of them.
    fn sweep_when_due(&mut self) {
        let now = quiche::clock::now();
        if self.swept.is_some_and(|at| now.duration_since(at) < self.sweep_interval) {
            return;
        }

        let result = call(|| self.backend.sweep());
        let is_behind = result.as_ref().is_ok_and(|swept| *swept >= SWEEP_MAX);
        self.swept = (!is_behind).then_some(now);
        match result {
            Ok(_) => self.succeeded(&[Work::Sweeps]),
            Err(error) => self.failed(&[Work::Sweeps], &error),
        }
    }

    fn add_to_totals_when_due(&mut self) {
        let now = quiche::clock::now();
        if now.duration_since(self.counted_at) >= TOTALS_INTERVAL {
            self.counted_at = now;
            self.add_to_totals();
        }
    }

    // The totals are for people: a lost count does no harm.
    fn add_to_totals(&mut self) {
        let counted = self.shared.metrics.snapshot();
        let since = counted.since(&self.counted);
        if !self.incident.failing.is_empty() || since == ServiceMetrics::default() {
            return;
        }
        match call(|| self.backend.add_to_totals(&since)) {
            Ok(()) => self.counted = counted,
            Err(error) => log::debug!("path store: {error}"),
        }
    }

    fn succeeded(&mut self, work: &[Work]) {
        let failing = &mut self.incident.failing;
        if failing.is_empty() {
            return;
        }
        failing.retain(|failed| !work.contains(failed));
        if !failing.is_empty() {
            return;
        }
        self.shared.metrics.set_failing(false);
        if std::mem::replace(&mut self.incident.is_logged, false) {
            log::warn!("path store: works again");
        }
    }

    fn failed(&mut self, work: &[Work], error: &StoreError) {
        let failing = &mut self.incident.failing;
        let is_first = failing.is_empty();
        for failed in work {
            if !failing.contains(failed) {
                failing.push(*failed);
            }
        }
        if !is_first {
            return;
        }
        self.shared.metrics.set_failing(true);
        if is_log_due(&mut self.incident.logged) {
            self.incident.is_logged = true;
            log::warn!("path store: {error}; connections start slowly until it works again");
        }
    }

    fn log_drops(&mut self) {
        let dropped = self.shared.metrics.dropped_total();

        if dropped > self.dropped && is_log_due(&mut self.dropped_logged) {
            log::warn!("path store: too slow, {} requests dropped", dropped - self.dropped);
            self.dropped = dropped;
        }
    }
}

fn is_log_due(logged: &mut Option<Instant>) -> bool {
    let now = quiche::clock::now();
    let due = logged.is_none_or(|then| now.duration_since(then) >= LOG_INTERVAL);
    if due {
        *logged = Some(now);
    }

    due
}
