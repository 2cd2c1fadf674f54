//! Whether the server is well: its event loops turn, and it takes clients.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use log::debug;
use mio::Waker;

/// How long an event loop that is woken may take to turn: [`NAPS_MAX`] naps.
const NAP: Duration = Duration::from_millis(10);
const NAPS_MAX: usize = 300;

/// How the server is.
#[derive(Clone, Default)]
pub struct Health(Arc<State>);

#[derive(Default)]
struct State {
    /// Those of all workers, once there are workers.
    pulses: OnceLock<Vec<WatchedWorker>>,
    draining: AtomicBool,
}

struct WatchedWorker {
    turns: Arc<AtomicU64>,
    waker: Arc<Waker>,
}

/// What one event loop shows its turns by.
pub struct Heartbeat(Arc<AtomicU64>);

/// Whether new clients should be sent here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthState {
    Starting,
    Ready,
    Draining,
}

impl Heartbeat {
    /// The event loop turns.
    pub fn beat(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Health {
    /// The server has workers, which these wake, from now on and takes clients. Those
    /// of an earlier call stay.
    pub fn watch(&self, wakers: impl IntoIterator<Item = Arc<Waker>>) -> Vec<Heartbeat> {
        let pulses = wakers.into_iter().map(|waker| WatchedWorker { turns: Arc::default(), waker });
        let pulses = self.0.pulses.get_or_init(|| pulses.collect());
        pulses.iter().map(|pulse| Heartbeat(Arc::clone(&pulse.turns))).collect()
    }

    /// The server takes no clients any more.
    pub fn drain(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
    }

    pub fn readiness(&self) -> HealthState {
        match (self.0.pulses.get(), self.0.draining.load(Ordering::Relaxed)) {
            (_, true) => HealthState::Draining,
            (None, false) => HealthState::Starting,
            (Some(_), false) => HealthState::Ready,
        }
    }

    /// The workers whose event loops do not turn when they are woken. Waits for them
    /// for some seconds.
    pub fn stuck(&self) -> Vec<usize> {
        let pulses = self.0.pulses.get().map(Vec::as_slice).unwrap_or_default();
        let turns = || pulses.iter().map(|pulse| pulse.turns.load(Ordering::Relaxed));
        let before: Vec<_> = turns().collect();
        for pulse in pulses {
            if let Err(e) = pulse.waker.wake() {
                debug!("cannot wake a worker: {e}");
            }
        }
        let stuck = || {
            let same = turns().zip(&before).enumerate().filter(|(_, (now, before))| now == *before);
            same.map(|(worker, _)| worker).collect::<Vec<_>>()
        };
        for _ in 0..NAPS_MAX {
            if stuck().is_empty() {
                break;
            }
            thread::sleep(NAP);
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
    fn a_worker_that_does_not_turn_is_named() {
        let health = Health::default();
        assert_eq!((health.readiness(), health.stuck()), (HealthState::Starting, vec![]));

        let mut poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let mut hearts = health.watch(vec![waker; 3]);
        assert_eq!(health.readiness(), HealthState::Ready);
        let stuck = hearts.remove(1);
        let turn = move || {
            let mut events = Events::with_capacity(8);
            loop {
                poll.poll(&mut events, None).unwrap();
                hearts.iter().for_each(Heartbeat::beat);
            }
        };
        thread::spawn(turn);
        assert_eq!(health.stuck(), [1]);
        drop(stuck);
        health.drain();
        assert_eq!(health.readiness(), HealthState::Draining);
    }
}
