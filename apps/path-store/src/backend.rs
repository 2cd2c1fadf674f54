//! Backend of a store: batches, housekeeping and administration, beyond [`PathStateStore`].

use std::time::Duration;
use std::time::SystemTime;

use quiche::path_state::Claim;
use quiche::path_state::ClaimToken;
use quiche::path_state::MemoryStore;
use quiche::path_state::PathState;
use quiche::path_state::PathStateStore;
use quiche::path_state::RemoteEndpoint;
use quiche::path_state::StoreError;
use quiche::path_state::RETREAT_KNOWN;

use crate::backend_counters::BackendCounters;
use crate::service_metrics::ServiceMetrics;

/// How long consecutive retreats are remembered after their hold-off.
pub(crate) const RETREATS_KEPT: Duration = RETREAT_KNOWN;

/// The most entries that one call of [`Backend::sweep()`] deletes, so that requests do not wait
/// for all of them.
pub const SWEEP_MAX: usize = 1000;

/// One call of [`PathStateStore`], as data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// [`PathStateStore::get()`]
    Get(RemoteEndpoint),

    /// [`PathStateStore::claim()`]
    Claim(RemoteEndpoint, Duration),

    /// [`PathStateStore::claim_own()`]
    ClaimOwn(RemoteEndpoint, PathState, Duration),

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
        | Self::ClaimOwn(endpoint, ..)
        | Self::Record(endpoint, _)
        | Self::Release(endpoint, _)
        | Self::Forget(endpoint, ..)) = self;
        endpoint
    }
}

/// Result of a [`Request`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Of a get: the saved parameters, if any.
    Read(Option<PathState>),

    /// Of either claim: the claim, if the endpoint was free.
    Claimed(Option<Claim>),

    /// Of every other request.
    Done,
}

/// A store that this crate can run on a thread of its own.
pub trait Backend: PathStateStore {
    /// Returns whether a request may wait for a disk or a network. A store that never does needs
    /// no thread.
    fn blocks(&self) -> bool {
        true
    }

    /// Performs all requests in order, in one transaction or round trip if it can. After an error
    /// it is unknown which of them were performed: perhaps only the answer was lost.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn perform(&self, requests: &[Request]) -> Result<Vec<Outcome>, StoreError> {
        requests.iter().map(|request| perform_one(self, request)).collect()
    }

    /// Deletes records whose Lifetime has passed. Returns how many it deleted: with
    /// [`SWEEP_MAX`] or more, others may be left.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn sweep(&self) -> Result<usize, StoreError> {
        Ok(0)
    }

    /// Adds to the totals of all processes, which are part of the store.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn add_to_totals(&self, _since: &ServiceMetrics) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the name of what all processes with the same claims have in common, as long as no
    /// retreat is forgotten that is younger than [`RETREAT_KNOWN`].
    /// None if no other process shares them.
    fn claims_name(&self) -> Option<String> {
        None
    }

    /// Returns the counters since the store was opened.
    fn counters(&self) -> BackendCounters {
        BackendCounters::default()
    }

    /// Returns the interface for administration; None for a store within this process.
    fn admin(&self) -> Option<&dyn Admin> {
        None
    }
}

/// Entry of one remote endpoint, for administration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key: [`RemoteEndpoint`]'s text form.
    pub endpoint: String,

    /// The saved parameters, if any.
    pub state: Option<PathState>,

    /// The rest of the lease, if the record is claimed.
    pub lease: Option<Duration>,

    /// Consecutive safe retreats.
    pub retreats: u32,

    /// The rest of the hold-off, if there is one.
    pub hold_off: Option<Duration>,

    /// Whether this version can use the record.
    pub status: RecordStatus,
}

/// Whether this version can use a record.
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

    /// The most entries; beyond it, those that expire first make room for new ones.
    pub capacity: usize,
}

/// Administration of a store in use.
pub trait Admin {
    /// Visits every entry that has not expired, in the order of keys.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn entries(&self, visit: &mut dyn FnMut(Entry)) -> Result<(), StoreError>;

    /// Returns the saved parameters with this key, if this version can use them.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn read(&self, endpoint: &str) -> Result<Option<PathState>, StoreError>;

    /// Saves parameters, as [`PathStateStore::record()`] does: neither during a hold-off nor over
    /// a newer version's.
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

    /// Returns the size of the store.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn size(&self) -> Result<Size, StoreError>;

    /// Returns the totals of all processes since the store was created.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn totals(&self) -> Result<ServiceMetrics, StoreError>;
}

/// Performs one request.
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
        Request::ClaimOwn(endpoint, own, rtt) => {
            store.claim_own(endpoint, own, *rtt).map(Outcome::Claimed)
        }
        Request::Record(endpoint, state) => store.record(endpoint, state).map(done),
        Request::Release(endpoint, token) => store.release(endpoint, *token).map(done),
        Request::Forget(endpoint, token, used) => store.forget(endpoint, *token, *used).map(done),
    }
}

// Needs no sweep: a read deletes an expired record, and the capacity bounds the others.
impl Backend for MemoryStore {
    fn blocks(&self) -> bool {
        false
    }
}
