//! Store on disk, beyond the rules that all stores share: restarts, damage, and unusable files.

mod support;

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Barrier;
use std::time::Duration;

use path_store::Admin;
use path_store::Backend;
use path_store::Entry;
use path_store::RecordStatus;
use path_store::Request;
use path_store::Role;
use path_store::SqliteOptions;
use path_store::SqliteStore;
use path_store::SystemBootClock;
use quiche::clock::Simulation;
use quiche::path_state::ClaimToken;
use quiche::path_state::PathState;
use quiche::path_state::PathStateStore;
use quiche::path_state::LINGER;
use rusqlite::Connection;
use support::endpoint;
use support::key_on_disk;
use support::nth_endpoint;
use support::open;
use support::open_with;
use support::simulation;
use support::state;
use support::wall;
use support::SetBoot;
use support::HOUR;
use support::RTT;
use support::WALL_START;

const CLIENT: &str = "198.51.100.7";
const NEIGHBOUR: &str = "198.51.101.7";
const OUR_SCHEMA: u32 = 3;
const PAGE_BYTES: u64 = 2048;

/// A folder for one store.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("paths.db")
    }

    /// Makes a closed store with records of so many endpoints.
    fn with_records(records: u64) -> Self {
        let folder = Self::new();
        let store = open(&folder.path());
        let record = |n| Request::Record(nth_endpoint(n), state(n));
        store.perform(&(0..records).map(record).collect::<Vec<_>>()).unwrap();

        folder
    }

    /// Changes the database behind the store's back.
    fn edit(&self, sql: &str) {
        Connection::open(self.path()).unwrap().execute_batch(sql).unwrap();
    }

    /// Returns the files in quarantine, without their logs.
    fn quarantined(&self) -> Vec<PathBuf> {
        let files = self.0.path().read_dir().unwrap().map(|file| file.unwrap().path());
        files
            .filter(|path| {
                let name = path.file_name().unwrap().to_str().unwrap();
                let is_log = name.ends_with("-wal") || name.ends_with("-shm");
                name.starts_with("paths.db.corrupt-") && !is_log
            })
            .collect()
    }
}

fn open_error(path: &Path, role: Role) -> String {
    let clock = Box::new(SystemBootClock::new().unwrap());
    let error = SqliteStore::open(path, role, SqliteOptions::default(), clock).unwrap_err();
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");

    text
}

fn entries(store: &SqliteStore) -> Vec<Entry> {
    let mut entries = Vec::new();
    store.entries(&mut |entry| entries.push(entry)).unwrap();
    entries
}

/// Overwrites every page behind the first: the schema stays, the tables do not.
fn damage_pages(path: &Path) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    let noise: Vec<u8> = (PAGE_BYTES..length).map(|i| (i * 31 % 251) as u8).collect();
    file.write_all_at(&noise, PAGE_BYTES).unwrap();
}

#[test]
fn records_and_claims_survive_a_restart() {
    let folder = Folder::new();
    let here = endpoint(CLIENT);
    let set = state(100);

    let store = open(&folder.path());
    store.record(&here, &set).unwrap();
    let claim = store.claim(&here, RTT).unwrap().unwrap();
    drop(store);

    let store = open(&folder.path());
    assert!(store.get(&here).unwrap().is_some());
    assert_eq!(store.claim(&here, RTT).unwrap(), None);
    store.release(&here, claim.token).unwrap();
    assert!(store.claim(&here, RTT).unwrap().is_some());
}

#[test]
fn reboot_keeps_retreats_alone() {
    let _time = simulation();
    let folder = Folder::new();
    let clock = SetBoot::new(1, HOUR * 1000);
    let store = open_with(&folder.path(), clock.clone());
    let (claimed, held_off) = (endpoint("198.51.100.7"), endpoint("198.51.101.7"));

    store.record(&claimed, &state(100)).unwrap();
    let old = store.claim(&claimed, RTT).unwrap().unwrap();
    store.record(&held_off, &state(100)).unwrap();
    let retreating = store.claim(&held_off, RTT).unwrap().unwrap();
    store.forget(&held_off, retreating.token, quiche::clock::wall_now()).unwrap();

    clock.set(2, Duration::from_secs(1));
    store.release(&claimed, old.token).unwrap();
    assert!(store.claim(&claimed, RTT).unwrap().is_some());
    assert_eq!(store.claim(&claimed, RTT).unwrap(), None);

    store.record(&held_off, &state(100)).unwrap();
    assert!(store.get(&held_off).unwrap().is_some());
    assert_eq!(entries(&store).iter().map(|entry| entry.retreats).max(), Some(1));
}

