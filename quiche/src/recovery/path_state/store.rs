//! The interface of a store of saved sets, and the rules every backend keeps.

use std::time::Duration;
use std::time::SystemTime;

use super::PathState;
use super::RemoteEndpoint;

/// What a store failed at: the backend's own error. A caller treats it as a
/// miss.
pub type StoreError = Box<dyn std::error::Error + Send + Sync>;

/// Proof of holding a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimToken(pub u64);

impl ClaimToken {
    /// A token nobody else has.
    pub fn random() -> Self {
        ClaimToken(crate::rand::rand_u64())
    }
}

/// How long after Careful Resume nobody else gets the saved parameters, while
/// the connection that used them still sends: what its jump began to fill, a
/// second jump would overfill.
pub const LINGER: Duration = Duration::from_secs(2);

/// A lease is at least this long, and so many round trips.
const LEASE_MIN: Duration = Duration::from_secs(1);
const LEASE_RTTS: u32 = 8;

/// More than so many times the saved RTT tells of another path (RFC 9959,
/// 4.2.1), on which nobody jumps.
const RTT_FACTOR_MAX: u32 = 10;

/// A saved set that is this connection's alone until it is released or
/// forgotten, or its time ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The set.
    pub state: PathState,

    /// To release or forget it with.
    pub token: ClaimToken,

    /// How long Careful Resume may take, from the moment the claim was asked
    /// for. The claim itself ends [`LINGER`] later.
    pub lease: Duration,
}

/// How long Careful Resume may take with parameters of this saved RTT, on a
/// connection whose current RTT is `rtt`; zero, if it knows none.
pub fn lease(saved_rtt: Duration, rtt: Duration) -> Duration {
    let rtt = rtt.min(saved_rtt.saturating_mul(RTT_FACTOR_MAX));

    rtt.max(saved_rtt).saturating_mul(LEASE_RTTS).max(LEASE_MIN)
}

/// How long nothing is recorded for an endpoint after the `retreats`-th safe
/// retreat in a row: 1 minute, doubled each time, 1 hour at most.
pub fn hold_off(retreats: u32) -> Duration {
    let doublings = retreats.saturating_sub(1).min(6);
    Duration::from_secs(60 << doublings).min(Duration::from_secs(3600))
}

/// Keeps one saved set a remote endpoint (RFC 9959, 3.1).
///
/// Implementations are shared: by threads, and where the backend can, by
/// processes and machines. A miss is always legal, and so is an error; calls
/// may block, so that none belongs on the packet path.
pub trait PathStateStore: Send + Sync {
    /// Reads the set without claiming it. None if there is none, or its
    /// Lifetime has passed. A set that is claimed can be read.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn get(
        &self, endpoint: &RemoteEndpoint,
    ) -> Result<Option<PathState>, StoreError>;

    /// Takes the set for one connection, atomically: until the claim ends, no
    /// one else gets it (RFC 9959, 3.2 and 4.2). `rtt` is the connection's
    /// current RTT, as for [`lease()`]. None if there is no set, its Lifetime
    /// has passed, it is claimed already, or a hold-off runs.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn claim(
        &self, endpoint: &RemoteEndpoint, rtt: Duration,
    ) -> Result<Option<Claim>, StoreError>;

    /// Keeps an observation, merged with what is held as in
    /// [`PathState::merged()`]. A claim on the set stays. During a hold-off
    /// nothing is kept.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn record(
        &self, endpoint: &RemoteEndpoint, observed: &PathState,
    ) -> Result<(), StoreError>;

    /// Ends the claim and keeps the set. Does nothing unless the token is the
    /// current claim's.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn release(
        &self, endpoint: &RemoteEndpoint, token: ClaimToken,
    ) -> Result<(), StoreError>;

    /// Deletes the set after a safe retreat (RFC 9959, 3.5) and begins a
    /// hold-off, unless one runs. `used` is when the set was observed that the
    /// connection used, or the last one that it recorded since: one that was
    /// observed later stays. Ends the claim if the token is the current claim's;
    /// the rest is done also when the lease is over. The row of retreats that
    /// makes hold-offs longer ends with a validated jump, or when the backend
    /// forgets it.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn forget(
        &self, endpoint: &RemoteEndpoint, token: ClaimToken, used: SystemTime,
    ) -> Result<(), StoreError>;

    /// Deletes all sets, claims and hold-offs (RFC 9959, 4.3.1). Returns how
    /// many sets there were.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn flush(&self) -> Result<usize, StoreError>;
}
