//! Queue of requests to the store's thread.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use super::mailbox::ReplyTo;
use crate::backend::Request;

/// The most requests per transaction.
const BATCH_MAX: usize = 256;

/// One request in the queue.
pub struct Item {
    pub request: Request,

    /// Receiver of the answer, if the request has one.
    pub reply_to: Option<ReplyTo>,

    /// How often it failed.
    pub failures: usize,
}

/// Bounded FIFO queue. No holder of its lock blocks.
pub struct Queue {
    capacity: usize,
    state: Mutex<QueueState>,

    /// Signals the thread that there is work.
    work: Condvar,

    /// Signals those that wait for the thread.
    progress: Condvar,
}

#[derive(Default)]
struct QueueState {
    items: VecDeque<Item>,

    /// Failed requests, by the time of their retry and the order in which they failed.
    retries: BTreeMap<(Instant, u64), Item>,

    retried: u64,
    pushed: u64,
    done: u64,
    closing: bool,
    ended: bool,
}

impl Item {
    pub fn new(request: Request, reply_to: Option<ReplyTo>) -> Self {
        Item { request, reply_to, failures: 0 }
    }
}

impl QueueState {
    fn push(&mut self, item: Item) {
        self.items.push_back(item);
        self.pushed += 1;
    }

    /// Moves retries that are due to the front; when closing, all of them.
    fn requeue_due(&mut self, now: Instant) {
        let waiting = match self.closing {
            true => BTreeMap::new(),
            // No order is higher: this includes what is due now.
            false => self.retries.split_off(&(now, u64::MAX)),
        };
        let due = std::mem::replace(&mut self.retries, waiting);
        due.into_values().rev().for_each(|item| self.items.push_front(item));
    }
}

/// Returns how full a queue of this capacity may be for this request to be added.
pub fn queue_share(request: &Request, capacity: usize) -> usize {
    match request {
        // Each new client has one, also in a flood: claims still find room.
        Request::Get(_) => capacity.div_ceil(2),
        Request::Claim(..) | Request::ClaimOwn(..) | Request::Record(..) => capacity,
        Request::Release(..) | Request::Forget(..) => capacity.saturating_mul(2),
    }
}

/// Returns whether losing the request costs more than a miss.
pub fn ends_claim(request: &Request) -> bool {
    matches!(request, Request::Release(..) | Request::Forget(..))
}