#[test]
fn wall_clock_moves_neither_leases_nor_hold_offs() {
    let folder = Folder::new();
    let clock = SetBoot::new(1, HOUR);
    let (claimed, held_off) = (endpoint("198.51.100.7"), endpoint("198.51.101.7"));
    let day = HOUR * 24;

    let time = simulation();
    let store = open_with(&folder.path(), clock.clone());
    let long = PathState { expires: wall(day * 9), ..state(100) };
    store.record(&claimed, &long).unwrap();
    store.claim(&claimed, RTT).unwrap().unwrap();
    store.record(&held_off, &long).unwrap();
    let token = store.claim(&held_off, RTT).unwrap().unwrap().token;
    store.forget(&held_off, token, quiche::clock::wall_now()).unwrap();
    drop(time);

    for offset in [WALL_START - day, WALL_START + HOUR] {
        let _time = Simulation::start(1, offset);
        assert_eq!(store.claim(&claimed, RTT).unwrap(), None);
        store.sweep().unwrap();
        store.record(&held_off, &state(100)).unwrap();
        assert_eq!(store.get(&held_off).unwrap(), None);
    }

    let _time = simulation();
    clock.set(1, HOUR + Duration::from_secs(60));
    assert!(store.claim(&claimed, RTT).unwrap().is_some());
    store.record(&held_off, &state(100)).unwrap();
    assert!(store.get(&held_off).unwrap().is_some());
}

#[test]
fn damaged_record_is_a_miss_and_removed() {
    let another = key_on_disk(&endpoint(CLIENT));
    for (damage, client) in [
        ("state = zeroblob(34)", NEIGHBOUR),
        ("state = NULL", NEIGHBOUR),
        ("expires_ms = expires_ms + 1", NEIGHBOUR),
        ("retreats = 1", NEIGHBOUR),
        ("checksum = checksum + 1", NEIGHBOUR),
        ("checksum = -1", NEIGHBOUR),
        ("endpoint = '192.0.2.1>198.51.100.0/24'", NEIGHBOUR),
        (&format!("key = {another}"), CLIENT),
        (&format!("key = {another}, endpoint = '192.0.2.1>198.51.100.0/24'"), CLIENT),
    ] {
        let folder = Folder::new();
        open(&folder.path()).record(&endpoint(NEIGHBOUR), &state(100)).unwrap();
        folder.edit(&format!("UPDATE path_state SET {damage}"));

        let store = open(&folder.path());
        assert_eq!(entries(&store)[0].status, RecordStatus::Damaged, "{damage}");
        assert_eq!(store.get(&endpoint(client)).unwrap(), None, "{damage}");
        assert_eq!(store.counters().records_damaged, 1, "{damage}");
        assert_eq!(entries(&store), [], "{damage}");
    }
}

// Two endpoints with one key, as if their hashes had the same beginning.
#[test]
fn record_under_anothers_key_is_a_miss() {
    let folder = Folder::new();
    let (here, there) = (endpoint(CLIENT), endpoint(NEIGHBOUR));
    let store = open(&folder.path());
    store.record(&here, &state(100)).unwrap();
    support::move_to_key(&folder.path(), key_on_disk(&there));

    assert_eq!(store.get(&there).unwrap(), None);
    assert_eq!(store.claim(&there, RTT).unwrap(), None);
    assert_eq!(store.counters().records_damaged, 0);
    assert_eq!(entries(&store)[0].endpoint, here.to_string());

    store.record(&there, &state(200)).unwrap();
    assert_eq!(store.claim(&there, RTT).unwrap().unwrap().state.saved_cwnd, 200);
    assert_eq!(entries(&store).len(), 1);
}

