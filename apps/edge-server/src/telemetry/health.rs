//! Health and readiness: event loops that iterate, and a server that accepts clients.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use log::debug;
use mio::Waker;

/// Timeout for a woken event loop to iterate: [`CHECKS_MAX`] intervals.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);
const CHECKS_MAX: usize = 300;

/// Health of the server.
#[derive(Clone, Default)]
pub struct Health(Arc<WatchedServer>);

#[derive(Default)]
struct WatchedServer {
    /// The workers, once they have started.
    workers: OnceLock<Vec<WatchedWorker>>,
    draining: AtomicBool,
    handed_over: AtomicBool,
}

struct WatchedWorker {
    iterations: Arc<AtomicU64>,
    waker: Arc<Waker>,
}

/// Counter of one event loop's iterations.
pub struct Heartbeat(Arc<AtomicU64>);

/// Readiness for new clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthState {
    Starting,
    Ready,
    Draining,
}

impl Heartbeat {
    /// Counts an iteration.
    pub fn beat(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Health {
    /// Sets the workers, which these wakers wake, and becomes ready. Later calls have no effect.
    pub fn watch(&self, wakers: impl IntoIterator<Item = Arc<Waker>>) -> Vec<Heartbeat> {
        let workers =
            wakers.into_iter().map(|waker| WatchedWorker { iterations: Arc::default(), waker });
        let workers = self.0.workers.get_or_init(|| workers.collect());
        workers.iter().map(|worker| Heartbeat(Arc::clone(&worker.iterations))).collect()
    }

    /// Becomes unready: the server accepts no more clients. Returns whether that is new.
    pub fn drain(&self) -> bool {
        !self.0.draining.swap(true, Ordering::Relaxed)
    }

    /// Returns whether the process is to end.
    pub fn is_draining(&self) -> bool {
        self.0.draining.load(Ordering::Relaxed)
    }

    /// Becomes unready while another process serves, or ready again.
    pub fn set_handed_over(&self, handed_over: bool) {
        self.0.handed_over.store(handed_over, Ordering::Relaxed);
    }

    /// Returns whether another process serves.
    pub fn is_handed_over(&self) -> bool {
        self.0.handed_over.load(Ordering::Relaxed)
    }

    /// Returns the readiness.
    pub fn readiness(&self) -> HealthState {
        let has = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        match (self.0.workers.get(), has(&self.0.draining) || has(&self.0.handed_over)) {
            (_, true) => HealthState::Draining,
            (None, false) => HealthState::Starting,
            (Some(_), false) => HealthState::Ready,
        }
    }

    /// Wakes all workers and returns those whose event loops do not iterate within the timeout.
    pub fn stuck(&self) -> Vec<usize> {
        let workers = self.0.workers.get().map(Vec::as_slice).unwrap_or_default();
        let iterations = || workers.iter().map(|worker| worker.iterations.load(Ordering::Relaxed));
        let before: Vec<_> = iterations().collect();
        for worker in workers {
            if let Err(e) = worker.waker.wake() {
                debug!("cannot wake an event loop: {e}");
            }
        }
        let stuck = || {
            let same =
                iterations().zip(&before).enumerate().filter(|(_, (now, before))| now == *before);
            same.map(|(worker, _)| worker).collect::<Vec<_>>()
        };
        for _ in 0..CHECKS_MAX {
            if stuck().is_empty() {
                break;
            }
            thread::sleep(CHECK_INTERVAL);
        }
        stuck()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::Events;
    use mio::Poll;
    use mio::Token;

    #[test]
    fn stuck_worker_is_reported() {
        let health = Health::default();
        assert_eq!((health.readiness(), health.stuck()), (HealthState::Starting, vec![]));

        let mut poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let mut heartbeats = health.watch(vec![waker; 3]);
        assert_eq!(health.readiness(), HealthState::Ready);
        let stuck = heartbeats.remove(1);
        let run = move || {
            let mut events = Events::with_capacity(8);
            loop {
                poll.poll(&mut events, None).unwrap();
                heartbeats.iter().for_each(Heartbeat::beat);
            }
        };
        thread::spawn(run);
        assert_eq!(health.stuck(), [1]);
        drop(stuck);
        health.set_handed_over(true);
        assert_eq!(health.readiness(), HealthState::Draining);
        health.set_handed_over(false);
        assert_eq!(health.readiness(), HealthState::Ready);
        assert!(health.drain() && !health.drain());
        health.set_handed_over(false);
        assert_eq!(health.readiness(), HealthState::Draining);
    }
}
