//! Store client of one event loop: sends requests and polls replies, and never blocks.

use std::cell::Cell;
use std::time::Duration;
use std::time::SystemTime;

use anyhow::Context;
use path_store::Answer;
use path_store::Role;
use path_store::StoreHandle;
use path_store::StoreService;
use path_store::Wake;
use path_store::WatchedHashKeys;
use quiche::clock;
use quiche::path_state::ClaimToken;
use quiche::path_state::PathState;
use quiche::path_state::RemoteEndpoint;

use crate::config::Cli;
use crate::quic::handle::ConnectionHandle;
use crate::resume::claimants::Claimants;
use crate::resume::last_states::LastStates;
use crate::resume::own_state;
use crate::resume::own_state::Scope;

/// Opens the store that all workers share.
///
/// # Errors
///
/// One line that names the store.
pub fn open(cli: &Cli) -> anyhow::Result<StoreService> {
    let backend = path_store::open(&cli.store, Role::Server, cli.store_entries as usize)
        .context("cannot use --store")?;
    StoreService::start(backend, Default::default()).context("cannot start the store's thread")
}

/// Checks whether [`open()`] would succeed, without opening the store.
///
/// # Errors
///
/// Those of [`open()`].
pub fn check(cli: &Cli) -> anyhow::Result<()> {
    path_store::check(&cli.store).context("cannot use --store")
}

/// Store client of one worker. Without a store, every request is ignored. With hash keys, the
/// store receives keyed hashes of client subnets only.
pub struct StoreClient {
    store: Option<StoreHandle>,
    hash_keys: Option<WatchedHashKeys>,

    /// Whether a store that replies at once, without waking the event loop, has replies.
    has_replies: Cell<bool>,

    /// Clients whose claims came to nothing.
    pub claimants: Claimants,

    /// What connections knew that have ended.
    pub last_states: LastStates,
}

impl StoreClient {
    /// Returns a worker's client; `wake` wakes its event loop when there are replies.
    pub fn new(
        service: Option<&StoreService>,
        hash_keys: Option<WatchedHashKeys>,
        wake: Wake,
        claimants: Claimants,
        last_states: LastStates,
    ) -> Self {
        let store = service.map(|service| service.handle(wake));
        Self { store, hash_keys, has_replies: Cell::new(false), claimants, last_states }
    }

    /// Requests the path state of an endpoint for a connection, without claiming it.
    pub fn read(&self, connection: ConnectionHandle, endpoint: &RemoteEndpoint) {
        if let Some(store) = &self.store {
            store.get(connection.tag(), &self.name(endpoint));
            self.has_replies.set(store.answers_at_once());
        }
    }

    /// Claims the path state of an endpoint for a connection with an RTT of `rtt`. Returns whether
    /// a reply will follow.
    pub fn claim(
        &self,
        connection: ConnectionHandle,
        endpoint: &RemoteEndpoint,
        rtt: Duration,
    ) -> bool {
        self.send_claim(|store| store.claim(connection.tag(), &self.name(endpoint), rtt))
    }

    /// Claims an endpoint for a connection whose client brings path state of its own. Returns whether
    /// a reply will follow.
    pub fn claim_own(
        &self,
        connection: ConnectionHandle,
        endpoint: &RemoteEndpoint,
        own: &PathState,
        rtt: Duration,
    ) -> bool {
        self.send_claim(|store| store.claim_own(connection.tag(), &self.name(endpoint), own, rtt))
    }

    fn send_claim(&self, send: impl FnOnce(&StoreHandle) -> bool) -> bool {
        let hash_keys = self.hash_keys.as_ref().map(WatchedHashKeys::get);
        if hash_keys.is_some_and(|keys| keys.is_settling(clock::wall_now())) {
            return false;
        }
        let Some(store) = &self.store else { return false };
        let sent = send(store);
        self.has_replies.set(store.answers_at_once());
        sent
    }

    /// Returns what the state of a client at `endpoint` is good for. A rotation of hash keys changes
    /// it: the store no longer finds retreats before.
    pub fn scope(&self, endpoint: &RemoteEndpoint) -> Scope {
        own_state::scope(
            self.store.as_ref().map_or("", StoreHandle::claims_name),
            &self.name(endpoint),
        )
    }

    /// Returns whether there are replies for which the event loop was not woken.
    pub fn has_replies(&self) -> bool {
        self.has_replies.get()
    }

    /// Records what a connection observed of its path.
    pub fn record(&self, endpoint: &RemoteEndpoint, observed: &PathState) {
        if let Some(store) = &self.store {
            store.record(&self.name(endpoint), observed);
        }
    }

    /// Releases a claim. After a rotation of hash keys the claim has another name: it expires with
    /// its lease instead.
    pub fn release(&self, endpoint: &RemoteEndpoint, token: ClaimToken) {
        if let Some(store) = &self.store {
            store.release(&self.name(endpoint), token);
        }
    }

    /// Deletes the path state of an endpoint, unless it was observed after `used`.
    pub fn forget(&self, endpoint: &RemoteEndpoint, token: ClaimToken, used: SystemTime) {
        if let Some(store) = &self.store {
            store.forget(&self.name(endpoint), token, used);
        }
    }

    /// Returns the name of an endpoint in the store: a keyed hash, if there are keys.
    fn name(&self, endpoint: &RemoteEndpoint) -> RemoteEndpoint {
        match &self.hash_keys {
            Some(keys) => keys.get().pseudonymize(endpoint.clone(), clock::wall_now()),
            None => endpoint.clone(),
        }
    }

    /// Returns the next reply and the connection that it is for.
    pub fn next_reply(&self) -> Option<(ConnectionHandle, Answer)> {
        let Some(reply) = self.store.as_ref()?.poll() else {
            self.has_replies.set(false);
            return None;
        };
        let (Answer::Read { tag, .. } | Answer::Claimed { tag, .. }) = &reply;
        Some((ConnectionHandle::from_tag(*tag), reply))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handle_yields_slot_and_is_unique() {
        let last = ConnectionHandle::SLOTS_MAX - 1;
        for slot in [0, 1, 300, last] {
            assert_eq!(ConnectionHandle::new(slot, 0).slot(), slot);
            assert_eq!(ConnectionHandle::new(slot, 70_000).slot(), slot);
            assert_ne!(ConnectionHandle::new(slot, 1), ConnectionHandle::new(slot, 2));
        }
    }
}