// The holder is unknown: nobody else may get the record.
#[test]
fn damaged_claim_is_removed_with_its_record() {
    let another = key_on_disk(&endpoint(CLIENT));
    for (damage, client) in [
        ("token = 7", NEIGHBOUR),
        ("end_us = 1 << 60", NEIGHBOUR),
        ("boot = zeroblob(16)", NEIGHBOUR),
        (&format!("key = {another}"), CLIENT),
    ] {
        let folder = Folder::new();
        let store = open(&folder.path());
        for client in [CLIENT, NEIGHBOUR] {
            store.record(&endpoint(client), &state(100)).unwrap();
        }
        store.claim(&endpoint(NEIGHBOUR), RTT).unwrap().unwrap();
        folder.edit(&format!("UPDATE claim SET {damage}"));

        let here = endpoint(client);
        assert_eq!(store.claim(&here, RTT).unwrap(), None, "{damage}");
        assert_eq!(store.get(&here).unwrap(), None, "{damage}");
        assert_eq!(store.counters().records_damaged, 1, "{damage}");
        store.record(&here, &state(100)).unwrap();
        assert!(store.claim(&here, RTT).unwrap().is_some(), "{damage}");
    }
}

#[test]
fn records_of_older_schemas_are_dropped() {
    for version in 1..OUR_SCHEMA {
        let folder = Folder::with_records(3);
        folder.edit(&format!(
            "DROP TABLE path_state; DROP TABLE claim; PRAGMA user_version = {version};
             CREATE TABLE path_state (endpoint TEXT PRIMARY KEY, claim_token INTEGER);
             CREATE TABLE claim (endpoint TEXT PRIMARY KEY, token INTEGER)"
        ));

        let store = open(&folder.path());
        assert_eq!(entries(&store), []);
        store.record(&nth_endpoint(1), &state(1)).unwrap();
        assert!(store.claim(&nth_endpoint(1), RTT).unwrap().is_some());
        assert_eq!(folder.quarantined(), [] as [PathBuf; 0]);
    }
}

#[test]
fn newer_record_is_a_miss_and_stays() {
    let time = simulation();
    let folder = Folder::new();
    let here = endpoint(CLIENT);
    let store = open_with(&folder.path(), SetBoot::new(1, HOUR));
    store.record(&here, &state(100)).unwrap();
    support::make_newer(&folder.path());

    store.record(&here, &state(200)).unwrap();
    store.forget(&here, ClaimToken(0), quiche::clock::wall_now()).unwrap();
    assert_eq!(store.get(&here).unwrap(), None);
    assert_eq!(store.claim(&here, RTT).unwrap(), None);
    store.sweep().unwrap();
    assert_eq!(entries(&store)[0].status, RecordStatus::Newer);
    assert!(store.counters().records_newer > 0);
    assert_eq!(store.counters().records_damaged, 0);

    time.advance_to(HOUR);
    store.record(&here, &state(200)).unwrap();
    assert_eq!(store.get(&here).unwrap(), Some(state(200)));
}

#[test]
fn sweep_deletes_expired_and_future_records() {
    let time = simulation();
    let folder = Folder::new();
    let store = open_with(&folder.path(), SetBoot::new(1, HOUR));

    for n in 0..4 {
        store.record(&nth_endpoint(n), &state(n)).unwrap();
    }
    let claim = store.claim(&nth_endpoint(3), RTT).unwrap().unwrap();
    time.advance_to(HOUR);
    store.record(&nth_endpoint(4), &state(4)).unwrap();

    // A claim stays until its lease ends.
    assert_eq!(store.sweep().unwrap(), 4);
    assert_eq!(entries(&store).len(), 1);
    store.record(&nth_endpoint(3), &state(3)).unwrap();
    assert_eq!(store.claim(&nth_endpoint(3), RTT).unwrap(), None);
    store.release(&nth_endpoint(3), claim.token).unwrap();
    assert!(store.claim(&nth_endpoint(3), RTT).unwrap().is_some());
    store.delete(&nth_endpoint(3).to_string()).unwrap();

    drop(time);
    let _time = Simulation::start(1, WALL_START - HOUR);
    assert_eq!(store.sweep().unwrap(), 1);
    assert_eq!(entries(&store), []);
}

#[test]
fn file_that_is_no_database_is_an_error_and_stays() {
    let folder = Folder::new();
    let configuration = "listen = \"[::]:443\"\n";
    std::fs::write(folder.path(), configuration).unwrap();

    for role in [Role::Server, Role::Tool] {
        let error = open_error(&folder.path(), role);
        assert!(error.contains("paths.db: the file is no store; name another"), "{error}");
    }
    let error = SqliteStore::check(&folder.path()).unwrap_err().to_string();
    assert!(error.contains("is no store"), "{error}");
    assert_eq!(std::fs::read_to_string(folder.path()).unwrap(), configuration);
    assert_eq!(folder.quarantined(), [] as [PathBuf; 0]);
}

