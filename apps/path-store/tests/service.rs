//! Service of a store to an event loop: it never blocks, keeps releases, and answers once.

mod support;

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use path_store::Answer;
use path_store::Backend;
use path_store::Outcome;
use path_store::Request;
use path_store::ServiceOptions;
use path_store::StoreHandle;
use path_store::StoreService;
use path_store::SWEEP_MAX;
use quiche::path_state::Claim;
use quiche::path_state::ClaimToken;
use quiche::path_state::MemoryStore;
use quiche::path_state::PathState;
use quiche::path_state::PathStateStore;
use quiche::path_state::RemoteEndpoint;
use quiche::path_state::StoreError;
use support::endpoint;
use support::nth_endpoint;
use support::open;
use support::state;
use support::RTT;

/// The longest wait for an event.
const TIMEOUT: Duration = Duration::from_secs(60);

const CLIENT: &str = "198.51.100.7";

/// Observation and control of a [`GatedStore`].
#[derive(Default)]
struct Control {
    /// The batches so far.
    batches: Mutex<Vec<Vec<Request>>>,

    /// How many of the next batches fail, or panic.
    failures: AtomicUsize,
    panics: AtomicUsize,
}

/// A memory store whose thread waits for a permit before each batch.
struct GatedStore {
    store: MemoryStore,
    permits: Mutex<mpsc::Receiver<()>>,
    control: Arc<Control>,
}

impl GatedStore {
    fn new() -> (Box<Self>, mpsc::Sender<()>, Arc<Control>) {
        let (permit, permits) = mpsc::channel();
        let control = Arc::new(Control::default());
        let gate = GatedStore {
            store: MemoryStore::new(1000),
            permits: Mutex::new(permits),
            control: control.clone(),
        };

        (Box::new(gate), permit, control)
    }
}

impl PathStateStore for GatedStore {
    fn get(&self, endpoint: &RemoteEndpoint) -> Result<Option<PathState>, StoreError> {
        self.store.get(endpoint)
    }

    fn claim(&self, endpoint: &RemoteEndpoint, rtt: Duration) -> Result<Option<Claim>, StoreError> {
        self.store.claim(endpoint, rtt)
    }

    fn record(&self, endpoint: &RemoteEndpoint, observed: &PathState) -> Result<(), StoreError> {
        self.store.record(endpoint, observed)
    }

    fn release(&self, endpoint: &RemoteEndpoint, token: ClaimToken) -> Result<(), StoreError> {
        self.store.release(endpoint, token)
    }

    fn forget(
        &self,
        endpoint: &RemoteEndpoint,
        token: ClaimToken,
        used: SystemTime,
    ) -> Result<(), StoreError> {
        self.store.forget(endpoint, token, used)
    }

    fn flush(&self) -> Result<usize, StoreError> {
        self.store.flush()
    }
}

impl Backend for GatedStore {
    // After the permit channel is dropped, the gate is open.
    fn perform(&self, requests: &[Request]) -> Result<Vec<Outcome>, StoreError> {
        let _ = self.permits.lock().unwrap().recv();
        self.control.batches.lock().unwrap().push(requests.to_vec());

        let fails = |n: usize| n.checked_sub(1);
        if self.control.failures.fetch_update(SeqCst, SeqCst, fails).is_ok() {
            return Err("the disk is on fire".into());
        }
        let panics = self.control.panics.fetch_update(SeqCst, SeqCst, fails);
        assert!(panics.is_err(), "a fault of the store");
        self.store.perform(requests)
    }
}

/// An event loop that does nothing but read answers.
struct Reader {
    handle: StoreHandle,
    woken: mpsc::Receiver<()>,
}

impl Reader {
    fn new(service: &StoreService) -> Self {
        let (wake, woken) = mpsc::channel();
        let wake = Mutex::new(wake);
        let handle = service.handle(Arc::new(move || {
            let _ = wake.lock().unwrap().send(());
        }));

        Reader { handle, woken }
    }

