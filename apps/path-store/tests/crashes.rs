//! Crashes of processes that share a store on disk at full speed.
//!
//! Of four, one is killed at a random moment, again and again. A child is this test
//! program again. What it does and what the store answered it notes in a file, byte
//! by byte in place: notes outlive it. Passes when
//!
//! - the store opens after every kill, and nothing in it is damaged;
//! - what a child recorded, and was told so, is there, or what it recorded next;
//! - nothing was read that nobody recorded, or that is of another endpoint;
//! - no claim was granted while another's lease had not ended and it was not
//!   released, and every claim of a dead child lapses;
//! - at least half of the kills came inside a call of the store.

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

use path_store::Backend;
use path_store::BootClock;
use path_store::SqliteStore;
use path_store::SystemBootClock;
use quiche::path_state::PathState;
use quiche::path_state::PathStateStore;
use quiche::path_state::RemoteEndpoint;
use support::nth_endpoint;
use support::open;
use support::state;
use support::RTT;

const FOLDER: &str = "PATH_STORE_TEST_FOLDER";
const WHO: &str = "PATH_STORE_TEST_WHO";

const PROCESSES: u64 = 4;

/// Endpoints that one child alone records for.
const OWN: u64 = 16;

/// Endpoints that all claim.
const CONTESTED: u64 = 8;

/// Notes are of 8 bytes, in these places.
const OWN_NOTES: u64 = 2;
const VIOLATIONS: u64 = 0;
const FIRST_CHILD: u64 = 1 + 2 * CONTESTED;
const CHILD_NOTES: u64 = 2 + OWN_NOTES * OWN;

/// A child's own state: whether it is inside a call, and how many calls it made.
const INSIDE: u64 = 0;
const CALLS: u64 = 1;

/// Numbers in a file that processes share.
struct Notes(File);

impl Notes {
    fn open(folder: &Path) -> Self {
        let path = folder.join("notes");
        let file = File::options().create(true).truncate(false).read(true).write(true).open(path);
        Notes(file.unwrap())
    }

    fn get(&self, place: u64) -> u64 {
        let mut bytes = [0; 8];
        match self.0.read_exact_at(&mut bytes, 8 * place) {
            Ok(()) => u64::from_ne_bytes(bytes),
            Err(_) => 0,
        }
    }

    fn set(&self, place: u64, value: u64) {
        self.0.write_all_at(&value.to_ne_bytes(), 8 * place).unwrap();
    }

    fn violation(&self, what: std::fmt::Arguments) {
        eprintln!("violation: {what}");
        self.set(VIOLATIONS, self.get(VIOLATIONS) + 1);
    }
}

/// Returns where a child notes what it was told of an endpoint of its own.
fn told(who: u64, n: u64) -> u64 {
    FIRST_CHILD + who * CHILD_NOTES + 2 + OWN_NOTES * n
}

/// Returns where it notes what it is about to record.
fn tried(who: u64, n: u64) -> u64 {
    told(who, n) + 1
}

fn own_endpoint(who: u64, n: u64) -> RemoteEndpoint {
    nth_endpoint(1000 + who * OWN + n)
}

/// Returns the record of an endpoint with this number: its fields hang together.
fn set(key: u64, number: u64) -> PathState {
    let saved_rtt = Duration::from_millis(1 + (number + key) % 100);
    PathState { saved_rtt, limited: false, ..state(number) }
}

fn is_whole(key: u64, set: &PathState) -> bool {
    set.saved_rtt == Duration::from_millis(1 + (set.saved_cwnd + key) % 100)
}

/// Random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}

/// One child's work.
struct Worker {
    store: SqliteStore,
    notes: Notes,
    clock: SystemBootClock,
    who: u64,
}

impl Worker {
    /// Calls the store, noting that it is inside.
    fn call<T>(&self, work: impl FnOnce(&SqliteStore) -> T) -> T {
        let base = FIRST_CHILD + self.who * CHILD_NOTES;
        self.notes.set(base + INSIDE, 1);
        let value = work(&self.store);
        self.notes.set(base + INSIDE, 0);
        self.notes.set(base + CALLS, self.notes.get(base + CALLS) + 1);

        value
    }

    fn now_us(&self) -> u64 {
        self.clock.since_boot().as_micros() as u64
    }

    /// Records for an endpoint of its own, or forgets it.
    fn record(&self, n: u64, number: u64) {
        let here = own_endpoint(self.who, n);
        let key = self.who * OWN + n;
        self.notes.set(tried(self.who, n), number);
        self.call(|store| store.record(&here, &set(key, number))).unwrap();
        self.notes.set(told(self.who, n), number);

        match self.call(|store| store.get(&here)).unwrap() {
            Some(kept) if kept.saved_cwnd == number && is_whole(key, &kept) => (),
            other => self.notes.violation(format_args!("{here}: {other:?}, not {number}")),
        }
    }