#[test]
fn file_of_zeros_is_quarantined() {
    let folder = Folder::new();
    std::fs::write(folder.path(), [0; 4096]).unwrap();

    let store = open(&folder.path());
    assert_eq!(store.counters().databases_quarantined, 1);
    assert_eq!(std::fs::read(&folder.quarantined()[0]).unwrap(), [0; 4096]);

    store.record(&endpoint(CLIENT), &state(100)).unwrap();
    assert!(store.get(&endpoint(CLIENT)).unwrap().is_some());
}

#[test]
fn damaged_store_is_quarantined_with_its_log() {
    let folder = Folder::with_records(500);
    damage_pages(&folder.path());
    std::fs::write(folder.0.path().join("paths.db-wal"), "a log").unwrap();

    let store = open(&folder.path());
    assert_eq!(store.counters().databases_quarantined, 1);
    assert_eq!(entries(&store), []);
    let mut log = folder.quarantined().pop().unwrap().into_os_string();
    log.push("-wal");
    assert!(Path::new(&log).exists());
}

#[test]
fn truncated_store_is_quarantined() {
    let folder = Folder::with_records(500);
    let file = std::fs::OpenOptions::new().write(true).open(folder.path()).unwrap();
    file.set_len(3 * PAGE_BYTES + 100).unwrap();

    let store = open(&folder.path());
    assert_eq!(folder.quarantined().len(), 1);
    store.record(&endpoint(CLIENT), &state(100)).unwrap();
}

#[test]
fn empty_file_becomes_a_store() {
    let folder = Folder::new();
    std::fs::write(folder.path(), "").unwrap();

    let store = open(&folder.path());
    store.record(&endpoint(CLIENT), &state(100)).unwrap();
    assert_eq!(folder.quarantined(), [] as [PathBuf; 0]);
}

// Each opens the file and its lock anew, as processes do.
#[test]
fn store_that_many_open_at_a_time_is_made_once() {
    const OPENERS: usize = 8;
    const ROUNDS: usize = 40;

    for round in 0..ROUNDS {
        let folder = Folder::new();
        let start = Barrier::new(OPENERS);
        let here = endpoint(CLIENT);
        let opened: Vec<SqliteStore> = std::thread::scope(|scope| {
            let open = || {
                start.wait();
                open(&folder.path())
            };
            let openers: Vec<_> = (0..OPENERS).map(|_| scope.spawn(open)).collect();
            openers.into_iter().map(|opener| opener.join().unwrap()).collect()
        });

        opened[0].record(&here, &state(100)).unwrap();
        let see_it = opened.iter().filter(|store| store.get(&here).unwrap().is_some()).count();
        assert_eq!(see_it, OPENERS, "round {round}");
        assert_eq!(folder.quarantined(), [] as [PathBuf; 0], "round {round}");
    }
}

#[test]
fn damage_while_open_moves_all_to_one_new_store() {
    let folder = Folder::with_records(3000);
    let (first, second) = (open(&folder.path()), open(&folder.path()));
    damage_pages(&folder.path());

    // A process still reads the pages in its cache; it meets the damage in others.
    for n in 0..3000 {
        first.get(&nth_endpoint(n)).unwrap();
    }
    assert_eq!(first.counters().databases_quarantined, 1);
    first.record(&endpoint(CLIENT), &state(100)).unwrap();

    assert!(second.get(&endpoint(CLIENT)).unwrap().is_some());
    assert_eq!(second.counters().databases_quarantined, 0);
    assert_eq!(folder.quarantined().len(), 1);

    // The process that moved last does not delete the new store's log.
    let claim = second.claim(&endpoint(CLIENT), RTT).unwrap();
    assert!(claim.is_some());
    drop(second);
    assert_eq!(first.claim(&endpoint(CLIENT), RTT).unwrap(), None);
}

#[test]
fn missing_table_is_created_again() {
    let folder = Folder::with_records(3);
    let store = open(&folder.path());
    store.get(&nth_endpoint(1)).unwrap();
    folder.edit("DROP TABLE path_state");

    let _ = store.get(&nth_endpoint(1));
    assert_eq!(store.get(&nth_endpoint(1)).unwrap(), None);
    store.record(&nth_endpoint(1), &state(1)).unwrap();
}