    fn next(&self) -> Answer {
        loop {
            match self.handle.poll() {
                Some(answer) => return answer,
                None => self.woken.recv_timeout(TIMEOUT).expect("to be woken"),
            }
        }
    }

    fn claimed(&self) -> Option<Claim> {
        match self.next() {
            Answer::Claimed { claim, .. } => claim,
            other => panic!("{other:?}"),
        }
    }
}

fn start(backend: Box<dyn Backend>, queue_max: usize) -> StoreService {
    let options = ServiceOptions { queue_max, answers_max: 100, ..Default::default() };
    StoreService::start(backend, options).unwrap()
}

#[test]
fn answers_have_tags_and_come_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let service = start(Box::new(open(&folder.path().join("paths.db"))), 100);
    let reader = Reader::new(&service);
    let (here, there) = (endpoint(CLIENT), endpoint("198.51.101.7"));
    let set = state(100);

    assert!(reader.handle.record(&here, &set));
    assert!(reader.handle.get(7, &here));
    assert!(reader.handle.get(8, &there));
    assert!(reader.handle.claim(9, &here, RTT));
    assert!(reader.handle.claim(10, &here, RTT));

    let answers: Vec<Answer> = (0..4).map(|_| reader.next()).collect();
    let state = |answer: &Answer| match answer {
        Answer::Read { tag, state } => (*tag, state.map(|set| set.saved_cwnd)),
        Answer::Claimed { tag, claim, endpoint } => {
            assert_eq!(*endpoint, here);
            (*tag, claim.map(|claim| claim.state.saved_cwnd))
        }
    };
    let answered: Vec<_> = answers.iter().map(state).collect();
    assert_eq!(answered, [(7, Some(100)), (8, None), (9, Some(100)), (10, None)]);
    assert!(service.flush(TIMEOUT));
    assert!(reader.handle.poll().is_none());

    let metrics = service.metrics();
    assert_eq!((metrics.gets, metrics.hits), (2, 1));
    assert_eq!((metrics.claims, metrics.claims_granted, metrics.records), (2, 1, 1));
}

#[test]
fn queued_requests_share_a_transaction() {
    let (gate, permit, control) = GatedStore::new();
    let service = start(gate, 100);
    let reader = Reader::new(&service);

    for n in 0..50 {
        assert!(reader.handle.get(n, &nth_endpoint(n)));
    }
    drop(permit);
    for n in 0..50 {
        assert_eq!(reader.next(), Answer::Read { tag: n, state: None });
    }

    assert!(control.batches.lock().unwrap().len() <= 2);
    assert!(service.metrics().batches <= 2);
}

#[test]
fn full_queue_keeps_room_for_releases() {
    let (gate, permit, control) = GatedStore::new();
    let service = start(gate, 4);
    let reader = Reader::new(&service);
    let here = endpoint(CLIENT);

    // Reads leave room for claims. The thread may have taken the first requests already.
    let reads = (0..20).filter(|&n| reader.handle.get(n, &here)).count();
    assert!((2..=4).contains(&reads), "{reads}");
    let claims = (0..20).filter(|&n| reader.handle.claim(n, &here, RTT)).count();
    assert!((2..=4).contains(&claims), "{claims}");
    assert!(!reader.handle.record(&here, &state(1)));
    let taken = reads + claims;
    for n in 0..4 {
        assert!(reader.handle.release(&here, ClaimToken(n)));
    }
    assert_eq!(service.metrics().dropped, 40 - taken as u64 + 1);
    assert_eq!(service.metrics().dropped_ends, 0);
    for n in 0..20 {
        reader.handle.forget(&here, ClaimToken(n), UNIX_EPOCH);
    }
    assert!(service.metrics().dropped_ends >= 12);

    // The store works again, and so does the queue.
    drop(permit);
    for _ in 0..taken {
        reader.next();
    }
    assert!(service.flush(TIMEOUT));
    assert!(reader.handle.get(1, &here));
    reader.next();
    let done = control.batches.lock().unwrap().concat();
    assert_eq!(done.iter().filter(|r| matches!(r, Request::Release(..))).count(), 4);
}

