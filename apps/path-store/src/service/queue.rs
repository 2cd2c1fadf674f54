//! Queue of requests that wait for the store's thread.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use super::mailbox::Reply;
use crate::backend::Request;

/// The most requests to a transaction.
const BATCH_MAX: usize = 256;

/// One waiting request.
pub struct Item {
    pub request: Request,

    /// Whom to answer; None for what nobody waits for.
    pub reply: Option<Reply>,

    /// How often the store failed at it.
    pub failures: usize,
}

/// A bounded queue in the order of arrival. Its lock is held for moments only.
pub struct Queue {
    capacity: usize,
    content: Mutex<Content>,

    /// There is something to do for the thread.
    work: Condvar,

    /// The thread has done something.
    progress: Condvar,
}

#[derive(Default)]
struct Content {
    items: VecDeque<Item>,

    /// What failed and is to be done again, by when, and in which order it failed.
    later: BTreeMap<(Instant, u64), Item>,

    put_back: u64,
    pushed: u64,
    done: u64,
    closing: bool,
    ended: bool,
}

impl Item {
    pub fn new(request: Request, reply: Option<Reply>) -> Self {
        Item { request, reply, failures: 0 }
    }
}

impl Content {
    fn push(&mut self, item: Item) {
        self.items.push_back(item);
        self.pushed += 1;
    }

    /// Brings what is due to the front; at the end, everything.
    fn bring_due(&mut self, now: Instant) {
        let still_waits = match self.closing {
            true => BTreeMap::new(),
            // Of what is due now, no number of failures is higher.
            false => self.later.split_off(&(now, u64::MAX)),
        };
        let due = std::mem::replace(&mut self.later, still_waits);
        due.into_values().rev().for_each(|item| self.items.push_front(item));
    }
}

/// Returns how much of a room of so many requests may be full for this one to be added.
pub fn room_for(request: &Request, capacity: usize) -> usize {
    match request {
        // Every client that comes has one, also of a flood: claims find room still.
        Request::Get(_) => capacity.div_ceil(2),
        Request::Claim(..) | Request::Record(..) => capacity,
        Request::Release(..) | Request::Forget(..) => capacity.saturating_mul(2),
    }
}

/// Tells whether losing the request costs more than a miss.
pub fn ends_claim(request: &Request) -> bool {
    matches!(request, Request::Release(..) | Request::Forget(..))
}

impl Queue {
    pub fn new(capacity: usize) -> Self {
        Queue {
            capacity,
            content: Mutex::default(),
            work: Condvar::new(),
            progress: Condvar::new(),
        }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many requests wait.
    pub fn len(&self) -> usize {
        let content = self.content();
        content.items.len() + content.later.len()
    }

    /// Adds a request. False for want of room; a read may fill half the queue, what ends
    /// a claim twice the queue.
    pub fn push(&self, item: Item) -> bool {
        let bound = room_for(&item.request, self.capacity);
        let mut content = self.content();

        if content.closing || content.ended || content.items.len() >= bound {
            return false;
        }
        content.push(item);
        drop(content);
        self.work.notify_one();

        true
    }

    /// Adds what the thread itself found to do: room or not, closing or not.
    pub fn push_own(&self, items: Vec<Item>) {
        let mut content = self.content();
        items.into_iter().for_each(|item| content.push(item));
    }

    /// Keeps a request to be done again at `due`, before all others. Gives it back if
    /// there is no room.
    pub fn put_back(&self, item: Item, due: Instant) -> Option<Item> {
        let mut content = self.content();
        if content.later.len() >= self.capacity.saturating_mul(2) {
            return Some(item);
        }
        content.put_back += 1;
        let key = (due, content.put_back);
        content.later.insert(key, item)
    }

    /// Returns the oldest requests; none after `limit`, or when something becomes due
    /// that was put back, without any. None when the queue is closed and empty.
    pub fn take(&self, limit: Duration) -> Option<Vec<Item>> {
        let content = self.content();
        let due = content.later.first_key_value().map(|((due, _), _)| *due);
        let pause = due.map(|due| due.saturating_duration_since(quiche::clock::now()));
        let limit = pause.map_or(limit, |pause| pause.min(limit));
        let (mut content, _) = self
            .work
            .wait_timeout_while(content, limit, |c| c.items.is_empty() && !c.closing)
            .unwrap_or_else(PoisonError::into_inner);

        content.bring_due(quiche::clock::now());
        if content.items.is_empty() && content.closing {
            return None;
        }
        let batch = content.items.len().min(BATCH_MAX);

        Some(content.items.drain(..batch).collect())
    }

    /// Tells that so many requests have been done, or given up.
    pub fn done(&self, items: usize) {
        self.content().done += items as u64;
        self.progress.notify_all();
    }

    /// Closes it: from now on nothing is added.
    pub fn close(&self) {
        self.content().closing = true;
        self.work.notify_all();
    }

    /// Notes that the thread ends, in whatever way.
    pub fn end(&self) {
        self.content().ended = true;
        self.progress.notify_all();
    }

    pub fn wait_until_done(&self, limit: Duration) -> bool {
        let content = self.content();
        let target = content.pushed;
        let (content, _) = self
            .progress
            .wait_timeout_while(content, limit, |c| c.done < target && !c.ended)
            .unwrap_or_else(PoisonError::into_inner);

        content.done >= target
    }

    pub fn wait_until_ended(&self, limit: Duration) -> bool {
        let content = self.content();
        let (content, _) = self
            .progress
            .wait_timeout_while(content, limit, |c| !c.ended)
            .unwrap_or_else(PoisonError::into_inner);

        content.ended && content.items.is_empty()
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

    /// Returns the tokens of what can be done now; None at the end.
    fn take(queue: &Queue) -> Option<Vec<u64>> {
        let token = |item: Item| match item.request {
            Request::Release(_, token) => token.0,
            other => panic!("{other:?}"),
        };
        Some(queue.take(NOW)?.into_iter().map(token).collect())
    }

    #[test]
    fn what_is_put_back_lets_others_go_first_until_it_is_due() {
        let time = Simulation::start(1, Duration::ZERO);
        let queue = Queue::new(10);
        let now = quiche::clock::now();
        for (n, pauses) in [(3, 2), (1, 1), (2, 1)] {
            assert!(queue.put_back(release(n), now + PAUSE * pauses).is_none());
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
    fn at_the_end_nothing_waits_for_its_time() {
        let _time = Simulation::start(1, Duration::ZERO);
        let queue = Queue::new(10);
        queue.put_back(release(1), quiche::clock::now() + PAUSE);
        queue.close();

        assert_eq!(take(&queue), Some(vec![1]));
        assert_eq!(take(&queue), None);
    }

    #[test]
    fn no_more_is_put_back_than_there_is_room_for() {
        let _time = Simulation::start(1, Duration::ZERO);
        let queue = Queue::new(2);
        let due = quiche::clock::now() + PAUSE;
        let refused = (0..6).filter(|n| queue.put_back(release(*n), due).is_some()).count();
        assert_eq!((queue.len(), refused), (4, 2));
    }
}