#[test]
fn deleted_store_is_created_again() {
    let folder = Folder::with_records(3);
    let store = open(&folder.path());
    for suffix in ["", "-wal", "-shm"] {
        std::fs::remove_file(folder.0.path().join(format!("paths.db{suffix}"))).unwrap();
    }

    assert_eq!(store.get(&nth_endpoint(1)).unwrap(), None);
    store.record(&nth_endpoint(1), &state(1)).unwrap();
    assert!(open(&folder.path()).get(&nth_endpoint(1)).unwrap().is_some());
}

#[test]
fn store_behind_a_link_is_quarantined_in_place() {
    let folder = Folder::new();
    let link = folder.0.path().join("link.db");
    std::fs::write(folder.path(), "SQLite format 3\0, damaged").unwrap();
    std::os::unix::fs::symlink(folder.path(), &link).unwrap();

    open(&link).record(&endpoint(CLIENT), &state(100)).unwrap();
    assert_eq!(folder.quarantined().len(), 1);
    assert!(open(&folder.path()).get(&endpoint(CLIENT)).unwrap().is_some());
}

// A tool fails; a server goes on without a store until there is another file.
#[test]
fn newer_schema_is_left_alone() {
    let folder = Folder::with_records(1);
    folder.edit("PRAGMA user_version = 9");
    let before = std::fs::read(folder.path()).unwrap();

    let error = open_error(&folder.path(), Role::Tool);
    assert!(error.contains("schema 9") && error.contains("paths.db"), "{error}");

    let store = open(&folder.path());
    for _ in 0..3 {
        let error = store.record(&nth_endpoint(0), &state(200)).unwrap_err().to_string();
        assert!(error.contains("schema 9") && !error.contains('\n'), "{error}");
        assert!(store.get(&nth_endpoint(0)).is_err());
        assert!(store.claim(&nth_endpoint(0), RTT).is_err());
        assert!(store.sweep().is_err() && store.flush().is_err());
    }
    assert_eq!(std::fs::read(folder.path()).unwrap(), before);
    assert_eq!(folder.quarantined(), [] as [PathBuf; 0]);

    std::fs::remove_file(folder.path()).unwrap();
    store.record(&nth_endpoint(0), &state(200)).unwrap();
    assert!(store.get(&nth_endpoint(0)).unwrap().is_some());
}

// Both versions have the file open, and the older one's statements would work.
#[test]
fn schema_that_becomes_newer_is_not_written() {
    let folder = Folder::with_records(1);
    let store = open(&folder.path());
    let here = nth_endpoint(0);
    assert!(store.get(&here).unwrap().is_some());
    folder.edit("PRAGMA user_version = 9");

    for _ in 0..2 {
        let error = store.record(&here, &state(200)).unwrap_err().to_string();
        assert!(error.contains("schema 9"), "{error}");
        assert!(store.claim(&here, RTT).is_err() && store.flush().is_err());
    }
    folder.edit(&format!("PRAGMA user_version = {OUR_SCHEMA}"));
    assert_eq!(store.get(&here).unwrap().map(|set| set.saved_cwnd), Some(0));
}

#[test]
fn quarantine_keeps_the_latest_three() {
    let folder = Folder::new();
    for n in 0..6 {
        std::fs::write(folder.path(), format!("SQLite format 3\0, damaged: {n}")).unwrap();
        std::fs::write(folder.0.path().join("paths.db-wal"), "its log").unwrap();
        let store = open(&folder.path());
        assert_eq!(store.counters().databases_quarantined, 1);
    }

    let mut kept = folder.quarantined();
    kept.sort();
    let kept: Vec<String> =
        kept.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    assert_eq!(kept, [3, 4, 5].map(|n| format!("SQLite format 3\0, damaged: {n}")));
    let logs = folder.0.path().read_dir().unwrap().filter(|file| {
        let name = file.as_ref().unwrap().file_name();
        name.to_str().unwrap().contains("corrupt") && name.to_str().unwrap().ends_with("-wal")
    });
    assert_eq!(logs.count(), 3);
}

