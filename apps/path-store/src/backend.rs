//! Backend of a store: batches, housekeeping and contents, beyond [`PathStateStore`].
//!
//! The contents are for the `path-store` command.

use std::time::Duration;
use std::time::SystemTime;

use quiche::path_state::Claim;
use quiche::path_state::ClaimToken;
use quiche::path_state::MemoryStore;
use quiche::path_state::PathState;
use quiche::path_state::PathStateStore;
use quiche::path_state::RemoteEndpoint;
use quiche::path_state::StoreError;

use crate::service_metrics::ServiceMetrics;

/// How long a row of retreats is remembered after its hold-off.
pub(crate) const RETREATS_KEPT: Duration = Duration::from_secs(2 * 3600);

/// What one call of [`Backend::sweep()`] does before it lets others go on.
pub const SWEEP_MAX: usize = 1000;

/// One call of [`PathStateStore`], as data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// [`PathStateStore::get()`]
    Get(RemoteEndpoint),

    /// [`PathStateStore::claim()`]
    Claim(RemoteEndpoint, Duration),

    /// [`PathStateStore::record()`]
    Record(RemoteEndpoint, PathState),

    /// [`PathStateStore::release()`]
    Release(RemoteEndpoint, ClaimToken),

    /// [`PathStateStore::forget()`]
    Forget(RemoteEndpoint, ClaimToken, SystemTime),
}

impl Request {
    /// Returns the endpoint that it is about.
    pub fn endpoint(&self) -> &RemoteEndpoint {
        let (Self::Get(endpoint)
        | Self::Claim(endpoint, _)
        | Self::Record(endpoint, _)
        | Self::Release(endpoint, _)
        | Self::Forget(endpoint, ..)) = self;
        endpoint
    }
}

/// What a [`Request`] led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Of a get: the saved parameters, if there are any.
    Read(Option<PathState>),

    /// Of a claim: the claim, if the record was free.
    Claimed(Option<Claim>),

    /// Of all others.
    Done,
}

/// A store that this crate can run on a thread of its own.
pub trait Backend: PathStateStore {
    /// Tells whether a request may take the time of a disk or a network. One that does
    /// not needs no thread.
    fn blocks(&self) -> bool {
        true
    }

    /// Does all requests in their order. After an error nothing may be taken for
    /// done, nor for not done: the answer may be what was lost. A backend that pays for
    /// each transaction or round trip pays once.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn perform(&self, requests: &[Request]) -> Result<Vec<Outcome>, StoreError> {
        requests.iter().map(|request| perform_one(self, request)).collect()
    }

    /// Deletes records whose Lifetime has passed. Returns how many entries went: if
    /// not fewer than [`SWEEP_MAX`], more may be left.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn sweep(&self) -> Result<usize, StoreError> {
        Ok(0)
    }

    /// Adds to the counts of all processes, which the store keeps.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn add_to_totals(&self, _since: &ServiceMetrics) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns what happened inside since the store was opened.
    fn counters(&self) -> BackendCounters {
        BackendCounters::default()
    }

    /// Returns what people can look at and change; None if nothing outlives or leaves
    /// this process.
    fn admin(&self) -> Option<&dyn Admin> {
        None
    }
}

/// Events inside a backend, counted since it was opened by this process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct BackendCounters {
    /// Records that failed their checksum, and were removed.
    pub records_damaged: u64,

    /// Reads of records that a newer version wrote.
    pub records_newer: u64,

    /// Entries deleted because their time had passed.
    pub entries_expired: u64,

    /// Entries deleted to make room.
    pub entries_evicted: u64,

    /// Damaged databases that this process quarantined.
    pub databases_quarantined: u64,

    /// Connections to a server, the first one not counted.
    pub reconnects: u64,
}

/// One remote endpoint's entry, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key: [`RemoteEndpoint`]'s text form.
    pub endpoint: String,

    /// The saved parameters, if any are held.
    pub state: Option<PathState>,

    /// What remains of the lease of the claim, if it is claimed.
    pub lease: Option<Duration>,

    /// Safe retreats in a row.
    pub retreats: u32,

    /// What remains of the hold-off, if there is one.
    pub hold_off: Option<Duration>,

    /// What was found in the place of a record.
    pub status: RecordStatus,
}

/// Whether this version can use an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordStatus {
    /// It can.
    Sound,

    /// A newer version wrote it.
    Newer,

    /// The checksum does not match: the next read removes it.
    Damaged,
}

/// A store's size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Size {
    /// Bytes in the files of the store; of a Redis store, an estimate of its
    /// share of the server's memory.
    pub bytes: u64,

    /// The most entries there may be; the stalest make room for new ones.
    pub capacity: usize,
}

/// Looking into a live store, and changing it by hand.
pub trait Admin {
    /// Visits every entry whose time has not passed, in the order of keys.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn entries(&self, visit: &mut dyn FnMut(Entry)) -> Result<(), StoreError>;

    /// Returns the saved parameters with this key, if there are any that can be used.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn read(&self, endpoint: &str) -> Result<Option<PathState>, StoreError>;

    /// Keeps saved parameters, as [`PathStateStore::record()`] does: not during a
    /// hold-off, nor in the place of a newer version's.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn put(&self, endpoint: &str, state: &PathState) -> Result<(), StoreError>;

    /// Deletes an entry with its claim and hold-off. False if there is none.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn delete(&self, endpoint: &str) -> Result<bool, StoreError>;

    /// Returns how large the store is.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn size(&self) -> Result<Size, StoreError>;

    /// Returns what all processes counted since the store was made.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn totals(&self) -> Result<ServiceMetrics, StoreError>;
}

/// Does one request.
///
/// # Errors
///
/// The store's.
pub(crate) fn perform_one<S>(store: &S, request: &Request) -> Result<Outcome, StoreError>
where
    S: PathStateStore + ?Sized,
{
    let done = |()| Outcome::Done;

    match request {
        Request::Get(endpoint) => store.get(endpoint).map(Outcome::Read),
        Request::Claim(endpoint, rtt) => store.claim(endpoint, *rtt).map(Outcome::Claimed),
        Request::Record(endpoint, state) => store.record(endpoint, state).map(done),
        Request::Release(endpoint, token) => store.release(endpoint, *token).map(done),
        Request::Forget(endpoint, token, used) => store.forget(endpoint, *token, *used).map(done),
    }
}

// Expired records go when they are read, and the capacity bounds the others.
impl Backend for MemoryStore {
    fn blocks(&self) -> bool {
        false
    }
}
