//! Damage to a store on disk: files overwritten or cut, full disks, read-only folders.

mod support;

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use path_store::Backend;
use path_store::Request;
use path_store::Role;
use path_store::SqliteOptions;
use path_store::SqliteStore;
use path_store::SystemBootClock;
use quiche::path_state::PathStateStore;
use rusqlite::Connection;
use support::endpoint;
use support::nth_endpoint;
use support::open;
use support::random::Random;
use support::state;
use support::RTT;

const CLIENT: &str = "198.51.100.7";

/// Variable of a test that runs again inside a mount namespace: its small disk.
const DISK: &str = "PATH_STORE_TEST_DISK";

const SETS: u64 = 300;
const PAGE_BYTES: u64 = 2048;

/// Truncates the file, for each fourth seed, or overwrites 16 bytes in each of three places.
/// Returns how many of the places are in pages in use.
fn damage(path: &Path, seed: u64, pages_in_use: &[bool]) -> usize {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    let mut random = Random(seed);
    let mut place = || random.below(length - 16);
    if seed % 4 == 3 {
        file.set_len(place()).unwrap();
        return 3;
    }

    let places = [place(), place(), place()];
    for place in places {
        let noise = [place.wrapping_mul(0x9e37_79b9_7f4a_7c15), !seed];
        let noise: Vec<u8> = noise.iter().flat_map(|word| word.to_le_bytes()).collect();
        file.write_all_at(&noise, place).unwrap();
    }
    places.iter().filter(|place| pages_in_use[(**place / PAGE_BYTES) as usize]).count()
}

/// Returns which pages of a database are not on its list of free ones.
fn pages_in_use(path: &Path) -> Vec<bool> {
    let conn = Connection::open(path).unwrap();
    let number = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let (pages, free) = (number("PRAGMA page_count"), number("PRAGMA freelist_count"));
    assert_eq!((number("PRAGMA page_size"), free), (PAGE_BYTES as i64, 0), "all are in use");

    vec![true; pages as usize]
}

/// Checks that damage anywhere costs entries and never the store.
fn damage_copies(seeds: u64) {
    let origin = tempfile::tempdir().unwrap();
    let whole = origin.path().join("paths.db");
    let store = open(&whole);
    let record = |n| Request::Record(nth_endpoint(n), state(n));
    store.perform(&(0..SETS).map(record).collect::<Vec<_>>()).unwrap();
    drop(store);
    let in_use = pages_in_use(&whole);
    let (mut hits, mut quarantined) = (0, 0);

    for seed in 1..=seeds {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("paths.db");
        std::fs::copy(&whole, &path).unwrap();
        let opened_before = (seed % 2 == 0).then(|| open(&path));
        hits += usize::from(damage(&path, seed, &in_use) > 0);

        let store = opened_before.unwrap_or_else(|| open(&path));
        for n in 0..SETS {
            // What cannot be read is a miss, or at worst an error once.
            let kept = store.get(&nth_endpoint(n)).unwrap_or_default();
            assert!(kept.is_none_or(|set| set.saved_cwnd == n), "seed {seed}: {kept:?}");
        }
        let claimed = (0..3).any(|_| {
            let recorded = store.record(&endpoint(CLIENT), &state(100)).is_ok();
            recorded && store.claim(&endpoint(CLIENT), RTT).is_ok_and(|claim| claim.is_some())
        });
        assert!(claimed, "seed {seed}");
        quarantined += store.counters().databases_quarantined;

        // The next opening finds damage that no call met.
        drop(store);
        let store = open(&path);
        store.record(&endpoint(CLIENT), &state(100)).unwrap();
        assert!(store.get(&endpoint(CLIENT)).unwrap().is_some(), "seed {seed}");
    }
    println!("{seeds} seeds, {hits} hit pages in use, {quarantined} stores were quarantined");
    assert!(hits as u64 * 2 >= seeds);
}

