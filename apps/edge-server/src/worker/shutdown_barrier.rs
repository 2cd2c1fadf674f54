//! Shutdown barrier of all workers: none ends before every worker has no client left. Until
//! then each keeps its socket: the kernel counts the sockets that share the address to find
//! the worker of a packet, and new clients are to be refused.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::Arc;

use log::debug;
use mio::Waker;

/// One worker's part of the barrier.
pub struct ShutdownBarrier {
    group: Arc<Group>,
    is_ready: bool,
}

struct Group {
    /// Number of workers that are not ready to end.
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

    /// Notes that this worker is ready to end. Returns whether all are; the last one wakes the
    /// others.
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

    /// Takes back that this worker is ready to end. Returns whether it did: otherwise all workers
    /// are ending.
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
        let mut workers = ShutdownBarrier::for_workers(vec![waker; 2]);
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
