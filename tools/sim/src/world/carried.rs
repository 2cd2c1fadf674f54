//! Path state that clients carry in their tokens, as `edge-server --state` has it.
//!
//! A client's state is that at the end of its last connection; edge-server replaces tokens during
//! a response, so that the last one tells about as much.

use std::collections::BTreeMap;
use std::time::SystemTime;

use quiche::path_state::PathState;
use quiche::path_state::RETREAT_KNOWN;

use crate::scenario::StateKept;

/// What a client carries of the path to it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum OwnState {
    #[default]
    Unknown,

    /// Parameters that a connection of this client observed.
    Saved(PathState),

    /// A connection of this client retreated, and none has observed anything since: until this time
    /// it starts slowly.
    Retreated { until: SystemTime },
}

impl OwnState {
    fn is_expired(&self, wall_now: SystemTime) -> bool {
        match self {
            Self::Unknown => false,
            Self::Saved(state) => state.is_expired(wall_now),
            Self::Retreated { until } => *until <= wall_now,
        }
    }
}

/// What all clients carry, by client.
#[derive(Debug, Default)]
pub struct OwnStates(BTreeMap<usize, OwnState>);

impl OwnStates {
    /// Returns what a client brings, unless its time has passed.
    pub fn brought(&self, client: usize, wall_now: SystemTime) -> OwnState {
        let own = self.0.get(&client).copied().unwrap_or_default();
        if own.is_expired(wall_now) {
            return OwnState::Unknown;
        }
        own
    }

    /// Gives a client what it brings the next time.
    pub fn give(&mut self, client: usize, own: OwnState) {
        self.0.insert(client, own);
    }
}

/// State of one connection's client: what it has brought, and what it is to carry.
#[derive(Debug)]
pub struct CarriedState {
    kept: StateKept,
    brought: OwnState,
    next: OwnState,

    /// The store has refused what the client brought.
    is_doubtful: bool,
}

impl CarriedState {
    /// Creates that of a client which has brought this.
    pub fn new(kept: StateKept, brought: OwnState) -> Self {
        Self { kept, brought, next: brought, is_doubtful: false }
    }

    /// Returns the saved parameters that the client brought.
    pub fn saved(&self) -> Option<PathState> {
        match self.brought {
            OwnState::Saved(state) => Some(state),
            _ => None,
        }
    }

    /// Returns whether the connection may jump with what others of the subnet have observed.
    pub fn uses_store(&self) -> bool {
        match self.kept {
            StateKept::Store => true,
            StateKept::Both => self.brought == OwnState::Unknown,
            StateKept::Token => false,
        }
    }

    /// Returns whether the store keeps what the connection observes.
    pub fn is_recorded(&self) -> bool {
        self.kept != StateKept::Token
    }

    /// Notes that the store has refused what the client brought.
    pub fn on_refusal(&mut self) {
        self.is_doubtful = true;
    }

    /// Notes a retreat of the connection.
    pub fn on_retreat(&mut self, wall_now: SystemTime) {
        self.next = OwnState::Retreated { until: wall_now + RETREAT_KNOWN };
    }

    /// Takes what the connection has observed. Returns what the client is to carry.
    pub fn on_end(&mut self, observed: Option<PathState>, wall_now: SystemTime) -> OwnState {
        if self.kept == StateKept::Store {
            return OwnState::Unknown;
        }
        if let Some(observed) = observed {
            let held = match self.next {
                OwnState::Saved(state) if !self.is_doubtful => Some(state),
                _ => None,
            };
            self.next = OwnState::Saved(PathState::merged(held, observed, wall_now));
        }
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use std::time::UNIX_EPOCH;

    fn state(saved_cwnd: u64) -> PathState {
        PathState {
            saved_cwnd,
            saved_rtt: Duration::from_millis(50),
            observed: UNIX_EPOCH,
            expires: UNIX_EPOCH + Duration::from_secs(3600),
            limited: false,
            validated: false,
        }
    }

    #[test]
    fn client_jumps_with_its_own_state_before_that_of_its_subnet() {
        let (saved, retreated) = (
            OwnState::Saved(state(9)),
            OwnState::Retreated { until: UNIX_EPOCH + Duration::from_secs(1) },
        );
        for (kept, brought, uses_store) in [
            (StateKept::Store, OwnState::Unknown, true),
            (StateKept::Both, OwnState::Unknown, true),
            (StateKept::Both, saved, false),
            (StateKept::Both, retreated, false),
            (StateKept::Token, OwnState::Unknown, false),
        ] {
            let carried = CarriedState::new(kept, brought);
            assert_eq!(carried.uses_store(), uses_store, "{kept:?} {brought:?}");
            assert_eq!(carried.saved().is_some(), brought == saved);
        }
    }

    #[test]
    fn client_carries_what_its_connections_observe_or_that_one_retreated() {
        let wall_now = UNIX_EPOCH + Duration::from_secs(1);
        let mut carried = CarriedState::new(StateKept::Both, OwnState::Unknown);
        assert_eq!(carried.on_end(Some(state(7)), wall_now), OwnState::Saved(state(7)));
        carried.on_retreat(wall_now);
        let until = wall_now + RETREAT_KNOWN;
        assert_eq!(carried.on_end(None, wall_now), OwnState::Retreated { until });

        let mut clients = OwnStates::default();
        clients.give(3, OwnState::Saved(state(7)));
        assert_eq!(clients.brought(3, wall_now), OwnState::Saved(state(7)));
        assert_eq!(clients.brought(4, wall_now), OwnState::Unknown);
        assert_eq!(clients.brought(3, wall_now + Duration::from_secs(3600)), OwnState::Unknown);

        let mut stored = CarriedState::new(StateKept::Store, OwnState::Unknown);
        assert_eq!(stored.on_end(Some(state(7)), wall_now), OwnState::Unknown);
    }
}
