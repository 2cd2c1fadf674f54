//! The requests that wait for the store's thread.

use std::collections::VecDeque;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

use super::Reply;
use crate::backend::Request;

/// The most requests to a transaction.
const BATCH_MAX: usize = 256;

/// One waiting request.
pub struct Item {
    pub request: Request,

    /// Whom to answer; None for what nobody waits for.
    pub reply: Option<Reply>,

    /// How often the store failed at it.
    pub failures: u32,
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
}

/// Whether losing the request costs more than a miss.
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

    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.content().items.len()
    }

    /// Adds a request. False for want of room; what ends a claim may fill the
    /// queue twice as far.
    pub fn push(&self, item: Item) -> bool {
        let bound = match ends_claim(&item.request) {
            true => self.capacity.saturating_mul(2),
            false => self.capacity,
        };
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

    /// Puts requests back to the front, to be done again before all others.
    pub fn put_back(&self, items: Vec<Item>) {
        let mut content = self.content();
        items.into_iter().rev().for_each(|item| content.items.push_front(item));
    }

    /// The oldest requests; none after `limit` without any. None when the queue
    /// is closed and empty.
    pub fn take(&self, limit: Duration) -> Option<Vec<Item>> {
        let content = self.content();
        let (mut content, _) = self
            .work
            .wait_timeout_while(content, limit, |c| c.items.is_empty() && !c.closing)
            .unwrap_or_else(PoisonError::into_inner);

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

    /// From now on nothing is added.
    pub fn close(&self) {
        self.content().closing = true;
        self.work.notify_all();
    }

    /// The thread ends, in whatever way.
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
