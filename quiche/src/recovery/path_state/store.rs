//! Interface of a store of path states, and the rules that every backend keeps.

use std::time::Duration;
use std::time::SystemTime;

use super::PathState;
use super::RemoteEndpoint;

/// An error of the backend, which a caller treats as a miss.
pub type StoreError = Box<dyn std::error::Error + Send + Sync>;

/// Proof of holding a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimToken(pub u64);

impl ClaimToken {
    /// Returns a token that nobody else has.
    pub fn random() -> Self {
        ClaimToken(crate::rand::rand_u64())
    }
}

/// Time after Careful Resume for which a claim stays while its connection
/// sends: a second jump would overfill what the first one began to fill.
pub const LINGER: Duration = Duration::from_secs(2);

/// How long a store knows of an endpoint's last retreat. Saved parameters that a
/// client keeps must not be used for longer after their observation.
pub const RETREAT_KNOWN: Duration = Duration::from_secs(2 * 3600);

/// A lease is at least this long, and at least this many round trips.
const LEASE_MIN: Duration = Duration::from_secs(1);
const LEASE_RTTS: u32 = 8;

/// An RTT above this multiple of the saved one is another path's (RFC 9959,
/// 4.2.1), on which nobody jumps.
const RTT_FACTOR_MAX: u32 = 10;

/// Saved parameters that one connection may use, until it releases or forgets
/// them, or the lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The saved parameters.
    pub state: PathState,

    /// The token that releases or forgets it.
    pub token: ClaimToken,

    /// How long Careful Resume may take, from the moment the claim was asked
    /// for. The claim itself ends [`LINGER`] later.
    pub lease: Duration,
}

/// Returns how long Careful Resume may take with a saved RTT, on a connection
/// whose current RTT is `rtt`; zero if it knows none.
pub fn lease(saved_rtt: Duration, rtt: Duration) -> Duration {
    let rtt = rtt.min(saved_rtt.saturating_mul(RTT_FACTOR_MAX));

    rtt.max(saved_rtt).saturating_mul(LEASE_RTTS).max(LEASE_MIN)
}

/// Returns how long nothing is recorded for an endpoint after so many
/// consecutive safe retreats: 1 minute, doubled with each further one, 1 hour
/// at most.
pub fn hold_off(retreats: u32) -> Duration {
    let doublings = retreats.saturating_sub(1).min(6);
    Duration::from_secs(60 << doublings).min(Duration::from_secs(3600))
}

/// Store of one path state for each remote endpoint (RFC 9959, 3.1).
///
/// Threads share an implementation, and processes and machines where the
/// backend can. A miss is always legal, and so is an error. Calls may block,
/// and do not belong on the packet path.
pub trait PathStateStore: Send + Sync {
    /// Reads the path state without a claim, also while another connection has
    /// one. None if there is none, or its Lifetime has passed.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn get(
        &self, endpoint: &RemoteEndpoint,
    ) -> Result<Option<PathState>, StoreError>;

    /// Claims the path state for one connection, atomically: until the claim
    /// ends, no other connection gets it (RFC 9959, 3.2 and 4.2). `rtt` is the
    /// connection's current RTT, as for [`lease()`]. None if there is none, its
    /// Lifetime has passed, it is claimed already, or a hold-off runs.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn claim(
        &self, endpoint: &RemoteEndpoint, rtt: Duration,
    ) -> Result<Option<Claim>, StoreError>;

    /// Claims the endpoint for one connection that brings saved parameters of
    /// its own, `own`: as [`claim()`], with them in place of the record, which
    /// need not exist. None also if their Lifetime has passed, or if they are
    /// void: since their observation, and in the last [`RETREAT_KNOWN`], a
    /// connection of the endpoint retreated, or its path state was deleted.
    ///
    /// A store that cannot tell refuses, as this default does.
    ///
    /// # Errors
    ///
    /// The backend's.
    ///
    /// [`claim()`]: PathStateStore::claim
    fn claim_own(
        &self, _endpoint: &RemoteEndpoint, _own: &PathState, _rtt: Duration,
    ) -> Result<Option<Claim>, StoreError> {
        Ok(None)
    }

    /// Records an observation, merged with what is held by
    /// [`PathState::merged()`]. A claim stays. During a hold-off nothing is
    /// recorded.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn record(
        &self, endpoint: &RemoteEndpoint, observed: &PathState,
    ) -> Result<(), StoreError>;

    /// Ends the claim and keeps the path state. Does nothing unless the token
    /// is the current claim's.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn release(
        &self, endpoint: &RemoteEndpoint, token: ClaimToken,
    ) -> Result<(), StoreError>;

    /// Deletes the path state after a safe retreat (RFC 9959, 3.5), and begins
    /// a hold-off, unless one runs.
    ///
    /// `used` is the time of observation of what the connection used, or of
    /// what it recorded last: a later observation stays. Ends the claim if the
    /// token is the current claim's; does the rest also after the lease.
    /// Consecutive retreats make hold-offs longer, until a jump is validated or
    /// the backend forgets their count.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn forget(
        &self, endpoint: &RemoteEndpoint, token: ClaimToken, used: SystemTime,
    ) -> Result<(), StoreError>;

    /// Deletes all path states, claims and hold-offs (RFC 9959, 4.3.1), and makes
    /// void what connections bring of their own. Returns the number of path
    /// states.
    ///
    /// # Errors
    ///
    /// The backend's.
    fn flush(&self) -> Result<usize, StoreError>;
}
