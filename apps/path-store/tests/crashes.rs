//! Crashes of processes that share a store on disk at full speed.
//!
//! The test kills one of four children at a random moment, again and again. A child is this
//! test program again. It writes what it does, and what the store answered, into a file, which
//! outlives it. The test passes if
//!
//! - the store opens after every kill, and nothing in it is damaged;
//! - every acknowledged record of a child is there, or the next one;
//! - every record that was read had been recorded, for the same endpoint;
//! - no claim was granted during the lease of another that was not released, and every
//!   claim of a killed child ends;
//! - at least half of the kills interrupted a call of the store.

mod support;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use path_store::Backend;
use path_store::BootClock;
use path_store::SqliteStore;
use path_store::SystemBootClock;
use quiche::path_state::PathState;
use quiche::path_state::PathStateStore;
use quiche::path_state::RemoteEndpoint;
use support::child::ChildProcess;
use support::nth_endpoint;
use support::open;
use support::random::Random;
use support::state;
use support::RTT;

const FOLDER: &str = "PATH_STORE_TEST_FOLDER";
const WHO: &str = "PATH_STORE_TEST_WHO";

const PROCESSES: u64 = 4;

/// Endpoints for which one child alone records.
const OWN: u64 = 16;

/// Endpoints that all claim.
const CONTESTED: u64 = 8;

/// Places of the notes, which have 8 bytes.
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

/// Returns the place of the last acknowledged record of a child for an endpoint of its own.
fn recorded_at(who: u64, n: u64) -> u64 {
    FIRST_CHILD + who * CHILD_NOTES + 2 + OWN_NOTES * n
}

/// Returns the place of the record that it is about to make.
fn attempted_at(who: u64, n: u64) -> u64 {
    recorded_at(who, n) + 1
}

fn own_endpoint(who: u64, n: u64) -> RemoteEndpoint {
    nth_endpoint(1000 + who * OWN + n)
}

/// Returns the record of an endpoint with this number, on which its RTT depends.
fn set(key: u64, number: u64) -> PathState {
    let saved_rtt = Duration::from_millis(1 + (number + key) % 100);
    PathState { saved_rtt, limited: false, ..state(number) }
}

fn is_whole(key: u64, set: &PathState) -> bool {
    set.saved_rtt == Duration::from_millis(1 + (set.saved_cwnd + key) % 100)
}

/// Work of one child.
struct Writer {
    store: SqliteStore,
    notes: Notes,
    clock: SystemBootClock,
    who: u64,
}

impl Writer {
    /// Calls the store, and notes that it is inside the call.
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
        self.notes.set(attempted_at(self.who, n), number);
        self.call(|store| store.record(&here, &set(key, number))).unwrap();
        self.notes.set(recorded_at(self.who, n), number);

        match self.call(|store| store.get(&here)).unwrap() {
            Some(kept) if kept.saved_cwnd == number && is_whole(key, &kept) => (),
            other => self.notes.violation(format_args!("{here}: {other:?}, not {number}")),
        }
    }

    /// Claims an endpoint that others claim too.
    fn claim(&self, n: u64, number: u64) {
        let here = nth_endpoint(n);
        let (end_at, holder_at) = (1 + 2 * n, 2 + 2 * n);
        let before_us = self.now_us();
        let Some(claim) = self.call(|store| store.claim(&here, RTT)).unwrap() else {
            let observed = set(5000 + n, number);
            return self.call(|store| store.record(&here, &observed)).unwrap();
        };
        let after_us = self.now_us();

        // The last holder's lease began at the noted time or before.
        if self.notes.get(holder_at) != 0 && after_us < self.notes.get(end_at) {
            self.notes.violation(format_args!("{here} has two holders"));
        }
        if !is_whole(5000 + n, &claim.state) {
            self.notes.violation(format_args!("{here}: torn: {:?}", claim.state));
        }
        // The lease began after the request: it ends no earlier than this.
        self.notes.set(end_at, before_us + claim.lease.as_micros() as u64);
        self.notes.set(holder_at, 1 + self.who);
        self.call(|store| store.record(&here, &set(5000 + n, number))).unwrap();
        self.notes.set(holder_at, 0);
        self.call(|store| store.release(&here, claim.token)).unwrap();
    }

    /// Claims and forgets an endpoint of its own, a new one each time because of the hold-off.
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

