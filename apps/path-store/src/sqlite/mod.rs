//! Store on disk, shared by the processes of one machine: SQLite in WAL mode.
//!
//! It has one row per remote endpoint, and one per claim.
//!
//! Owns the rules of the store and the safety of the file; `service` owns the thread that
//! may block on it. Every change is a transaction that holds the database's write lock from
//! its start (BEGIN IMMEDIATE), which makes a claim atomic across processes. Leases and
//! hold-offs are measured in time since boot: setting the wall clock does not change them. A
//! reboot ends both, and keeps the count of retreats.

mod admin;
mod checksum;
mod claim;
mod clocks;
mod database;
mod file_names;
mod ops;
mod quarantine;
mod row;
mod void;

use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::SystemTime;

use quiche::path_state::Claim;
use quiche::path_state::ClaimToken;
use quiche::path_state::PathState;
use quiche::path_state::PathStateStore;
use quiche::path_state::RemoteEndpoint;
use quiche::path_state::StoreError;
use rusqlite::ErrorCode;
use rusqlite::Transaction;
use rusqlite::TransactionBehavior;

use self::clocks::Now;
use self::database::is_damage;
use self::database::Database;
use self::ops::Eviction;
use self::ops::Ops;
use crate::backend::Admin;
use crate::backend::Backend;
use crate::backend::Outcome;
use crate::backend::Request;
use crate::backend_counters::AtomicBackendCounters;
use crate::backend_counters::BackendCounters;
use crate::boot_clock::BootClock;
use crate::opening::OpenError;
use crate::opening::Role;
use crate::opening::CAPACITY_DEFAULT;
use crate::service_metrics::ServiceMetrics;

/// Settings of a [`SqliteStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SqliteOptions {
    /// The most remote endpoints. Each process may exceed it by a hundredth before it evicts
    /// those that expire first.
    pub capacity: usize,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        SqliteOptions { capacity: CAPACITY_DEFAULT }
    }
}

/// A store in an SQLite database. Calls block on the disk and on other
/// processes.
pub struct SqliteStore {
    path: PathBuf,
    role: Role,
    options: SqliteOptions,
    boot_clock: Box<dyn BootClock>,
    counters: AtomicBackendCounters,
    eviction: Eviction,

    /// None after an error of opening: the next call tries again.
    database: Mutex<Option<Database>>,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("path", &self.path).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the database at `path`. For a server, quarantines a damaged one as
    /// `<path>.corrupt-<seconds since 1970>`, with a warning, and accepts one with a newer
    /// version's schema: every call fails, until another file is in its place.
    ///
    /// # Errors
    ///
    /// One human-readable line, see [`OpenError`].
    pub fn open(
        path: &Path,
        role: Role,
        options: SqliteOptions,
        boot_clock: Box<dyn BootClock>,
    ) -> Result<Self, OpenError> {
        let path = database::canonical(path)?;
        let store = SqliteStore {
            database: Mutex::new(None),
            counters: AtomicBackendCounters::default(),
            eviction: Eviction::default(),
            path,
            role,
            options: SqliteOptions { capacity: options.capacity.max(1) },
            boot_clock,
        };
        match Database::open(&store.path, role) {
            Err(OpenError::NewerSchema { .. }) if role == Role::Server => (),
            opened => *store.database() = Some(store.log_replacement(opened?)),
        }

        Ok(store)
    }

    /// Checks whether a store can be at `path`, without opening it.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn check(path: &Path) -> Result<(), OpenError> {
        let path = database::canonical(path)?;
        database::check_path(&path, Role::Server)?;
        database::check_writable(&path)
    }

    // A panic in a transaction rolls it back.
    fn database(&self) -> MutexGuard<'_, Option<Database>> {
        self.database.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log_replacement(&self, (database, warning): (Database, Option<String>)) -> Database {
        if let Some(warning) = warning {
            log::warn!("{warning}");
            self.counters.databases_quarantined.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }

        database
    }

    fn now(&self) -> Now {
        Now {
            wall: quiche::clock::wall_now(),
            boot_id: self.boot_clock.boot_id(),
            since_boot: self.boot_clock.since_boot(),
        }
    }

    /// Runs `work` on the database that the path leads to now. If that is damaged, runs it
    /// again on the empty one in its place.
    fn run<T>(&self, mut work: impl FnMut(&Ops) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let mut slot = self.database();
        let mut database = match slot.take() {
            Some(database) if !database.is_replaced(&self.path) => database,
            stale => {
                drop(stale);
                self.log_replacement(Database::open(&self.path, self.role)?)
            }
        };

        let mut result = work(&self.ops(&database));
        if let Some(error) = result.as_ref().err().filter(|e| is_damage(e)) {
            let why = error.to_string();
            if self.role == Role::Tool {
                return Err(OpenError::Damaged { path: self.path.clone(), why }.into());
            }
            database = self.log_replacement(database.replace(&self.path, &why)?);
            result = work(&self.ops(&database));
        }
        // After an error of a changed file, the next call opens it again and handles the change.
        // SQLITE_ERROR: our statements are valid, so that the schema is not.
        let code = result.as_ref().err().and_then(rusqlite::Error::sqlite_error_code);
        let changed = [ErrorCode::Unknown, ErrorCode::SchemaChanged, ErrorCode::ReadOnly];
        if code.is_none_or(|code| !changed.contains(&code)) {
            *slot = Some(database);
        }

        result.map_err(|e| self.failure(&e))
    }

    fn ops<'a>(&'a self, database: &'a Database) -> Ops<'a> {
        Ops {
            conn: database.conn(),
            now: self.now(),
            counters: &self.counters,
            eviction: &self.eviction,
            capacity: self.options.capacity,
        }
    }

    fn failure(&self, error: &rusqlite::Error) -> StoreError {
        format!("{}: {error}", self.path.display()).into()
    }

    /// Runs `work` in one transaction that may write.
    fn write<T>(&self, mut work: impl FnMut(&Ops) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.run(|ops| {
            let transaction = Transaction::new_unchecked(ops.conn, TransactionBehavior::Immediate)?;
            database::check_schema(ops.conn)?;
            // Waiting for the lock took time.
            let value = work(&Ops { now: self.now(), ..*ops })?;
            transaction.commit()?;
            Ok(value)
        })
    }

    // Takes the write lock only if there is something to remove.
    fn read(&self, endpoint: &str) -> Result<Option<PathState>, StoreError> {
        match self.run(|ops| ops.peek(endpoint))? {
            (state, false) => Ok(state),
            (_, true) => self.write(|ops| ops.get(endpoint)),
        }
    }
}