#[test]
fn handle_has_a_bound_of_unread_answers() {
    let service = start(Box::new(MemoryStore::new(10)), 1000);
    let reader = Reader::new(&service);

    let reads = (0..500).filter(|&n| reader.handle.get(n, &endpoint(CLIENT))).count();
    let claims = (0..500).filter(|&n| reader.handle.claim(n, &endpoint(CLIENT), RTT)).count();
    assert_eq!((reads, claims), (50, 50));

    let other = Reader::new(&service);
    assert!(other.handle.get(1, &endpoint(CLIENT)));
    other.next();

    reader.next();
    assert!(!reader.handle.get(1, &endpoint(CLIENT)));
    assert!(reader.handle.claim(1, &endpoint(CLIENT), RTT));
}

#[test]
fn failing_store_is_a_miss_and_releases_are_retried() {
    let (gate, permit, control) = GatedStore::new();
    control.failures.store(2, SeqCst);
    let service = start(gate, 100);
    let reader = Reader::new(&service);
    let here = endpoint(CLIENT);

    assert!(reader.handle.claim(1, &here, RTT));
    assert!(reader.handle.release(&here, ClaimToken(5)));
    assert!(reader.handle.get(2, &here));
    drop(permit);

    assert_eq!(reader.claimed(), None);
    assert_eq!(reader.next(), Answer::Read { tag: 2, state: None });
    assert!(service.flush(TIMEOUT));

    let metrics = service.metrics();
    assert_eq!((metrics.failed, metrics.releases), (2, 1));
    let tries = control.batches.lock().unwrap().concat();
    assert!(tries.iter().filter(|r| matches!(r, Request::Release(..))).count() >= 2);
}

#[test]
fn store_that_panics_fails_and_works_again() {
    let (gate, permit, control) = GatedStore::new();
    drop(permit);
    control.panics.store(1, SeqCst);
    let service = start(gate, 100);
    let reader = Reader::new(&service);
    let monitor = service.monitor();
    let here = endpoint(CLIENT);

    assert!(reader.handle.get(1, &here));
    assert_eq!(reader.next(), Answer::Read { tag: 1, state: None });
    assert!(service.flush(TIMEOUT));
    assert!(monitor.is_failing());

    let observed = state(100);
    assert!(reader.handle.record(&here, &observed));
    assert!(reader.handle.get(2, &here));
    assert_eq!(reader.next(), Answer::Read { tag: 2, state: Some(observed) });
    assert!(service.flush(TIMEOUT));
    assert!(!monitor.is_failing() && service.close(TIMEOUT));
}

// As on a full disk.
#[test]
fn store_that_only_reads_is_failing() {
    let (gate, permit, control) = GatedStore::new();
    drop(permit);
    let service = start(gate, 100);
    let reader = Reader::new(&service);
    let monitor = service.monitor();
    let here = endpoint(CLIENT);
    let perform = |request: &dyn Fn()| {
        request();
        assert!(service.flush(TIMEOUT));
        monitor.is_failing()
    };
    let record = || assert!(reader.handle.record(&here, &state(100)));

    control.failures.store(1, SeqCst);
    assert!(perform(&record));
    assert!(perform(&|| assert!(reader.handle.get(1, &here))), "a read succeeds");
    assert!(!perform(&record));
}

#[test]
fn retries_of_a_release_are_limited() {
    let (gate, permit, control) = GatedStore::new();
    control.failures.store(1000, SeqCst);
    drop(permit);
    let service = start(gate, 100);
    let reader = Reader::new(&service);

    assert!(reader.handle.forget(&endpoint(CLIENT), ClaimToken(5), UNIX_EPOCH));
    assert!(service.close(TIMEOUT));
    assert_eq!(control.batches.lock().unwrap().len(), 5);
}

