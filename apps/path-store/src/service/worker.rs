//! Worker of a service: the thread that may block on the store.

use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use quiche::path_state::StoreError;

use super::mailbox::release_of;
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

/// How long after each failure what ends a claim is tried again: about as long as
/// leases last, in all.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(100),
    Duration::from_millis(300),
    Duration::from_secs(1),
    Duration::from_secs(3),
];

/// How often what was counted goes to the store.
const TOTALS_INTERVAL: Duration = Duration::from_secs(10);

/// The least time between two log lines of one kind.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// What the thread, the service and its handles share.
pub struct Shared {
    pub queue: Queue,
    pub metrics: Metrics,
}

struct Worker {
    backend: Arc<dyn Backend>,
    shared: Arc<Shared>,
    sweep_interval: Duration,

    /// When all that had expired was gone; at first, nobody knows.
    swept: Option<Instant>,
    counted: ServiceMetrics,
    counted_at: Instant,
    incident: Incident,
    dropped_logged: Option<Instant>,
    dropped: u64,
}

/// Whether the store fails, and what has been said of it.
#[derive(Debug, Default)]
struct Incident {
    failing: bool,
    logged: Option<Instant>,

    /// The end of this one is worth a line, as its start was.
    told: bool,
}

/// Tells everybody that the thread has ended, also after a panic.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.queue.end();
    }
}

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
        let _end = End(worker.shared.clone());
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
        let result = self.backend.perform(&requests);
        self.shared.metrics.count_batch();

        match result {
            Ok(outcomes) => {
                self.succeeded();
                self.answer(items, &outcomes);
            }
            Err(error) => {
                self.failed(&error);
                let failed = self.put_back(items);
                self.answer(failed, &[]);
            }
        }
    }

    /// Puts back what ends a claim, to be tried again after a pause, and returns the
    /// others.
    fn put_back(&self, items: Vec<Item>) -> Vec<Item> {
        let now = quiche::clock::now();
        let mut failed = Vec::new();

        for item in items {
            let pause = PAUSES.get(item.failures).filter(|_| ends_claim(&item.request));
            match pause {
                None => failed.push(item),
                Some(pause) => {
                    let again = Item { failures: item.failures + 1, ..item };
                    failed.extend(self.shared.queue.put_back(again, now + *pause));
                }
            }
        }

        failed
    }

    /// Answers with the outcomes in the order of items; without any, misses.
    fn answer(&self, items: Vec<Item>, outcomes: &[Outcome]) {
        let mut told: Vec<Arc<Mailbox>> = Vec::new();
        let mut unused = Vec::new();

        let count = items.len();

        for (i, item) in items.into_iter().enumerate() {
            let outcome = outcomes.get(i);
            self.shared.metrics.count(&item.request, outcome);

            let Some(reply) = item.reply else { continue };
            let unread = reply.mailbox.deliver(reply.answer(&item.request, outcome));
            if let Some(request) = unread.and_then(release_of) {
                unused.push(Item::new(request, None));
            } else if !told.iter().any(|mailbox| Arc::ptr_eq(mailbox, &reply.mailbox)) {
                told.push(reply.mailbox);
            }
        }

        self.shared.queue.push_own(unused);
        for mailbox in told {
            mailbox.wake();
        }
        self.shared.queue.done(count);
    }

    /// Returns how long there may be nothing to do.
    fn pause(&self) -> Duration {
        match self.swept {
            None => Duration::ZERO,
            Some(_) => self.sweep_interval.min(TOTALS_INTERVAL),
        }
    }

    /// Sweeps when it is time. However many records expire at a time, requests do not
    /// wait for all of them to go, and the next interval does not begin before they have.
    fn sweep_when_due(&mut self) {
        let now = quiche::clock::now();
        if self.swept.is_some_and(|at| now.duration_since(at) < self.sweep_interval) {
            return;
        }

        let result = self.backend.sweep();
        let is_behind = result.as_ref().is_ok_and(|swept| *swept >= SWEEP_MAX);
        self.swept = (!is_behind).then_some(now);
        match result {
            Ok(_) => self.succeeded(),
            Err(error) => self.failed(&error),
        }
    }

    fn add_to_totals_when_due(&mut self) {
        let now = quiche::clock::now();
        if now.duration_since(self.counted_at) >= TOTALS_INTERVAL {
            self.counted_at = now;
            self.add_to_totals();
        }
    }

    // For people: what is lost of it is not missed.
    fn add_to_totals(&mut self) {
        let counted = self.shared.metrics.snapshot();
        let since = counted.since(&self.counted);
        if self.incident.failing || since == ServiceMetrics::default() {
            return;
        }
        match self.backend.add_to_totals(&since) {
            Ok(()) => self.counted = counted,
            Err(error) => log::debug!("path store: {error}"),
        }
    }

    fn succeeded(&mut self) {
        if !std::mem::replace(&mut self.incident.failing, false) {
            return;
        }
        self.shared.metrics.set_failing(false);
        if std::mem::replace(&mut self.incident.told, false) {
            log::warn!("path store: works again");
        }
    }

    fn failed(&mut self, error: &StoreError) {
        if std::mem::replace(&mut self.incident.failing, true) {
            return;
        }
        self.shared.metrics.set_failing(true);
        if is_due(&mut self.incident.logged) {
            self.incident.told = true;
            log::warn!("path store: {error}; connections start slowly until it works again");
        }
    }

    fn log_drops(&mut self) {
        let dropped = self.shared.metrics.dropped_in_all();

        if dropped > self.dropped && is_due(&mut self.dropped_logged) {
            log::warn!("path store: too slow, {} requests dropped", dropped - self.dropped);
            self.dropped = dropped;
        }
    }
}

fn is_due(logged: &mut Option<Instant>) -> bool {
    let now = quiche::clock::now();
    let due = logged.is_none_or(|then| now.duration_since(then) >= LOG_INTERVAL);
    if due {
        *logged = Some(now);
    }

    due
}
