//! Last states: what connections knew of the path to their clients when they ended.
//!
//! A client that leaves with its last byte gets no token that tells what the last round trips have
//! shown: of a short download, that is most. When it comes back to this process with an earlier
//! token of the connection, what the connection knew in the end counts.

use std::sync::Arc;
use std::time::SystemTime;

use path_store::OwnState;
use quick_cache::sync::Cache;

use crate::resume::own_state;
use crate::resume::own_state::Issuer;

/// Number of connections that are remembered; the memory for it is a few megabytes.
const CONNECTIONS_MAX: usize = 65_536;

/// Connections of all workers that have ended.
#[derive(Clone)]
pub struct LastStates(Arc<Cache<Issuer, OwnState>>);

impl Default for LastStates {
    fn default() -> Self {
        Self(Arc::new(Cache::new(CONNECTIONS_MAX)))
    }
}

impl LastStates {
    /// Keeps what a connection knew that has ended.
    pub fn keep(&self, issuer: Issuer, last: OwnState) {
        let last = match last {
            OwnState::Saved(state) => OwnState::Saved(own_state::bounded(state)),
            OwnState::Unknown | OwnState::Retreated { .. } => last,
        };
        if last != OwnState::Unknown {
            self.0.insert(issuer, last);
        }
    }

    /// Returns what the connection knew that issued a token.
    pub fn of(&self, issuer: Issuer, wall_now: SystemTime) -> Option<OwnState> {
        self.0.get(&issuer).filter(|last| !last.is_expired(wall_now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use std::time::UNIX_EPOCH;

    #[test]
    fn what_was_known_lasts_for_its_time_and_is_bounded() {
        let states = LastStates::default();
        let end = UNIX_EPOCH + Duration::from_secs(60);
        let retreated = OwnState::Retreated { until: end };
        let [one, other] = [Issuer::random(), Issuer::random()];
        states.keep(one, retreated);
        states.keep(other, OwnState::Unknown);
        assert_eq!(states.of(one, UNIX_EPOCH), Some(retreated));
        assert_eq!(states.of(one, end), None);
        assert_eq!(states.of(other, UNIX_EPOCH), None);
        for _ in 0..2 * CONNECTIONS_MAX {
            states.keep(Issuer::random(), retreated);
        }
        assert!(states.0.len() <= CONNECTIONS_MAX);
    }
}