#[test]
fn unread_claim_is_released() {
    for read_before_drop in [false, true] {
        let (gate, permit, _control) = GatedStore::new();
        let service = start(gate, 100);
        let here = endpoint(CLIENT);
        let first = Reader::new(&service);
        let second = Reader::new(&service);

        first.handle.record(&here, &state(100));
        first.handle.claim(1, &here, RTT);
        if read_before_drop {
            // The answer comes before the handle is dropped, or after.
            permit.send(()).unwrap();
            permit.send(()).unwrap();
            first.woken.recv_timeout(TIMEOUT).unwrap();
        }
        drop(first);
        drop(permit);

        assert!(service.flush(TIMEOUT) && service.flush(TIMEOUT));
        second.handle.claim(2, &here, RTT);
        assert!(second.claimed().is_some());
    }
}

// One sweep per minute would delete fewer entries than are recorded.
#[test]
fn sweep_goes_on_until_nothing_is_left() {
    const SETS: u64 = 5 * SWEEP_MAX as u64 / 2;

    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("paths.db"));
    let old = quiche::clock::wall_now() - 2 * support::HOUR;
    let expired = |n| PathState { observed: old, expires: old + support::HOUR, ..state(n) };
    let records: Vec<Request> =
        (0..SETS).map(|n| Request::Record(nth_endpoint(n), expired(n))).collect();
    store.perform(&records).unwrap();

    // The next sweep but the first is an hour away.
    let options = ServiceOptions { sweep_interval: support::HOUR, ..Default::default() };
    let service = StoreService::start(Box::new(store), options).unwrap();
    let gone = || service.backend_counters().entries_expired;
    for _ in 0..6000 {
        if gone() == SETS {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} of {SETS} are gone", gone());
}

#[test]
fn close_performs_queued_requests() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("paths.db");
    let service = start(Box::new(open(&path)), 1000);
    let reader = Reader::new(&service);

    for n in 0..600 {
        assert!(reader.handle.record(&nth_endpoint(n), &state(n)));
    }
    assert!(service.close(TIMEOUT));
    assert!(!reader.handle.get(1, &endpoint(CLIENT)));

    let store = open(&path);
    for n in 0..600 {
        assert!(store.get(&nth_endpoint(n)).unwrap().is_some(), "{n}");
    }
}

#[test]
fn close_of_a_stuck_store_times_out() {
    let (gate, permit, _control) = GatedStore::new();
    let service = start(gate, 100);
    let reader = Reader::new(&service);
    reader.handle.get(1, &endpoint(CLIENT));

    assert!(!service.flush(Duration::from_millis(10)));
    assert!(!service.close(Duration::from_millis(10)));
    drop(permit);
    reader.next();
}

#[test]
fn event_loops_get_their_own_answers() {
    const LOOPS: u64 = 4;
    const REQUESTS: u64 = 300;

    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder.path().join("paths.db"));
    for n in 0..LOOPS {
        store.record(&nth_endpoint(n), &state(n + 1)).unwrap();
    }
    let service = start(Box::new(store), 1000);

    std::thread::scope(|scope| {
        for n in 0..LOOPS {
            let reader = Reader::new(&service);
            scope.spawn(move || {
                let mut seen = HashMap::new();
                for tag in 0..REQUESTS {
                    assert!(reader.handle.get(tag, &nth_endpoint(n)));
                    let Answer::Read { tag, state } = reader.next() else { panic!() };
                    *seen.entry(tag).or_insert(0) += 1;
                    assert_eq!(state.unwrap().saved_cwnd, n + 1);
                }
                assert_eq!(seen.len() as u64, REQUESTS);
                assert!(seen.values().all(|&times| times == 1));
            });
        }
    });
    assert_eq!(service.metrics().hits, LOOPS * REQUESTS);
}