impl Queue {
    pub fn new(capacity: usize) -> Self {
        Queue { capacity, state: Mutex::default(), work: Condvar::new(), progress: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many requests are queued.
    pub fn len(&self) -> usize {
        let state = self.lock();
        state.items.len() + state.retries.len()
    }

    /// Adds a request. Returns false if there is no room: reads may fill half the queue,
    /// requests that end a claim twice the queue.
    pub fn push(&self, item: Item) -> bool {
        let bound = queue_share(&item.request, self.capacity);
        let mut state = self.lock();

        if state.closing || state.ended || state.items.len() >= bound {
            return false;
        }
        state.push(item);
        drop(state);
        self.work.notify_one();

        true
    }

    /// Adds requests of the thread itself, even beyond the capacity and when closing.
    pub fn push_internal(&self, items: Vec<Item>) {
        let mut state = self.lock();
        items.into_iter().for_each(|item| state.push(item));
    }

    /// Retries a request at `due`, before all others. Returns it if there is no room.
    pub fn retry_at(&self, item: Item, due: Instant) -> Option<Item> {
        let mut state = self.lock();
        if state.retries.len() >= self.capacity.saturating_mul(2) {
            return Some(item);
        }
        state.retried += 1;
        let key = (due, state.retried);
        state.retries.insert(key, item)
    }

    /// Waits for requests and takes the oldest: an empty batch after `limit`, None if the queue
    /// is closed and empty.
    pub fn take(&self, limit: Duration) -> Option<Vec<Item>> {
        let state = self.lock();
        let due = state.retries.first_key_value().map(|((due, _), _)| *due);
        let pause = due.map(|due| due.saturating_duration_since(quiche::clock::now()));
        let limit = pause.map_or(limit, |pause| pause.min(limit));
        let (mut state, _) = self
            .work
            .wait_timeout_while(state, limit, |c| c.items.is_empty() && !c.closing)
            .unwrap_or_else(PoisonError::into_inner);

        state.requeue_due(quiche::clock::now());
        if state.items.is_empty() && state.closing {
            return None;
        }
        let batch = state.items.len().min(BATCH_MAX);

        Some(state.items.drain(..batch).collect())
    }

    /// Notes that this many requests were performed or abandoned.
    pub fn done(&self, items: usize) {
        self.lock().done += items as u64;
        self.progress.notify_all();
    }

    /// Refuses requests from now on.
    pub fn close(&self) {
        self.lock().closing = true;
        self.work.notify_all();
    }

    /// Notes that the thread has ended.
    pub fn end(&self) {
        self.lock().ended = true;
        self.progress.notify_all();
    }

    pub fn wait_until_done(&self, limit: Duration) -> bool {
        let state = self.lock();
        let target = state.pushed;
        let (state, _) = self
            .progress
            .wait_timeout_while(state, limit, |c| c.done < target && !c.ended)
            .unwrap_or_else(PoisonError::into_inner);

        state.done >= target
    }

    pub fn wait_until_ended(&self, limit: Duration) -> bool {
        let state = self.lock();
        let (state, _) = self
            .progress
            .wait_timeout_while(state, limit, |c| !c.ended)
            .unwrap_or_else(PoisonError::into_inner);

        state.ended && state.items.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quiche::clock::Simulation;
    use quiche::path_state::ClaimToken;
    use quiche::path_state::RemoteEndpoint;

    const NOW: Duration = Duration::ZERO;
    const PAUSE: Duration = Duration::from_secs(1);

    fn release(n: u64) -> Item {
        let client = "198.51.100.7".parse().unwrap();
        let here = RemoteEndpoint::new("192.0.2.1", client, Default::default());
        Item::new(Request::Release(here, ClaimToken(n)), None)
    }

    /// Returns the tokens of the next batch; None at the end.
    fn take(queue: &Queue) -> Option<Vec<u64>> {
        let token = |item: Item| match item.request {
            Request::Release(_, token) => token.0,
            other => panic!("{other:?}"),
        };
        Some(queue.take(NOW)?.into_iter().map(token).collect())
    }

    #[test]
    fn retry_waits_until_it_is_due() {
        let time = Simulation::start(1, Duration::ZERO);
        let queue = Queue::new(10);
        let now = quiche::clock::now();
        for (n, pauses) in [(3, 2), (1, 1), (2, 1)] {
            assert!(queue.retry_at(release(n), now + PAUSE * pauses).is_none());
        }
        queue.push(release(4));
        assert_eq!(queue.len(), 4);

        assert_eq!(take(&queue), Some(vec![4]));
        assert_eq!(take(&queue), Some(vec![]));
        queue.push(release(5));
        time.advance_to(PAUSE);
        assert_eq!(take(&queue), Some(vec![1, 2, 5]));
        time.advance_to(2 * PAUSE);
        assert_eq!(take(&queue), Some(vec![3]));
    }

    #[test]
    fn retry_does_not_wait_when_closing() {
        let _time = Simulation::start(1, Duration::ZERO);
        let queue = Queue::new(10);
        queue.retry_at(release(1), quiche::clock::now() + PAUSE);
        queue.close();

        assert_eq!(take(&queue), Some(vec![1]));
        assert_eq!(take(&queue), None);
    }

    #[test]
    fn retry_without_room_is_refused() {
        let _time = Simulation::start(1, Duration::ZERO);
        let queue = Queue::new(2);
        let due = quiche::clock::now() + PAUSE;
        let refused = (0..6).filter(|n| queue.retry_at(release(*n), due).is_some()).count();
        assert_eq!((queue.len(), refused), (4, 2));
    }
}
