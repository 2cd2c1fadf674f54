//! Password checker: threads that check passwords, so that neither event loops nor reads from disk
//! wait for it. Subnets take turns, and clients within them, so that who tries many passwords delays nobody
//! else for long.

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

    /// Subnets in the order of their turns.
    subnets: VecDeque<WaitingSubnet>,
    waiting: usize,
    is_closed: bool,
}

struct WaitingSubnet {
    subnet: IpNet,

    /// Clients in the order of their turns.
    clients: VecDeque<WaitingClient>,
    waiting: usize,
}

struct WaitingClient {
    client: ClientUnit,
    checks: VecDeque<WaitingCheck>,
}

/// Check that waits.
struct WaitingCheck {
    run: Box<dyn FnOnce() + Send>,
    waiter: Box<dyn CheckWaiter>,
}

/// Request that waits for a check.
pub trait CheckWaiter: Send {
    /// Returns whether the client has cancelled the request.
    fn is_cancelled(&self) -> bool;

    /// Has the request handled again: the password is checked, or another check has the place.
    fn wake(self: Box<Self>);
}

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
        run: impl FnOnce() + Send + 'static,
        waiter: Box<dyn CheckWaiter>,
    ) -> Result<(), AccessRefusal> {
        let check = WaitingCheck { run: Box::new(run), waiter };
        let displaced = self.0.queue().push(client, check)?;
        self.0.changed.notify_one();
        if let Some(displaced) = displaced {
            displaced.waiter.wake();
        }
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
        Self { lengths, subnets: VecDeque::new(), waiting: 0, is_closed: false }
    }

    /// Adds a check. Returns the one of which it has the place, if the queue was full.
    fn push(
        &mut self,
        client: IpAddr,
        waiting: WaitingCheck,
    ) -> Result<Option<WaitingCheck>, AccessRefusal> {
        let (subnet, client) = (subnet_of(client, self.lengths), ClientUnit::of(client));
        let own = self.subnets.iter().find(|other| other.subnet == subnet);
        let of_subnet = own.map_or(0, |own| own.waiting);
        let of_client = own.map_or(0, |own| own.of_client(client));
        if of_subnet >= WAITING_OF_SUBNET_MAX || of_client >= WAITING_OF_CLIENT_MAX {
            return Err(AccessRefusal::Busy);
        }
        let displaced = match self.waiting >= WAITING_MAX {
            true => Some(self.displace(of_subnet).ok_or(AccessRefusal::Busy)?),
            false => None,
        };
        self.waiting += 1;
        match self.subnets.iter_mut().find(|other| other.subnet == subnet) {
            Some(own) => own.push(client, waiting),
            None => {
                let mut own = WaitingSubnet { subnet, clients: VecDeque::new(), waiting: 0 };
                own.push(client, waiting);
                self.subnets.push_back(own);
            }
        }
        Ok(displaced)
    }

    /// Takes the last check of the busiest client of the subnet that has most, if that has at least two
    /// more than another.
    fn displace(&mut self, than: usize) -> Option<WaitingCheck> {
        let fullest = self.subnets.iter_mut().max_by_key(|subnet| subnet.waiting)?;
        let busiest = fullest.clients.iter_mut().max_by_key(|client| client.checks.len())?;
        let displaced =
            (fullest.waiting > than + 1).then(|| busiest.checks.pop_back()).flatten()?;
        fullest.waiting -= 1;
        self.waiting -= 1;
        Some(displaced)
    }

    /// Takes a check of the next subnet, whose next one comes after those of others. Drops those that
    /// nobody waits for any more.
    fn pop(&mut self) -> Option<WaitingCheck> {
        loop {
            let mut next = self.subnets.pop_front()?;
            let before = next.waiting;
            let waiting = next.pop();
            self.waiting -= before - next.waiting;
            if next.waiting > 0 {
                self.subnets.push_back(next);
            }
            if waiting.is_some() {
                return waiting;
            }
        }
    }
}

impl WaitingSubnet {
    fn of_client(&self, client: ClientUnit) -> usize {
        let own = self.clients.iter().find(|other| other.client == client);
        own.map_or(0, |own| own.checks.len())
    }

    fn push(&mut self, client: ClientUnit, waiting: WaitingCheck) {
        self.waiting += 1;
        match self.clients.iter_mut().find(|other| other.client == client) {
            Some(own) => own.checks.push_back(waiting),
            None => {
                self.clients.push_back(WaitingClient { client, checks: VecDeque::from([waiting]) });
            }
        }
    }

