//! Shutdown barrier of all workers and the TCP side: no worker ends before none of them has a client left.
//! Until then each keeps its socket: the kernel counts the sockets that share the address to find
//! the worker of a packet, and new clients are to be refused.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use log::debug;
use mio::Waker;

/// Part of a worker, or of the TCP side.
pub struct ShutdownBarrier {
    group: Arc<Group>,
    is_ready: bool,
}

struct Group {
    /// Number of parts that are not ready to end.
    busy: AtomicUsize,
    wakers: Vec<Arc<Waker>>,
}

impl ShutdownBarrier {
    /// Returns the parts of the workers of these wakers, in their order.
    pub fn for_workers(wakers: impl IntoIterator<Item = Arc<Waker>>) -> Vec<Self> {
        let wakers: Vec<_> = wakers.into_iter().collect();
        let workers = wakers.len();
        let group = Arc::new(Group { busy: AtomicUsize::new(workers), wakers });
        (0..workers).map(|_| Self { group: Arc::clone(&group), is_ready: false }).collect()
    }

    /// Returns one more part, of what is not ready to end.
    pub fn join(&self) -> Self {
        self.group.busy.fetch_add(1, Ordering::AcqRel);
        Self { group: Arc::clone(&self.group), is_ready: false }
    }

    /// Notes that this part is ready to end. Returns whether all are; the last one wakes the workers.
    pub fn is_complete(&mut self) -> bool {
        if !std::mem::replace(&mut self.is_ready, true)
            && self.group.busy.fetch_sub(1, Ordering::AcqRel) == 1
        {
            for waker in &self.group.wakers {
                if let Err(e) = waker.wake() {
                    debug!("cannot wake a worker: {e}");
                }
            }
        }
        self.group.busy.load(Ordering::Acquire) == 0
    }

    /// Takes back that this part is ready to end. Returns whether it did: otherwise all are ending.
    pub fn withdraw(&mut self) -> bool {
        if !self.is_ready {
            return true;
        }
        let raise = |busy| (busy > 0).then_some(busy + 1);
        let withdrawn =
            self.group.busy.fetch_update(Ordering::AcqRel, Ordering::Acquire, raise).is_ok();
        self.is_ready = !withdrawn;
        withdrawn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::Events;
    use mio::Poll;
    use mio::Token;
    use std::time::Duration;

    #[test]
    fn barrier_opens_when_all_are_ready_and_wakes_them() {
        let mut poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let mut workers = ShutdownBarrier::for_workers(vec![waker]);
        workers.push(workers[0].join());
        let mut is_woken = || {
            let mut events = Events::with_capacity(8);
            poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
            !events.is_empty()
        };
        assert!(!workers[0].is_complete() && !workers[0].is_complete());
        assert!(workers[0].withdraw() && workers[1].withdraw());
        assert!(!workers[1].is_complete() && !is_woken());
        assert!(workers[1].withdraw() && !workers[0].is_complete());
        assert!(!is_woken());
        assert!(workers[1].is_complete());
        assert!(is_woken());
        assert!(workers[0].is_complete() && !workers[0].withdraw());
    }
}
