//! Password checker: threads that check passwords, so that neither event loops nor reads from disk
//! wait for it. Clients take turns, so that who tries many passwords delays nobody else for long.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::thread;

use ab_test::ClientUnit;
use log::debug;

use crate::content::access::basic_auth::PasswordCheck;
use crate::content::access::refusal::AccessRefusal;

/// Checks that may wait, in all and of one client: as many as a client may have requests.
const WAITING_MAX: usize = 4096;
const WAITING_OF_CLIENT_MAX: usize = 128;

/// The checker has one thread for so many processors, and at most so many threads.
const PROCESSORS_PER_THREAD: usize = 4;
const THREADS_MAX: usize = 4;

/// Priority of the threads: below those that serve, as `nice` has it.
const NICE: i32 = 10;

/// Checker of all hosts. Its threads end when it is dropped.
pub struct PasswordChecker(Arc<SharedChecker>);

#[derive(Default)]
struct SharedChecker {
    queue: Mutex<CheckQueue>,
    changed: Condvar,
}

#[derive(Default)]
struct CheckQueue {
    /// Clients in the order of their turns.
    clients: VecDeque<(ClientUnit, VecDeque<WaitingCheck>)>,
    waiting: usize,
    is_closed: bool,
}

struct WaitingCheck {
    check: PasswordCheck,
    done: Box<dyn FnOnce() + Send>,
}

impl fmt::Debug for PasswordChecker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordChecker").field("waiting", &self.0.queue().waiting).finish()
    }
}

impl PasswordChecker {
    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// The process cannot start more threads.
    pub fn start() -> io::Result<Self> {
        let shared = Arc::new(SharedChecker::default());
        let processors = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..(processors / PROCESSORS_PER_THREAD).clamp(1, THREADS_MAX) {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name("password-check".into()).spawn(move || run(&shared))?;
        }
        Ok(Self(shared))
    }

    /// Queues a check.
    ///
    /// # Errors
    ///
    /// Too many wait.
    pub fn push(
        &self,
        check: PasswordCheck,
        done: Box<dyn FnOnce() + Send>,
    ) -> Result<(), AccessRefusal> {
        self.0.queue().push(WaitingCheck { check, done })?;
        self.0.changed.notify_one();
        Ok(())
    }
}

impl Drop for PasswordChecker {
    fn drop(&mut self) {
        self.0.queue().is_closed = true;
        self.0.changed.notify_all();
    }
}

impl SharedChecker {
    fn queue(&self) -> MutexGuard<'_, CheckQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CheckQueue {
    fn push(&mut self, waiting: WaitingCheck) -> Result<(), AccessRefusal> {
        let client = waiting.check.client;
        let own = self.clients.iter_mut().find(|(other, _)| *other == client);
        let own_waiting = own.as_ref().map_or(0, |(_, checks)| checks.len());
        if self.waiting >= WAITING_MAX || own_waiting >= WAITING_OF_CLIENT_MAX {
            return Err(AccessRefusal::Busy);
        }
        match own {
            Some((_, checks)) => checks.push_back(waiting),
            None => self.clients.push_back((client, VecDeque::from([waiting]))),
        }
        self.waiting += 1;
        Ok(())
    }

    /// Takes a check of the next client, whose next one comes after those of others.
    fn pop(&mut self) -> Option<WaitingCheck> {
        let (client, mut checks) = self.clients.pop_front()?;
        let waiting = checks.pop_front();
        if !checks.is_empty() {
            self.clients.push_back((client, checks));
        }
        self.waiting -= usize::from(waiting.is_some());
        waiting
    }
}

/// Runs checks until the checker is dropped, and none is left.
fn run(shared: &SharedChecker) {
    // Of this thread alone, on Linux.
    if let Err(e) = rustix::process::setpriority_process(None, NICE) {
        debug!("cannot lower the priority of password checks: {e}");
    }
    loop {
        let mut queue = shared.queue();
        let WaitingCheck { check, done } = loop {
            match queue.pop() {
                Some(waiting) => break waiting,
                None if queue.is_closed => return,
                None => {
                    queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        drop(queue);
        check.run();
        done();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::access::basic_auth::tests::check_of;
    use std::sync::mpsc::channel;

    /// Returns a check that waits, of the client with this number.
    fn waiting(client: u8) -> WaitingCheck {
        let checker = PasswordChecker(Arc::default());
        let check = check_of([192, 0, 2, client].into(), "x", checker);
        WaitingCheck { check, done: Box::new(|| ()) }
    }

    #[test]
    fn clients_take_turns() {
        let mut queue = CheckQueue::default();
        for client in [1, 1, 1, 2, 3, 2] {
            queue.push(waiting(client)).unwrap();
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|w| w.check.client).collect();
        let expected = [1, 2, 3, 1, 2, 1].map(|client| waiting(client).check.client);
        assert_eq!((order.as_slice(), queue.waiting), (&expected[..], 0));
    }

    #[test]
    fn waiting_checks_are_bounded_in_all_and_by_client() {
        let mut queue = CheckQueue::default();
        let mut pushed = [0; 40];
        for (client, count) in (0..).zip(&mut pushed) {
            *count = (0..200).filter(|_| queue.push(waiting(client)).is_ok()).count();
        }
        assert_eq!(pushed[..32], [WAITING_OF_CLIENT_MAX; 32]);
        assert_eq!(pushed[32..], [0; 8]);
        assert_eq!(queue.push(waiting(50)), Err(AccessRefusal::Busy));
        queue.pop();
        assert_eq!(queue.push(waiting(50)), Ok(()));
    }

    #[test]
    fn threads_check_what_waits_and_end_with_the_checker() {
        let checker = PasswordChecker::start().unwrap();
        let shared = Arc::downgrade(&checker.0);
        let (sender, done) = channel();
        for _ in 0..3 {
            let (waiting, sender) = (waiting(1), sender.clone());
            checker.push(waiting.check, Box::new(move || sender.send(()).unwrap())).unwrap();
        }
        drop((checker, sender));
        assert_eq!(done.iter().count(), 3);
        let is_gone = || {
            thread::sleep(std::time::Duration::from_millis(10));
            shared.strong_count() == 0
        };
        assert!((0..1000).any(|_| is_gone()));
    }
}