    /// Takes a check of the next client that has not cancelled it.
    fn pop(&mut self) -> Option<WaitingCheck> {
        loop {
            let mut next = self.clients.pop_front()?;
            let before = next.checks.len();
            let mut wanted = std::iter::from_fn(|| next.checks.pop_front());
            let waiting = wanted.find(|check| !check.waiter.is_cancelled());
            self.waiting -= before - next.checks.len();
            if !next.checks.is_empty() {
                self.clients.push_back(next);
            }
            if waiting.is_some() {
                return waiting;
            }
        }
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
        (check.run)();
        check.waiter.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering;
    use std::sync::mpsc::channel;
    use std::sync::mpsc::Sender;
    use std::time::Duration;

    const LENGTHS: PrefixLengths = PrefixLengths { v4: 24, v6: 48 };

    /// Request that tells when it is woken.
    struct TestWaiter {
        name: &'static str,
        woken: Sender<&'static str>,
        is_cancelled: Arc<AtomicBool>,
    }

    impl CheckWaiter for TestWaiter {
        fn is_cancelled(&self) -> bool {
            self.is_cancelled.load(Ordering::Relaxed)
        }

        fn wake(self: Box<Self>) {
            let _ = self.woken.send(self.name);
        }
    }

    fn waiter(name: &'static str, woken: &Sender<&'static str>) -> Box<TestWaiter> {
        Box::new(TestWaiter { name, woken: woken.clone(), is_cancelled: Arc::default() })
    }

    fn check(run: impl FnOnce() + Send + 'static) -> WaitingCheck {
        WaitingCheck { run: Box::new(run), waiter: waiter("", &channel().0) }
    }

    /// Returns the client with this number, in a subnet of four.
    fn client(number: u8) -> IpAddr {
        [192, 0, number / 4, number].into()
    }

    #[test]
    fn subnets_and_their_clients_take_turns() {
        let mut queue = CheckQueue::new(LENGTHS);
        let (sender, done) = channel();
        for number in [1, 1, 1, 2, 3, 2, 40, 40] {
            let sender = sender.clone();
            let pushed = queue.push(client(number), check(move || sender.send(number).unwrap()));
            assert!(pushed.unwrap().is_none());
        }
        drop(sender);
        std::iter::from_fn(|| queue.pop()).for_each(|check| (check.run)());
        assert_eq!(done.iter().collect::<Vec<_>>(), [1, 40, 2, 40, 3, 1, 2, 1]);
        assert_eq!(queue.waiting, 0);
    }

    #[test]
    fn waiting_checks_are_bounded_in_all_by_subnet_and_by_client() {
        let mut queue = CheckQueue::new(LENGTHS);
        let mut push = |client: IpAddr| queue.push(client, check(|| ()));
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
    }

    #[test]
    fn full_queue_gives_the_place_of_the_fullest_subnet() {
        let mut queue = CheckQueue::new(LENGTHS);
        let (sender, woken) = channel();
        let subnets = (WAITING_MAX / WAITING_OF_SUBNET_MAX) as u8;
        for number in 0..4 * subnets {
            for _ in 0..WAITING_OF_CLIENT_MAX {
                let waiter = waiter("many", &sender);
                let check = WaitingCheck { run: Box::new(|| ()), waiter };
                assert!(queue.push(client(number), check).unwrap().is_none());
            }
        }
        assert_eq!(queue.waiting, WAITING_MAX);
        let newcomer = client(4 * subnets);
        for _ in 0..WAITING_OF_CLIENT_MAX {
            let displaced = queue.push(newcomer, check(|| ())).unwrap();
            displaced.unwrap().waiter.wake();
            assert_eq!(woken.try_recv(), Ok("many"));
            assert_eq!(queue.waiting, WAITING_MAX);
        }
        // One that was displaced comes again.
        let refused = (0..4 * subnets).filter(|n| queue.push(client(*n), check(|| ())).is_err());
        assert!(refused.count() > 0);
    }

    #[test]
    fn check_of_a_client_that_has_gone_is_not_run() {
        let mut queue = CheckQueue::new(LENGTHS);
        let (sender, _woken) = channel();
        let mut gone = Vec::new();
        for name in ["a", "b", "c"] {
            let waiter = waiter(name, &sender);
            gone.push(Arc::clone(&waiter.is_cancelled));
            assert!(queue.push(client(1), WaitingCheck { run: Box::new(|| ()), waiter }).is_ok());
        }
        for index in [0, 2] {
            gone[index].store(true, Ordering::Relaxed);
        }
        assert!(queue.pop().is_some_and(|check| !check.waiter.is_cancelled()));
        assert!(queue.pop().is_none());
        assert_eq!(queue.waiting, 0);
    }

    #[test]
    fn threads_check_what_waits_and_end_with_the_checker() {
        let checker = PasswordChecker::start(LENGTHS).unwrap();
        let shared = Arc::downgrade(&checker.0);
        let (sender, woken) = channel();
        for name in ["a", "b", "c"] {
            checker.push(client(1), || (), waiter(name, &sender)).unwrap();
        }
        drop((checker, sender));
        assert_eq!(woken.iter().collect::<Vec<_>>(), ["a", "b", "c"]);
        let has_ended = || {
            thread::sleep(Duration::from_millis(10));
            shared.strong_count() == 0
        };
        assert!((0..1000).any(|_| has_ended()));
    }
}