    /// Claims what others claim too.
    fn claim(&self, n: u64, number: u64) {
        let here = nth_endpoint(n);
        let (end_at, holder_at) = (1 + 2 * n, 2 + 2 * n);
        let before_us = self.now_us();
        let Some(claim) = self.call(|store| store.claim(&here, RTT)).unwrap() else {
            let observed = set(5000 + n, number);
            return self.call(|store| store.record(&here, &observed)).unwrap();
        };
        let after_us = self.now_us();

        // The last holder's lease began no later than it noted.
        if self.notes.get(holder_at) != 0 && after_us < self.notes.get(end_at) {
            self.notes.violation(format_args!("{here} has two holders"));
        }
        if !is_whole(5000 + n, &claim.state) {
            self.notes.violation(format_args!("{here}: torn: {:?}", claim.state));
        }
        // From before it was asked for: it ends no earlier than that.
        self.notes.set(end_at, before_us + claim.lease.as_micros() as u64);
        self.notes.set(holder_at, 1 + self.who);
        self.call(|store| store.record(&here, &set(5000 + n, number))).unwrap();
        self.notes.set(holder_at, 0);
        self.call(|store| store.release(&here, claim.token)).unwrap();
    }

    /// Claims and forgets an endpoint that it has to itself; then there is a
    /// hold-off, and another is next.
    fn forget(&self, n: u64) {
        let here = nth_endpoint(10_000 + n % 50_000);
        self.call(|store| store.record(&here, &set(n, n))).unwrap();
        if let Some(claim) = self.call(|store| store.claim(&here, RTT)).unwrap() {
            let used = claim.state.observed;
            self.call(|store| store.forget(&here, claim.token, used)).unwrap();
            if self.call(|store| store.get(&here)).unwrap().is_some() {
                self.notes.violation(format_args!("{here} is not forgotten"));
            }
        }
    }
}

// Not a test by itself: the children's part.
#[test]
fn child_process() {
    let (Ok(folder), Ok(who)) = (std::env::var(FOLDER), std::env::var(WHO)) else {
        return;
    };
    let folder = Path::new(&folder);
    let (who, first) = who.split_once(' ').unwrap();
    let worker = Worker {
        store: open(&folder.join("paths.db")),
        notes: Notes::open(folder),
        clock: SystemBootClock::new().unwrap(),
        who: who.parse().unwrap(),
    };

    let mut random = Random(first.parse().unwrap());
    for number in first.parse::<u64>().unwrap().. {
        match random.below(8) {
            0 => worker.forget(worker.who * 10_000 + number % 10_000),
            1..4 => worker.claim(random.below(CONTESTED), number),
            _ => worker.record(random.below(OWN), number),
        }
    }
}

/// Kills what a failed test leaves behind.
struct Guard(Child);

impl Guard {
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(folder: &Path, who: u64, first: u64) -> Guard {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["child_process", "--exact", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder)
        .env(WHO, format!("{who} {first}"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    Guard(child.unwrap())
}

/// Checks that everything a dead child was told is true.
fn check(folder: &Path, notes: &Notes, who: u64) {
    let store = open(&folder.join("paths.db"));
    for n in 0..OWN {
        let kept = store.get(&own_endpoint(who, n)).unwrap();
        let kept_number = kept.map_or(0, |set| set.saved_cwnd);
        let numbers = [notes.get(told(who, n)), notes.get(tried(who, n))];
        assert!(numbers.contains(&kept_number), "child {who}, {n}: {kept_number} of {numbers:?}");
        assert!(kept.is_none_or(|set| is_whole(who * OWN + n, &set)), "{kept:?}");
    }
    let counters = store.counters();
    assert_eq!((counters.records_damaged, counters.databases_quarantined), (0, 0));
}

/// Kills children so many times. Returns how many were inside a call.
fn kill_again_and_again(kills: u64) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let notes = Notes::open(folder.path());
    let store = open(&folder.path().join("paths.db"));
    for n in 0..CONTESTED {
        store.record(&nth_endpoint(n), &set(5000 + n, 1)).unwrap();
    }
    let mut random = Random(kills);
    let mut children: Vec<Guard> = (0..PROCESSES).map(|who| spawn(folder.path(), who, 1)).collect();
    let mut inside = 0;

    for kill in 1..=kills {
        let who = random.below(PROCESSES);
        let base = FIRST_CHILD + who * CHILD_NOTES;
        // A child that has only begun to work is no witness.
        let begun = notes.get(base + CALLS);
        while notes.get(base + CALLS) < begun + 20 {
            std::thread::sleep(Duration::from_millis(1));
            assert!(children[who as usize].0.try_wait().unwrap().is_none(), "it failed by itself");
        }
        std::thread::sleep(Duration::from_micros(random.below(20_000)));

        let child = &mut children[who as usize];
        child.kill();
        inside += notes.get(base + INSIDE);
        check(folder.path(), &notes, who);
        notes.set(base + INSIDE, 0);
        *child = spawn(folder.path(), who, 1 + kill * 1_000_000);
    }
    for child in &mut children {
        child.kill();
    }

    let calls: u64 =
        (0..PROCESSES).map(|who| notes.get(FIRST_CHILD + who * CHILD_NOTES + CALLS)).sum();
    println!("{kills} kills, {inside} of them inside a call; {calls} calls");
    assert_eq!(notes.get(VIOLATIONS), 0);
    for n in 0..CONTESTED {
        // A claim lasts three seconds; how slow this machine is does not matter.
        let claim = (0..1500).find_map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            store.claim(&nth_endpoint(n), RTT).unwrap()
        });
        assert!(claim.is_some(), "the claim on {n} does not lapse");
    }

    inside
}

#[test]
fn a_store_survives_its_writers() {
    let inside = kill_again_and_again(20);
    assert!(inside > 0);
}

#[test]
#[ignore = "a minute: make check-long"]
fn a_store_survives_its_writers_200_times() {
    let inside = kill_again_and_again(200);
    assert!(inside >= 100, "only {inside} of 200 kills came inside a call");
}
