//! Path state that clients carry in their tokens, as `edge-server --state` has it.
//!
//! A client's state is that at the end of its last connection; edge-server replaces tokens during
//! a response, so that the last one tells about as much.

use std::collections::BTreeMap;
use std::time::SystemTime;

use path_store::OwnState;

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use std::time::UNIX_EPOCH;

    #[test]
    fn client_brings_its_own_until_the_time_of_that_has_passed() {
        let until = UNIX_EPOCH + Duration::from_secs(1);
        let own = OwnState::Retreated { until };
        let mut clients = OwnStates::default();
        clients.give(3, own);
        assert_eq!(clients.brought(3, UNIX_EPOCH), own);
        assert_eq!(clients.brought(4, UNIX_EPOCH), OwnState::Unknown);
        assert_eq!(clients.brought(3, until), OwnState::Unknown);
    }
}
