//! Endpoints, path states and clocks for the tests of the stores.
#![expect(dead_code, reason = "no test program uses all of it")]

pub mod child;
pub mod random;
pub mod redis;

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use path_store::BootClock;
use path_store::BootId;
use path_store::Role;
use path_store::SqliteOptions;
use path_store::SqliteStore;
use path_store::SystemBootClock;
use quiche::clock::Simulation;
use quiche::path_state::PathState;
use quiche::path_state::RemoteEndpoint;

/// The Lifetime of the records.
pub const HOUR: Duration = Duration::from_secs(3600);

/// The current RTT of a connection that claims: the record's is longer, and decides the lease.
pub const RTT: Duration = Duration::from_millis(20);

/// Start of simulated wall clocks, after 1970.
pub const WALL_START: Duration = Duration::from_secs(1_000_000);

/// Starts a simulation of both clocks, at [`WALL_START`].
pub fn simulation() -> Simulation {
    Simulation::start(1, WALL_START)
}

/// Returns the simulated wall clock `after` its start.
pub fn wall(after: Duration) -> SystemTime {
    UNIX_EPOCH + WALL_START + after
}

/// Returns a record observed now, with an RTT of 600 ms: its lease is 4.8 s.
pub fn state(saved_cwnd: u64) -> PathState {
    let now = quiche::clock::wall_now();

    PathState {
        saved_cwnd,
        saved_rtt: Duration::from_millis(600),
        observed: now,
        expires: now + HOUR,
        limited: false,
        validated: false,
    }
}

/// Returns the endpoint of a client.
pub fn endpoint(client: &str) -> RemoteEndpoint {
    let client: IpAddr = client.parse().unwrap();
    RemoteEndpoint::new("192.0.2.1", client, Default::default())
}

/// Returns the endpoint of the n-th subnet, of 65536.
pub fn nth_endpoint(n: u64) -> RemoteEndpoint {
    endpoint(&format!("10.{}.{}.1", n >> 8 & 0xff, n & 0xff))
}

/// Returns the key of an endpoint in a store on disk. The rule is repeated here, because it is
/// part of the format.
pub fn key_on_disk(endpoint: &RemoteEndpoint) -> i64 {
    let hash = ring::digest::digest(&ring::digest::SHA256, endpoint.to_string().as_bytes());
    i64::from_be_bytes(hash.as_ref()[..8].try_into().unwrap())
}

/// Clock since boot that follows the simulation of the thread.
pub struct SimulatedBoot {
    boot: Instant,
}

impl SimulatedBoot {
    /// Boots now.
    pub fn new() -> Self {
        SimulatedBoot { boot: quiche::clock::now() }
    }
}

impl BootClock for SimulatedBoot {
    fn boot_id(&self) -> BootId {
        [1; 16]
    }

    fn since_boot(&self) -> Duration {
        quiche::clock::now() - self.boot
    }
}

/// Clock since boot that the test sets.
#[derive(Clone)]
pub struct SetBoot(pub Arc<Mutex<(BootId, Duration)>>);

impl SetBoot {
    pub fn new(id: u8, since: Duration) -> Self {
        SetBoot(Arc::new(Mutex::new(([id; 16], since))))
    }

    pub fn set(&self, id: u8, since: Duration) {
        *self.0.lock().unwrap() = ([id; 16], since);
    }
}

impl BootClock for SetBoot {
    fn boot_id(&self) -> BootId {
        self.0.lock().unwrap().0
    }

    fn since_boot(&self) -> Duration {
        self.0.lock().unwrap().1
    }
}

/// Opens the store at `path` with the given clock.
pub fn open_with(path: &Path, clock: impl BootClock + 'static) -> SqliteStore {
    SqliteStore::open(path, Role::Server, SqliteOptions::default(), Box::new(clock)).unwrap()
}

/// Opens the store at `path` with the system's clock.
pub fn open(path: &Path) -> SqliteStore {
    open_with(path, SystemBootClock::new().unwrap())
}

/// Makes every record of the store at `path` one of a future version, with a valid
/// checksum.
pub fn make_newer(path: &Path) {
    rewrite(path, &mut |row| {
        row.state[0] = 2;
        row.state.extend(b"what is to come");
    });
}

/// Gives the only record of the store at `path` another key, with a valid checksum.
pub fn move_to_key(path: &Path, key: i64) {
    rewrite(path, &mut |row| row.key = key);
}

/// The columns of a row that a test changes or needs for the checksum.
struct RawRow {
    key: i64,
    endpoint: String,
    state: Vec<u8>,
    observed_ms: i64,
    expires_ms: i64,
}

impl RawRow {
    // The checksum's rule is repeated here: it is part of the format.
    fn checksum(&self) -> u32 {
        let mut sum = crc32fast::Hasher::new();
        for part in [
            Some(&self.key.to_be_bytes()[..]),
            Some(self.endpoint.as_bytes()),
            Some(&self.state),
            None,
            Some(&self.observed_ms.to_be_bytes()),
            Some(&self.expires_ms.to_be_bytes()),
            None,
            Some(&0_i64.to_be_bytes()),
        ] {
            let length = part.map_or(u32::MAX, |part| part.len() as u32);
            sum.update(&length.to_be_bytes());
            sum.update(part.unwrap_or_default());
        }

        sum.finalize()
    }
}

/// Changes all rows without retreats.
fn rewrite(path: &Path, change: &mut dyn FnMut(&mut RawRow)) {
    let conn = rusqlite::Connection::open(path).unwrap();
    let sql = "SELECT key, endpoint, state, observed_ms, expires_ms FROM path_state
               WHERE retreats = 0";
    let read = |row: &rusqlite::Row| {
        Ok(RawRow {
            key: row.get(0)?,
            endpoint: row.get(1)?,
            state: row.get(2)?,
            observed_ms: row.get(3)?,
            expires_ms: row.get(4)?,
        })
    };
    let rows: Result<Vec<RawRow>, _> =
        conn.prepare(sql).unwrap().query_map([], read).unwrap().collect();

    for mut row in rows.unwrap() {
        let old_key = row.key;
        change(&mut row);
        let sql = "UPDATE path_state SET key = ?2, state = ?3, checksum = ?4 WHERE key = ?1";
        conn.execute(sql, rusqlite::params![old_key, row.key, row.state, row.checksum()]).unwrap();
    }
}
