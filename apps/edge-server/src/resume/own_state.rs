//! Own path state of a client: what its token tells the server that it comes back to.
//!
//! The token is sealed, and bound to the client's address. Its payload tells saved parameters of
//! this client's connections alone, or that one of them retreated, and for which endpoint and
//! claims it is good: another store knows nothing of the retreats that make it void. It names the
//! connection, by which the process may know more.

use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use path_store::OwnState;
use quiche::path_state::PathState;
use quiche::path_state::RemoteEndpoint;
use quiche::path_state::RETREAT_KNOWN;
use ring::digest;

use crate::quic::random;
use crate::quic::token::Payload;
use crate::quic::token::PAYLOAD_BYTES;

/// First byte of a payload.
const UNKNOWN: u8 = 0;
const SAVED: u8 = 1;
const RETREATED: u8 = 2;

/// Offsets of its parts. It ends with zeros.
const STATE_OFFSET: usize = 1;
const SCOPE_OFFSET: usize = STATE_OFFSET + PathState::ENCODED_LEN;
const ISSUER_OFFSET: usize = SCOPE_OFFSET + size_of::<Scope>();

/// What the path state of a client is good for: its endpoint, and the claims on it.
pub type Scope = [u8; 8];

/// The connection that issued a token: random, and the same in all of its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Issuer([u8; PAYLOAD_BYTES - ISSUER_OFFSET]);

impl Issuer {
    /// Returns a new name. Without randomness there are no tokens that could tell it.
    pub fn random() -> Self {
        let mut bytes = [0; PAYLOAD_BYTES - ISSUER_OFFSET];
        let _ = random::fill(&mut bytes);
        Self(bytes)
    }

    /// Returns who issued a token with this payload, if it is good for `scope`.
    pub fn of(payload: &Payload, scope: &Scope) -> Option<Self> {
        let (issued_for, issuer) = payload[SCOPE_OFFSET..].split_first_chunk()?;
        let issuer = issuer.first_chunk().copied()?;
        (issued_for == scope).then_some(Self(issuer))
    }
}

/// Reason for which what a token tells is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Void {
    /// It is good for another endpoint, or for other claims.
    OtherPath,

    /// Its Lifetime has passed.
    Expired,

    /// Another version of the server wrote it.
    Unreadable,
}

/// Source of the saved parameters with which a connection jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Store,
    Token,
}

impl Source {
    pub const ALL: [Self; 2] = [Self::Store, Self::Token];

    /// Returns the name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Token => "token",
        }
    }
}

impl Void {
    pub const ALL: [Self; 3] = [Self::OtherPath, Self::Expired, Self::Unreadable];

    /// Returns the label in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::OtherPath => "other_path",
            Self::Expired => "expired",
            Self::Unreadable => "unreadable",
        }
    }
}

/// Returns the payload of a token that is good for `scope`.
pub fn to_payload(own: OwnState, scope: &Scope, issuer: Issuer) -> Payload {
    let mut payload = [0; PAYLOAD_BYTES];
    let (kind, state) = match own {
        OwnState::Unknown => (UNKNOWN, [0; PathState::ENCODED_LEN]),
        OwnState::Saved(state) => (SAVED, bounded(state).to_bytes()),
        OwnState::Retreated { until } => {
            let mut state = [0; PathState::ENCODED_LEN];
            let since = until.duration_since(UNIX_EPOCH).unwrap_or_default();
            let (seconds, _) = state.split_at_mut(size_of::<u64>());
            seconds.copy_from_slice(&since.as_secs().to_be_bytes());
            (RETREATED, state)
        }
    };
    payload[0] = kind;
    payload[STATE_OFFSET..SCOPE_OFFSET].copy_from_slice(&state);
    payload[SCOPE_OFFSET..ISSUER_OFFSET].copy_from_slice(scope);
    payload[ISSUER_OFFSET..].copy_from_slice(&issuer.0);
    payload
}

/// Returns what the payload of a token tells.
///
/// # Errors
///
/// It is of no use to a connection in this `scope`.
pub fn from_payload(
    payload: &Payload,
    scope: &Scope,
    wall_now: SystemTime,
) -> Result<OwnState, Void> {
    let (state, issued_for) = payload[STATE_OFFSET..ISSUER_OFFSET].split_at(PathState::ENCODED_LEN);
    let (own, is_expired) = match payload[0] {
        UNKNOWN => return Ok(OwnState::Unknown),
        SAVED => {
            let state = PathState::from_bytes(state).map_err(|_| Void::Unreadable)?;
            (OwnState::Saved(state), bounded(state).is_expired(wall_now))
        }
        RETREATED => {
            let seconds = state.first_chunk().copied().map_or(0, u64::from_be_bytes);
            let until = UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
            let until = until.ok_or(Void::Unreadable)?;
            (OwnState::Retreated { until }, until <= wall_now)
        }
        _ => return Err(Void::Unreadable),
    };
    match is_expired {
        _ if issued_for != scope => Err(Void::OtherPath),
        true => Err(Void::Expired),
        false => Ok(own),
    }
}

