//! Password checker: threads that check passwords, so that neither event loops nor reads from disk
//! wait for it. Clients take turns, so that who tries many passwords delays nobody else for long.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::thread;

use ab_test::ClientUnit;
use ipnet::IpNet;
use quiche::path_state::PrefixLengths;

use crate::admission::connection_limits::subnet_of;
use crate::admission::thread_priority;
use crate::content::access::refusal::AccessRefusal;

/// Checks that may wait: in all, of one subnet, and of one client: as many as a client may have requests.
const WAITING_MAX: usize = 4096;
const WAITING_OF_SUBNET_MAX: usize = 512;
const WAITING_OF_CLIENT_MAX: usize = 128;

/// The checker has one thread for so many processors, and at most so many threads.
const PROCESSORS_PER_THREAD: usize = 4;
const THREADS_MAX: usize = 4;

/// Checker of all hosts. Its threads end when it is dropped.
pub struct PasswordChecker(Arc<SharedChecker>);

struct SharedChecker {
    queue: Mutex<CheckQueue>,
    changed: Condvar,
}

struct CheckQueue {
    /// Prefix lengths of subnets.
    lengths: PrefixLengths,

    /// Clients in the order of their turns.
    clients: VecDeque<WaitingClient>,
    waiting: usize,
    is_closed: bool,
}

struct WaitingClient {
    client: ClientUnit,
    subnet: IpNet,
    checks: VecDeque<WaitingCheck>,
}

/// Check that waits.
type WaitingCheck = Box<dyn FnOnce() + Send>;

impl fmt::Debug for PasswordChecker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PasswordChecker").field("waiting", &self.0.queue().waiting).finish()
    }
}

impl PasswordChecker {
    /// Starts the threads. Subnets have these prefix lengths.
    ///
    /// # Errors
    ///
    /// The process cannot start more threads.
    pub fn start(lengths: PrefixLengths) -> io::Result<Self> {
        let queue = Mutex::new(CheckQueue::new(lengths));
        let shared = Arc::new(SharedChecker { queue, changed: Condvar::new() });
        let processors = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..(processors / PROCESSORS_PER_THREAD).clamp(1, THREADS_MAX) {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name("password-check".into()).spawn(move || run(&shared))?;
        }
        Ok(Self(shared))
    }

    /// Queues a check for a client.
    ///
    /// # Errors
    ///
    /// Too many wait.
    pub fn push(
        &self,
        client: IpAddr,
        check: impl FnOnce() + Send + 'static,
    ) -> Result<(), AccessRefusal> {
        self.0.queue().push(client, Box::new(check))?;
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
    fn new(lengths: PrefixLengths) -> Self {
        Self { lengths, clients: VecDeque::new(), waiting: 0, is_closed: false }
    }

    fn push(&mut self, client: IpAddr, waiting: WaitingCheck) -> Result<(), AccessRefusal> {
        let (subnet, client) = (subnet_of(client, self.lengths), ClientUnit::of(client));
        let neighbours = self.clients.iter().filter(|other| other.subnet == subnet);
        let of_subnet: usize = neighbours.map(|other| other.checks.len()).sum();
        let own = self.clients.iter_mut().find(|other| other.client == client);
        let of_client = own.as_ref().map_or(0, |own| own.checks.len());
        if self.waiting >= WAITING_MAX
            || of_subnet >= WAITING_OF_SUBNET_MAX
            || of_client >= WAITING_OF_CLIENT_MAX
        {
            return Err(AccessRefusal::Busy);
        }
        match own {
            Some(own) => own.checks.push_back(waiting),
            None => {
                let checks = VecDeque::from([waiting]);
                self.clients.push_back(WaitingClient { client, subnet, checks });
            }
        }
        self.waiting += 1;
        Ok(())
    }

    /// Takes a check of the next client, whose next one comes after those of others.
    fn pop(&mut self) -> Option<WaitingCheck> {
        let mut next = self.clients.pop_front()?;
        let waiting = next.checks.pop_front();
        if !next.checks.is_empty() {
            self.clients.push_back(next);
        }
        self.waiting -= usize::from(waiting.is_some());
        waiting
    }
}

/// Runs checks until the checker is dropped, and none is left.
fn run(shared: &SharedChecker) {
    thread_priority::lower(thread_priority::BELOW_EVENT_LOOPS);
    loop {
        let mut queue = shared.queue();
        let check = loop {
            match queue.pop() {
                Some(waiting) => break waiting,
                None if queue.is_closed => return,
                None => {
                    queue = shared.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
            }
        };
        drop(queue);
        check();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const LENGTHS: PrefixLengths = PrefixLengths { v4: 24, v6: 48 };

    /// Returns the client with this number, in a subnet of four.
    fn client(number: u8) -> IpAddr {
        [192, 0, number / 4, number].into()
    }

    #[test]
    fn clients_take_turns() {
        let mut queue = CheckQueue::new(LENGTHS);
        let (sender, done) = channel();
        for number in [1, 1, 1, 2, 3, 2] {
            let sender = sender.clone();
            queue.push(client(number), Box::new(move || sender.send(number).unwrap())).unwrap();
        }
        drop(sender);
        std::iter::from_fn(|| queue.pop()).for_each(|check| check());
        assert_eq!(done.iter().collect::<Vec<_>>(), [1, 2, 3, 1, 2, 1]);
        assert_eq!(queue.waiting, 0);
    }

    #[test]
    fn waiting_checks_are_bounded_in_all_by_subnet_and_by_client() {
        let mut queue = CheckQueue::new(LENGTHS);
        let mut push = |client: IpAddr| queue.push(client, Box::new(|| ()));
        let mut pushed = |client| (0..200).filter(|_| push(client).is_ok()).count();
        let mut all = 0;
        for number in 0..32 {
            all += pushed(client(number));
            let neighbour = [192, 0, number / 4, 100 + number].into();
            let of_neighbour = pushed(neighbour);
            assert!(number % 4 < 3 || of_neighbour == 0, "{number}");
            all += of_neighbour;
        }
        assert_eq!(all, WAITING_MAX);
        assert_eq!(push(client(200)), Err(AccessRefusal::Busy));
        queue.pop();
        assert_eq!(queue.push(client(200), Box::new(|| ())), Ok(()));
    }

    #[test]
    fn threads_check_what_waits_and_end_with_the_checker() {
        let checker = PasswordChecker::start(LENGTHS).unwrap();
        let shared = Arc::downgrade(&checker.0);
        let (sender, done) = channel();
        for _ in 0..3 {
            let sender = sender.clone();
            checker.push(client(1), move || sender.send(()).unwrap()).unwrap();
        }
        drop((checker, sender));
        assert_eq!(done.iter().count(), 3);
        let has_ended = || {
            thread::sleep(Duration::from_millis(10));
            shared.strong_count() == 0
        };
        assert!((0..1000).any(|_| has_ended()));
    }
}
