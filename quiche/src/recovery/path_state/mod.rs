//! Saved parameters of a path, kept between connections (RFC 9959, 3.1).
//!
//! A [`PathState`], its encoding, and the rule by which an observation replaces
//! a saved one. A [`PathStateStore`] keeps them; `careful_resume::observer`
//! makes the observation.

mod memory;
mod remote_endpoint;
mod store;

use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

pub use self::memory::MemoryStore;
pub use self::remote_endpoint::PrefixLengths;
pub use self::remote_endpoint::RemoteEndpoint;
pub use self::store::hold_off;
pub use self::store::lease;
pub use self::store::Claim;
pub use self::store::ClaimToken;
pub use self::store::PathStateStore;
pub use self::store::StoreError;
pub use self::store::LINGER;
pub use self::store::RETREAT_KNOWN;

/// The version of [`PathState::to_bytes()`]'s encoding.
const ENCODING_VERSION: u8 = 1;

/// Lifetimes after its observation at which a path state ends at the latest,
/// however often it was renewed.
const LIFETIMES_MAX: u32 = 4;

/// A limited observation replaces one that the path limited only if it is
/// larger by this part of it: about as much is nothing new.
const MORE_DIVISOR: u64 = 8;

const FLAG_LIMITED: u8 = 0b01;
const FLAG_VALIDATED: u8 = 0b10;

/// The congestion control parameters saved for one remote endpoint
/// (RFC 9959, 3.1). Times have a resolution of one millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathState {
    /// Capacity that was used: bytes acknowledged within one `saved_rtt`.
    pub saved_cwnd: u64,

    /// The minimum RTT when the capacity was observed.
    pub saved_rtt: Duration,

    /// Wall-clock time of the observation. A renewal does not change it.
    pub observed: SystemTime,

    /// Wall-clock time from which this must not be used (the Lifetime).
    pub expires: SystemTime,

    /// The application, flow control or the object's length limited the
    /// observation, not the congestion window: the path may carry more.
    pub limited: bool,

    /// The path took a jump: that of the connection that observed this, or one
    /// with these parameters, which renewed them.
    pub validated: bool,
}

/// Why bytes are not a [`PathState`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The encoding is of a version that this code does not know.
    UnknownVersion(u8),

    /// The length or a field is impossible.
    Malformed,
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Self::UnknownVersion(v) => {
                write!(f, "path state of unknown version {v}")
            },
            Self::Malformed => write!(f, "malformed path state"),
        }
    }
}

impl std::error::Error for DecodeError {}

impl PathState {
    /// The length of the encoding, in bytes.
    pub const ENCODED_LEN: usize = 34;

    /// Encodes the path state: version, flags, then saved_cwnd in bytes,
    /// saved_rtt in microseconds, observed and expires in milliseconds since
    /// the Unix epoch, each as a big-endian u64. There is no checksum: a store
    /// adds its own over the whole record.
    pub fn to_bytes(&self) -> [u8; Self::ENCODED_LEN] {
        let mut out = [0; Self::ENCODED_LEN];

        out[0] = ENCODING_VERSION;
        out[1] = [
            (self.limited, FLAG_LIMITED),
            (self.validated, FLAG_VALIDATED),
        ]
        .into_iter()
        .filter_map(|(is_set, flag)| is_set.then_some(flag))
        .sum();

        let fields = [
            self.saved_cwnd,
            saturating_u64(self.saved_rtt.as_micros()),
            unix_millis(self.observed),
            unix_millis(self.expires),
        ];

        for (slot, field) in out[2..].chunks_exact_mut(8).zip(fields) {
            slot.copy_from_slice(&field.to_be_bytes());
        }

        out
    }

    /// Decodes what [`to_bytes()`] made.
    ///
    /// # Errors
    ///
    /// [`DecodeError::UnknownVersion`] leaves the record to a newer binary;
    /// [`DecodeError::Malformed`] tells that nobody can use it.
    ///
    /// [`to_bytes()`]: PathState::to_bytes
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, DecodeError> {
        match bytes.first() {
            Some(&ENCODING_VERSION) => (),
            Some(&version) => return Err(DecodeError::UnknownVersion(version)),
            None => return Err(DecodeError::Malformed),
        }

        if bytes.len() != Self::ENCODED_LEN || bytes[1] & !3 != 0 {
            return Err(DecodeError::Malformed);
        }

        let field = |i: usize| {
            let slot = bytes[2 + 8 * i..][..8].try_into();
            u64::from_be_bytes(slot.expect("eight bytes"))
        };

        Ok(PathState {
            saved_cwnd: field(0),
            saved_rtt: Duration::from_micros(field(1)),
            observed: from_unix_millis(field(2))?,
            expires: from_unix_millis(field(3))?,
            limited: bytes[1] & FLAG_LIMITED != 0,
            validated: bytes[1] & FLAG_VALIDATED != 0,
        })
    }

    fn lifetime(&self) -> Duration {
        self.expires
            .duration_since(self.observed)
            .unwrap_or_default()
    }

    /// Whether the Lifetime has passed (RFC 9959, 3.2), or the wall clock was
    /// set back to before the observation by more than the Lifetime itself.
    pub fn is_expired(&self, wall_now: SystemTime) -> bool {
        let is_set_back = wall_now
            .checked_add(self.lifetime())
            .is_some_and(|latest| latest < self.observed);

        wall_now >= self.expires || is_set_back
    }

    /// Returns what to keep after `observed` was seen while `held` was stored
    /// (RFC 9959, 3.1 and 4.1).
    ///
    /// An observation that something other than the congestion window limited
    /// never lowers what is held, and replaces an observation that the path
    /// limited only if it is larger by an eighth. If the path took a jump with
    /// what is held, the observation renews its Lifetime, within bounds.
    /// saved_cwnd, saved_rtt and their time are always of one observation.
    pub fn merged(
        held: Option<PathState>, observed: PathState, wall_now: SystemTime,
    ) -> PathState {
        let Some(held) = held.filter(|h| !h.is_expired(wall_now)) else {
            return observed;
        };

        // RFC 9959, 4.1: a sample limited by the application may be ignored
        // when a better one is held.
        if !observed.limited || observed.saved_cwnd >= held.least_replacement() {
            return observed;
        }

        match observed.validated {
            true => held.renewed(&observed),
            false => held,
        }
    }

    /// Returns the least saved_cwnd, in bytes, at which a limited observation
    /// replaces this one.
    fn least_replacement(&self) -> u64 {
        match self.limited {
            true => self.saved_cwnd,
            false => self
                .saved_cwnd
                .saturating_add(self.saved_cwnd / MORE_DIVISOR),
        }
    }

    /// Returns this path state with the Lifetime of an observation of less,
    /// after the path took its jump. A capacity that is not seen again for
    /// several Lifetimes ends all the same: jumps tried half of it at most.
    fn renewed(self, observed: &PathState) -> PathState {
        let latest = observed
            .lifetime()
            .checked_mul(LIFETIMES_MAX)
            .and_then(|lifetimes| self.observed.checked_add(lifetimes))
            .unwrap_or(observed.expires);

        PathState {
            expires: observed.expires.min(latest).max(self.expires),
            validated: true,
            ..self
        }
    }
}

fn saturating_u64(v: u128) -> u64 {
    u64::try_from(v).unwrap_or(u64::MAX)
}

fn unix_millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    saturating_u64(since.as_millis())
}

fn from_unix_millis(millis: u64) -> Result<SystemTime, DecodeError> {
    UNIX_EPOCH
        .checked_add(Duration::from_millis(millis))
        .ok_or(DecodeError::Malformed)
}

#[cfg(test)]
mod tests;