#[test]
fn database_of_another_program_is_left_alone() {
    let folder = Folder::new();
    folder.edit("CREATE TABLE bills (id INTEGER); INSERT INTO bills VALUES (7)");

    let error = open_error(&folder.path(), Role::Server);
    assert!(error.contains("another program's database"), "{error}");
    assert_eq!(folder.0.path().read_dir().unwrap().count(), 1, "nothing is beside it");
    let bills = Connection::open(folder.path()).unwrap();
    let id: i64 = bills.query_row("SELECT id FROM bills", [], |row| row.get(0)).unwrap();
    assert_eq!(id, 7);
}

#[test]
fn unusable_path_is_one_clear_line() {
    let folder = Folder::new();
    std::fs::File::create(folder.path()).unwrap().write_all(b"x").unwrap();

    for (path, expected) in [
        (folder.0.path().to_path_buf(), "is a directory; name a file in it, such as"),
        (folder.0.path().join("none/paths.db"), "does not exist; create it"),
        (folder.path().join("paths.db"), "cannot write the store"),
        (PathBuf::from("/proc/paths.db"), "cannot write the store"),
        (PathBuf::from("/dev/null"), "is not a regular file"),
        (PathBuf::from("/"), "is a directory"),
    ] {
        let error = open_error(&path, Role::Server);
        assert!(error.contains(expected), "{error}");
        assert!(error.starts_with(path.to_str().unwrap()), "{error}");
    }
}

#[test]
fn folder_without_permission_is_one_clear_line() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let locked = std::fs::Permissions::from_mode(0o500);
    std::fs::set_permissions(folder.0.path(), locked).unwrap();

    // Permissions do not bind a superuser.
    if std::fs::write(folder.0.path().join("probe"), "").is_err() {
        let error = open_error(&folder.path(), Role::Server);
        assert!(error.contains("cannot write the store"), "{error}");
    }
}

#[test]
fn tool_creates_and_replaces_no_store() {
    let folder = Folder::new();
    let error = open_error(&folder.path(), Role::Tool);
    assert!(error.contains("there is no store"), "{error}");

    std::fs::write(folder.path(), "SQLite format 3\0, damaged").unwrap();
    let error = open_error(&folder.path(), Role::Tool);
    assert!(error.contains("damaged"), "{error}");
    assert!(folder.path().exists());
    assert_eq!(folder.quarantined(), [] as [PathBuf; 0]);
}

#[test]
fn store_stays_within_its_capacity() {
    let folder = Folder::new();
    let clock = Box::new(SystemBootClock::new().unwrap());
    let options = SqliteOptions { capacity: 200 };
    let store = SqliteStore::open(&folder.path(), Role::Server, options, clock).unwrap();

    for n in 0..500 {
        store.record(&nth_endpoint(n), &state(n)).unwrap();
    }

    let kept = entries(&store).len();
    assert!((196..=202).contains(&kept), "{kept} of 200");
    assert!(store.get(&nth_endpoint(499)).unwrap().is_some());
    assert_eq!(store.counters().entries_evicted, 500 - kept as u64);

    // Processes that add one each do not exceed it together either.
    drop(store);
    for n in 500..520 {
        let clock = Box::new(SystemBootClock::new().unwrap());
        let store = SqliteStore::open(&folder.path(), Role::Server, options, clock).unwrap();
        store.record(&nth_endpoint(n), &state(n)).unwrap();
        assert!(entries(&store).len() <= 202, "{n}");
    }
}

#[test]
fn admin_shows_and_deletes_entries() {
    let _time = simulation();
    let folder = Folder::new();
    let store = open_with(&folder.path(), SetBoot::new(1, HOUR));
    let (claimed, held_off) = (endpoint("198.51.100.7"), endpoint("198.51.101.7"));
    for here in [&claimed, &held_off] {
        store.record(here, &state(100)).unwrap();
        store.claim(here, RTT).unwrap();
    }
    let token = store.claim(&held_off, RTT).unwrap().map(|claim| claim.token);
    assert_eq!(token, None);

    let entry = &entries(&store)[0];
    assert_eq!(entry.endpoint, claimed.to_string());
    assert_eq!(entry.state, Some(state(100)));
    assert_eq!(entry.lease, Some(Duration::from_millis(4800) + LINGER));

    assert!(store.delete(&claimed.to_string()).unwrap());
    assert!(!store.delete(&claimed.to_string()).unwrap());
    assert_eq!(entries(&store).len(), 1);
    assert!(store.size().unwrap().bytes > 0);
}