/// Ends a state before the store forgets the retreats that would make it void.
pub fn bounded(state: PathState) -> PathState {
    let latest = state.observed.checked_add(RETREAT_KNOWN).unwrap_or(state.observed);
    PathState { expires: state.expires.min(latest), ..state }
}

/// Returns what a client's state is good for: packets to `endpoint`, with claims of this name.
pub fn scope(claims_name: &str, endpoint: &RemoteEndpoint) -> Scope {
    // No endpoint contains a line break.
    let text = format!("{endpoint}\n{claims_name}");
    let hash = digest::digest(&digest::SHA256, text.as_bytes());
    *hash.as_ref().first_chunk().expect("SHA-256 is longer")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const HERE: Scope = [7; 8];

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    fn state(lifetime: Duration) -> PathState {
        PathState {
            saved_cwnd: 250_000,
            saved_rtt: Duration::from_millis(100),
            observed: now(),
            expires: now() + lifetime,
            limited: true,
            validated: false,
        }
    }

    #[test]
    fn payload_tells_state_to_its_own_scope_within_its_lifetime() {
        let own = OwnState::Saved(state(HOUR));
        let retreated = OwnState::Retreated { until: now() + HOUR };
        for own in [own, retreated] {
            let payload = to_payload(own, &HERE, Issuer::random());
            let read = |scope, after| from_payload(&payload, scope, now() + after);
            let last = HOUR - Duration::from_millis(1);
            assert_eq!(read(&HERE, Duration::ZERO), Ok(own));
            assert_eq!(read(&HERE, last), Ok(own));
            assert_eq!(read(&HERE, HOUR), Err(Void::Expired));
            assert_eq!(read(&[8; 8], last), Err(Void::OtherPath));
        }
        let nothing = to_payload(OwnState::Unknown, &HERE, Issuer::random());
        assert_eq!(from_payload(&nothing, &[8; 8], now()), Ok(OwnState::Unknown));
    }

    #[test]
    fn payload_tells_its_issuer_to_its_own_scope() {
        let [one, other] = [Issuer::random(), Issuer::random()];
        assert_ne!(one, other);
        for own in [OwnState::Unknown, OwnState::Saved(state(HOUR))] {
            let payload = to_payload(own, &HERE, one);
            assert_eq!(Issuer::of(&payload, &HERE), Some(one));
            assert_eq!(Issuer::of(&payload, &[8; 8]), None);
        }
    }

    // Longer, nobody knows whether another connection has retreated.
    #[test]
    fn state_ends_while_retreats_are_known() {
        let payload = to_payload(OwnState::Saved(state(100 * HOUR)), &HERE, Issuer::random());
        let read = |after| from_payload(&payload, &HERE, now() + after);
        let expires = now() + RETREAT_KNOWN;
        let expected = PathState { expires, ..state(HOUR) };
        assert_eq!(read(RETREAT_KNOWN - Duration::from_millis(1)), Ok(OwnState::Saved(expected)));
        assert_eq!(read(RETREAT_KNOWN), Err(Void::Expired));
    }

    #[test]
    fn unknown_layout_is_unreadable() {
        let mut payload = to_payload(OwnState::Saved(state(HOUR)), &HERE, Issuer::random());
        for (at, byte) in [(0, 3), (STATE_OFFSET, 9)] {
            let before = std::mem::replace(&mut payload[at], byte);
            assert_eq!(from_payload(&payload, &HERE, now()), Err(Void::Unreadable));
            payload[at] = before;
        }
    }

    #[test]
    fn scope_is_endpoint_and_claims() {
        let endpoint = |sender: &str, client: &str| {
            RemoteEndpoint::new(sender, client.parse().unwrap(), Default::default())
        };
        let here = endpoint("192.0.2.1", "198.51.100.7");
        assert_eq!(scope("a", &here), scope("a", &endpoint("192.0.2.1", "198.51.100.8")));
        for (claims, other) in [
            ("b", here.clone()),
            ("a", endpoint("192.0.2.2", "198.51.100.7")),
            ("a", endpoint("192.0.2.1", "198.51.101.7")),
            ("a", here.clone().with_dscp(3)),
        ] {
            assert_ne!(scope("a", &here), scope(claims, &other), "{claims} {other}");
        }
    }
}
