//! Which saved parameters a connection may use: those of its client's own path, which the client
//! carries from one connection to the next, or those that the store has for its subnet.

use std::time::SystemTime;

use clap::ValueEnum;
use quiche::path_state::PathState;
use quiche::path_state::RETREAT_KNOWN;
use serde::Deserialize;
use serde::Serialize;

/// Where saved path state is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StateKept {
    /// In the store, for all clients of a subnet.
    #[default]
    Store,

    /// In the token of each client. The store keeps claims and retreats alone.
    Token,

    /// In both: a client's own comes before its subnet's.
    Both,
}

/// What is known of the path to one client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnState {
    #[default]
    Unknown,

    /// Parameters that a connection of this client observed.
    Saved(PathState),

    /// A connection of this client retreated, and none has observed anything since: until this time
    /// it starts slowly, whatever others of its subnet have observed.
    Retreated { until: SystemTime },
}

impl OwnState {
    /// Returns the saved parameters.
    pub fn saved(self) -> Option<PathState> {
        match self {
            Self::Saved(state) => Some(state),
            Self::Unknown | Self::Retreated { .. } => None,
        }
    }

    /// Returns whether its time has passed.
    pub fn is_expired(self, wall_now: SystemTime) -> bool {
        match self {
            Self::Unknown => false,
            Self::Saved(state) => state.is_expired(wall_now),
            Self::Retreated { until } => until <= wall_now,
        }
    }
}

/// Path to the client of one connection: what the client brought of it, and what it is to carry.
#[derive(Clone, Debug)]
pub struct OwnPath {
    kept: StateKept,
    brought: OwnState,
    next: OwnState,

    /// The store has refused what the client brought: it may be void.
    is_doubtful: bool,
}

impl OwnPath {
    /// Returns the path to a client that `brought` this.
    pub fn new(kept: StateKept, brought: OwnState) -> Self {
        Self { kept, brought, next: brought, is_doubtful: false }
    }

    /// Returns the saved parameters that the client brought.
    pub fn saved(&self) -> Option<PathState> {
        self.brought.saved()
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

    /// Returns whether the client carries anything.
    pub fn is_carried(&self) -> bool {
        self.kept != StateKept::Store
    }

    /// Notes that the store has refused what the client brought. What the connection observes takes
    /// its place, however little that is.
    pub fn on_refusal(&mut self) {
        self.is_doubtful = true;
    }

    /// Notes a retreat of the connection. Until a connection of its own observes something, the
    /// client starts slowly, for as long as what it observed before would have been used.
    pub fn on_retreat(&mut self, wall_now: SystemTime) {
        self.next = OwnState::Retreated { until: wall_now + RETREAT_KNOWN };
    }

    /// Takes what the connection has observed.
    pub fn on_observation(&mut self, observed: PathState, wall_now: SystemTime) {
        let was_doubtful = std::mem::take(&mut self.is_doubtful);
        let held = self.next.saved().filter(|_| !was_doubtful);
        self.next = OwnState::Saved(PathState::merged(held, observed, wall_now));
    }

    /// Returns what the client is to carry.
    pub fn next(&self) -> OwnState {
        if self.is_carried() {
            self.next
        } else {
            OwnState::Unknown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use std::time::UNIX_EPOCH;

    const HOUR: Duration = Duration::from_secs(3600);
    const NOW: SystemTime = UNIX_EPOCH;

    fn state(saved_cwnd: u64, limited: bool) -> PathState {
        PathState {
            saved_cwnd,
            saved_rtt: Duration::from_millis(100),
            observed: NOW,
            expires: NOW + HOUR,
            limited,
            validated: false,
        }
    }

    #[test]
    fn own_state_comes_before_that_of_the_subnet() {
        let saved = OwnState::Saved(state(9, false));
        let retreated = OwnState::Retreated { until: NOW + HOUR };
        for (kept, brought, uses_store) in [
            (StateKept::Store, OwnState::Unknown, true),
            (StateKept::Both, OwnState::Unknown, true),
            (StateKept::Both, saved, false),
            (StateKept::Both, retreated, false),
            (StateKept::Token, OwnState::Unknown, false),
            (StateKept::Token, saved, false),
        ] {
            let path = OwnPath::new(kept, brought);
            assert_eq!(path.uses_store(), uses_store, "{kept:?} {brought:?}");
            assert_eq!(path.saved().is_some(), brought == saved);
            assert_eq!(path.is_recorded(), kept != StateKept::Token);
        }
    }

    #[test]
    fn client_carries_what_its_connections_observe_or_that_one_retreated() {
        let brought = OwnState::Saved(state(1000, false));
        for (kept, is_carried) in
            [(StateKept::Store, false), (StateKept::Token, true), (StateKept::Both, true)]
        {
            let mut path = OwnPath::new(kept, brought);
            let carries = |path: &OwnPath, own: OwnState| {
                assert_eq!(path.is_carried(), is_carried);
                assert_eq!(path.next(), if is_carried { own } else { OwnState::Unknown });
            };
            carries(&path, brought);
            path.on_retreat(NOW);
            carries(&path, OwnState::Retreated { until: NOW + RETREAT_KNOWN });
            path.on_observation(state(10, true), NOW);
            carries(&path, OwnState::Saved(state(10, true)));
        }
    }

    // Otherwise a state that is void would outlast all that is less.
    #[test]
    fn refused_state_is_replaced_by_any_observation() {
        let brought = OwnState::Saved(state(1000, false));
        for (is_refused, next) in [(false, state(1000, false)), (true, state(10, true))] {
            let mut path = OwnPath::new(StateKept::Both, brought);
            if is_refused {
                path.on_refusal();
            }
            assert_eq!(path.next(), brought);
            path.on_observation(state(10, true), NOW);
            assert_eq!(path.next(), OwnState::Saved(next));
        }
    }

    #[test]
    fn own_state_ends_with_its_time() {
        for (own, ends) in [
            (OwnState::Unknown, false),
            (OwnState::Saved(state(9, false)), true),
            (OwnState::Retreated { until: NOW + HOUR }, true),
        ] {
            assert!(!own.is_expired(NOW));
            assert_eq!(own.is_expired(NOW + HOUR), ends, "{own:?}");
        }
    }
}