// Every byte of the header, with the application ID. Only the lowest bytes of the schema's
// number could be those of a newer version.
#[test]
fn damage_of_header_costs_entries_alone() {
    let origin = tempfile::tempdir().unwrap();
    let whole = origin.path().join("paths.db");
    open(&whole).record(&nth_endpoint(1), &state(1)).unwrap();

    for place in (0..62).chain(64..100) {
        for noise in [0x01, 0xff] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("paths.db");
            let mut bytes = std::fs::read(&whole).unwrap();
            bytes[place] ^= noise;
            std::fs::write(&path, bytes).unwrap();

            let clock = Box::new(SystemBootClock::new().unwrap());
            let store = SqliteStore::open(&path, Role::Server, SqliteOptions::default(), clock);
            let store = store.unwrap_or_else(|error| panic!("byte {place}, {noise:#x}: {error}"));
            let works = (0..2).any(|_| store.record(&endpoint(CLIENT), &state(100)).is_ok());
            assert!(works, "byte {place}, {noise:#x}");
        }
    }
}

#[test]
fn damage_anywhere_costs_entries_alone() {
    damage_copies(60);
}

#[test]
#[ignore = "a minute: make check-long"]
fn damage_of_1000_seeds_costs_entries_alone() {
    damage_copies(1000);
}

/// Runs this test again in a mount namespace with a disk of its own. Returns false if this is
/// that run; skips the test if the system has no mount namespaces.
fn run_with_disk(test: &str, options: &str) -> bool {
    if std::env::var_os(DISK).is_some() {
        return false;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = r#"mount -t tmpfs -o "$1" tmpfs "$2" && exec "$3" "$4" --exact --nocapture"#;
    let may = Command::new("unshare").args(["-rm", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("{test}: skipped: this system gives no mount namespaces away");
        return true;
    }
    let status = Command::new("unshare")
        .args(["-rm", "sh", "-c", script, "sh", options])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env(DISK, folder.path())
        .status()
        .unwrap();
    assert!(status.success());

    true
}

#[test]
fn full_disk_is_an_error_that_keeps_records() {
    if run_with_disk("full_disk_is_an_error_that_keeps_records", "size=600k") {
        return;
    }
    let folder = std::env::var(DISK).unwrap();
    let path = Path::new(&folder).join("paths.db");
    let store = open(&path);
    let fill = |from: u64| {
        let record = |n: &u64| store.record(&nth_endpoint(*n), &state(*n));
        (from..65_000).map(|n| (n, record(&n))).find(|(_, result)| result.is_err())
    };

    let (full_at, error) = fill(0).expect("a full disk");
    let error = error.unwrap_err().to_string();
    assert!(error.contains("full") && !error.contains('\n'), "{error}");
    // Acknowledged records are there; a claim may fail.
    for n in 0..full_at {
        assert_eq!(store.get(&nth_endpoint(n)).unwrap().map(|set| set.saved_cwnd), Some(n));
        let _ = store.claim(&nth_endpoint(n), RTT);
    }
    assert_eq!(store.counters().databases_quarantined, 0);

    // Another process gets one line, or the store.
    let clock = Box::new(SystemBootClock::new().unwrap());
    let options = SqliteOptions::default();
    if let Err(error) = SqliteStore::open(&path, Role::Server, options, clock) {
        assert!(error.to_string().contains("full"), "{error}");
    }

    // With more room, the store works again.
    let grow = Command::new("mount").args(["-o", "remount,size=64m"]).arg(&folder).status();
    assert!(grow.unwrap().success());
    let (later, _) = (full_at..full_at + 500)
        .map(|n| (n, store.record(&nth_endpoint(n), &state(n)).unwrap()))
        .last()
        .unwrap();
    drop(store);
    let store = open(&path);
    for n in 0..=later {
        assert_eq!(store.get(&nth_endpoint(n)).unwrap().map(|set| set.saved_cwnd), Some(n));
    }
}

#[test]
fn read_only_disk_is_one_clear_line() {
    if run_with_disk("read_only_disk_is_one_clear_line", "size=4m") {
        return;
    }
    let folder = std::env::var(DISK).unwrap();
    let path = Path::new(&folder).join("paths.db");
    open(&path).record(&endpoint(CLIENT), &state(100)).unwrap();
    let remount = |how: &str| {
        let status = Command::new("mount").args(["-o", how]).arg(&folder).status();
        assert!(status.unwrap().success());
    };

    remount("remount,ro");
    for role in [Role::Server, Role::Tool] {
        let clock = Box::new(SystemBootClock::new().unwrap());
        let error = SqliteStore::open(&path, role, SqliteOptions::default(), clock).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("cannot write the store") && !error.contains('\n'), "{error}");
    }
    remount("remount,rw");
    assert!(open(&path).get(&endpoint(CLIENT)).unwrap().is_some());
}
