//! The interface of a store of saved sets, and the rules every backend keeps.

use std::time::Duration;

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

/// A saved set that is this connection's alone until it is released or
/// forgotten, or the lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The set.
    pub state: PathState,

    /// To release or forget it with.
    pub token: ClaimToken,

    /// How long the claim holds from the moment it was asked for.
    pub lease: Duration,
}

/// How long a claim of a set with this RTT may be held.
pub fn lease(saved_rtt: Duration) -> Duration {
    (saved_rtt * 8).max(Duration::from_secs(1))
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
    /// one else gets it (RFC 9959, 3.2 and 4.2). None if there is no set, its
    /// Lifetime has passed, or it is claimed already.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn claim(
        &self, endpoint: &RemoteEndpoint,
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

    /// Deletes the set after a safe retreat (RFC 9959, 3.5) and leaves a
    /// hold-off in its place. The row of retreats that makes it longer ends
    /// with a validated jump, or when the backend forgets it. Does nothing unless the token is the current
    /// claim's.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn forget(
        &self, endpoint: &RemoteEndpoint, token: ClaimToken,
    ) -> Result<(), StoreError>;

    /// Deletes all sets, claims and hold-offs (RFC 9959, 4.3.1). Returns how
    /// many sets there were.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn flush(&self) -> Result<usize, StoreError>;
}