// Not a test by itself: the part of the children.
#[test]
fn child_process() {
    let (Ok(folder), Ok(who)) = (std::env::var(FOLDER), std::env::var(WHO)) else {
        return;
    };
    let folder = Path::new(&folder);
    let (who, first) = who.split_once(' ').unwrap();
    let writer = Writer {
        store: open(&folder.join("paths.db")),
        notes: Notes::open(folder),
        clock: SystemBootClock::new().unwrap(),
        who: who.parse().unwrap(),
    };

    let mut random = Random(first.parse().unwrap());
    for number in first.parse::<u64>().unwrap().. {
        match random.below(8) {
            0 => writer.forget(writer.who * 10_000 + number % 10_000),
            1..4 => writer.claim(random.below(CONTESTED), number),
            _ => writer.record(random.below(OWN), number),
        }
    }
}

fn spawn(folder: &Path, who: u64, first: u64) -> ChildProcess {
    let who = format!("{who} {first}");
    ChildProcess::spawn([(FOLDER, folder.as_os_str()), (WHO, who.as_ref())])
}

/// Checks every acknowledged record of a killed child.
fn check(folder: &Path, notes: &Notes, who: u64) {
    let store = open(&folder.join("paths.db"));
    for n in 0..OWN {
        let kept = store.get(&own_endpoint(who, n)).unwrap();
        let kept_number = kept.map_or(0, |set| set.saved_cwnd);
        let numbers = [notes.get(recorded_at(who, n)), notes.get(attempted_at(who, n))];
        assert!(numbers.contains(&kept_number), "child {who}, {n}: {kept_number} of {numbers:?}");
        assert!(kept.is_none_or(|set| is_whole(who * OWN + n, &set)), "{kept:?}");
    }
    let counters = store.counters();
    assert_eq!((counters.records_damaged, counters.databases_quarantined), (0, 0));
}

/// Kills children `kills` times. Returns how many were inside a call.
fn kill_writers(kills: u64) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let notes = Notes::open(folder.path());
    let store = open(&folder.path().join("paths.db"));
    for n in 0..CONTESTED {
        store.record(&nth_endpoint(n), &set(5000 + n, 1)).unwrap();
    }
    let mut random = Random(kills);
    let mut children: Vec<ChildProcess> =
        (0..PROCESSES).map(|who| spawn(folder.path(), who, 1)).collect();
    let mut inside = 0;

    for kill in 1..=kills {
        let who = random.below(PROCESSES);
        let base = FIRST_CHILD + who * CHILD_NOTES;
        // A child that has just started proves nothing.
        let begun = notes.get(base + CALLS);
        while notes.get(base + CALLS) < begun + 20 {
            std::thread::sleep(Duration::from_millis(1));
            assert!(children[who as usize].is_running(), "it failed by itself");
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
        // A claim lasts three seconds; the speed of this machine does not matter.
        let claim = (0..1500).find_map(|_| {
            std::thread::sleep(Duration::from_millis(20));
            store.claim(&nth_endpoint(n), RTT).unwrap()
        });
        assert!(claim.is_some(), "the claim on {n} does not lapse");
    }

    inside
}

#[test]
fn store_survives_killed_writers() {
    let inside = kill_writers(20);
    assert!(inside > 0);
}

#[test]
#[ignore = "a minute: make check-long"]
fn store_survives_200_killed_writers() {
    let inside = kill_writers(200);
    assert!(inside >= 100, "only {inside} of 200 kills came inside a call");
}