impl PathStateStore for SqliteStore {
    fn get(&self, endpoint: &RemoteEndpoint) -> Result<Option<PathState>, StoreError> {
        self.read(&endpoint.to_string())
    }

    fn claim(&self, endpoint: &RemoteEndpoint, rtt: Duration) -> Result<Option<Claim>, StoreError> {
        let key = endpoint.to_string();
        self.write(|ops| ops.claim(&key, rtt))
    }

    fn claim_own(
        &self,
        endpoint: &RemoteEndpoint,
        own: &PathState,
        rtt: Duration,
    ) -> Result<Option<Claim>, StoreError> {
        let key = endpoint.to_string();
        self.write(|ops| ops.claim_own(&key, own, rtt))
    }

    fn record(&self, endpoint: &RemoteEndpoint, observed: &PathState) -> Result<(), StoreError> {
        let key = endpoint.to_string();
        self.write(|ops| ops.record(&key, observed))
    }

    fn release(&self, endpoint: &RemoteEndpoint, token: ClaimToken) -> Result<(), StoreError> {
        let key = endpoint.to_string();
        self.write(|ops| ops.release(&key, token))
    }

    fn forget(
        &self,
        endpoint: &RemoteEndpoint,
        token: ClaimToken,
        used: SystemTime,
    ) -> Result<(), StoreError> {
        let key = endpoint.to_string();
        self.write(|ops| ops.forget(&key, token, used))
    }

    fn flush(&self) -> Result<usize, StoreError> {
        self.write(|ops| ops.flush())
    }
}

impl Backend for SqliteStore {
    fn perform(&self, requests: &[Request]) -> Result<Vec<Outcome>, StoreError> {
        let read = |request: &Request| match request {
            Request::Get(endpoint) => Some(endpoint.to_string()),
            _ => None,
        };

        if let Some(keys) = requests.iter().map(read).collect::<Option<Vec<_>>>() {
            return keys.iter().map(|key| self.read(key).map(Outcome::Read)).collect();
        }

        self.write(|ops| requests.iter().map(|request| perform_one(ops, request)).collect())
    }

    fn sweep(&self) -> Result<usize, StoreError> {
        self.write(|ops| ops.sweep())
    }

    fn add_to_totals(&self, since: &ServiceMetrics) -> Result<(), StoreError> {
        self.write(|ops| ops.add_to_totals(since))
    }

    // Retreats end with the boot, and a file of the same path may be another container's.
    fn claims_name(&self) -> Option<String> {
        let boot = u128::from_be_bytes(self.boot_clock.boot_id());
        let file = database::file_id(&self.path).ok()?;
        Some(format!("{boot:032x} {file:?}"))
    }

    fn counters(&self) -> BackendCounters {
        self.counters.snapshot()
    }

    fn admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

fn perform_one(ops: &Ops, request: &Request) -> rusqlite::Result<Outcome> {
    let done = |()| Outcome::Done;

    match request {
        Request::Get(endpoint) => ops.get(&endpoint.to_string()).map(Outcome::Read),
        Request::Claim(endpoint, rtt) => {
            ops.claim(&endpoint.to_string(), *rtt).map(Outcome::Claimed)
        }
        Request::ClaimOwn(endpoint, own, rtt) => {
            ops.claim_own(&endpoint.to_string(), own, *rtt).map(Outcome::Claimed)
        }
        Request::Record(endpoint, state) => ops.record(&endpoint.to_string(), state).map(done),
        Request::Release(endpoint, token) => ops.release(&endpoint.to_string(), *token).map(done),
        Request::Forget(endpoint, token, used) => {
            ops.forget(&endpoint.to_string(), *token, *used).map(done)
        }
    }
}
