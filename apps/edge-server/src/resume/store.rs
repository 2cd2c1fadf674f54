//! The store as an event loop sees it: requests go out, answers come in later,
//! and nothing waits.

use crate::quic::handle::ConnectionHandle;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;

use anyhow::Context;
use log::debug;
use mio::Waker;
use path_store::Answer;
use path_store::Role;
use path_store::StoreHandle;
use path_store::StoreService;
use path_store::WatchedHashKeys;
use quiche::clock;
use quiche::path_state::ClaimToken;
use quiche::path_state::PathState;
use quiche::path_state::RemoteEndpoint;

use crate::config::Cli;

/// Opens the store that all workers share.
///
/// # Errors
///
/// One line that names it.
pub fn open(cli: &Cli) -> anyhow::Result<StoreService> {
    let backend = path_store::open(&cli.store, Role::Server, cli.store_entries as usize)
        .context("cannot use --store")?;
    StoreService::start(backend, Default::default()).context("cannot start the store's thread")
}

/// The saved paths that one worker reads and writes. Without a store it knows
/// none and keeps none. With keys, the store knows clients by keyed hashes only.
pub struct StoreClient {
    store: Option<StoreHandle>,
    hash_keys: Option<WatchedHashKeys>,

    /// Answers wait, of a store that wakes nobody.
    answered: Cell<bool>,
}

impl StoreClient {
    /// A worker's end of the store; `waker` tells it that answers have come.
    pub fn new(
        service: Option<&StoreService>,
        hash_keys: Option<WatchedHashKeys>,
        waker: Arc<Waker>,
    ) -> Self {
        let wake = move || {
            if let Err(e) = waker.wake() {
                debug!("cannot wake the event loop: {e}");
            }
        };
        let store = service.map(|service| service.handle(Arc::new(wake)));
        Self { store, hash_keys, answered: Cell::new(false) }
    }

    /// Reads the set of an endpoint for a connection, without claiming it.
    pub fn read(&self, connection: ConnectionHandle, endpoint: &RemoteEndpoint) {
        if let Some(store) = &self.store {
            store.get(connection.tag(), &self.name(endpoint));
            self.answered.set(store.answers_at_once());
        }
    }

    /// Claims the set of an endpoint for a connection, whose current RTT is `rtt`.
    /// False if no answer will come.
    pub fn claim(
        &self,
        connection: ConnectionHandle,
        endpoint: &RemoteEndpoint,
        rtt: Duration,
    ) -> bool {
        let settling = self.hash_keys.as_ref().map(WatchedHashKeys::get);
        if settling.is_some_and(|keys| keys.is_settling(clock::wall_now())) {
            return false;
        }
        let Some(store) = &self.store else { return false };
        let asked = store.claim(connection.tag(), &self.name(endpoint), rtt);
        self.answered.set(store.answers_at_once());
        asked
    }

    /// Answers have come that nobody was woken for.
    pub fn has_answers(&self) -> bool {
        self.answered.get()
    }

    pub fn record(&self, endpoint: &RemoteEndpoint, observed: &PathState) {
        if let Some(store) = &self.store {
            store.record(&self.name(endpoint), observed);
        }
    }

    // Of a claim under a name that is no more: it lapses.
    pub fn release(&self, endpoint: &RemoteEndpoint, token: ClaimToken) {
        if let Some(store) = &self.store {
            store.release(&self.name(endpoint), token);
        }
    }

    /// Deletes the set of an endpoint, if it was observed by the time `used`.
    pub fn forget(&self, endpoint: &RemoteEndpoint, token: ClaimToken, used: SystemTime) {
        if let Some(store) = &self.store {
            store.forget(&self.name(endpoint), token, used);
        }
    }

    /// What the store knows an endpoint by: that of an answer stays as it is.
    fn name(&self, endpoint: &RemoteEndpoint) -> RemoteEndpoint {
        match &self.hash_keys {
            Some(keys) => keys.get().pseudonymize(endpoint.clone(), clock::wall_now()),
            None => endpoint.clone(),
        }
    }

    /// The next answer that has come, and whom it is for.
    pub fn next_answer(&self) -> Option<(ConnectionHandle, Answer)> {
        let Some(answer) = self.store.as_ref()?.poll() else {
            self.answered.set(false);
            return None;
        };
        let (Answer::Read { tag, .. } | Answer::Claimed { tag, .. }) = &answer;
        Some((ConnectionHandle::from_tag(*tag), answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_its_slot_and_differs_from_the_slots_earlier_ones() {
        let last = ConnectionHandle::SLOTS_MAX - 1;
        for slot in [0, 1, 300, last] {
            assert_eq!(ConnectionHandle::new(slot, 0).slot(), slot);
            assert_eq!(ConnectionHandle::new(slot, 70_000).slot(), slot);
            assert_ne!(ConnectionHandle::new(slot, 1), ConnectionHandle::new(slot, 2));
        }
    }
}
