//! Bounded store in the memory of one process.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use super::hold_off;
use super::lease;
use super::Claim;
use super::ClaimToken;
use super::PathState;
use super::PathStateStore;
use super::RemoteEndpoint;
use super::StoreError;
use super::LINGER;
use crate::clock;

/// Store in memory: for one process, and for simulations.
#[derive(Debug)]
pub struct MemoryStore {
    capacity: usize,
    slots: Mutex<HashMap<RemoteEndpoint, Slot>>,

    /// Wall-clock time of the last flush.
    flushed: Mutex<Option<SystemTime>>,
}

#[derive(Debug)]
struct Slot {
    state: Option<PathState>,
    claim: Option<(ClaimToken, Instant)>,
    retreats: u32,
    hold_off_end: Option<Instant>,

    /// Wall-clock time of the last retreat.
    retreated: Option<SystemTime>,
    touched: Instant,
}

impl MemoryStore {
    /// Returns a store of at most `capacity` endpoints. When it is full, a
    /// hundredth of them, at least one, makes room: those that were not touched
    /// for the longest time, and those with a claim last.
    pub fn new(capacity: usize) -> Self {
        MemoryStore {
            capacity: capacity.max(1),
            slots: Mutex::default(),
            flushed: Mutex::default(),
        }
    }

    // A panic elsewhere leaves every slot consistent: each change is one
    // assignment.
    fn slots(&self) -> MutexGuard<'_, HashMap<RemoteEndpoint, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn flushed(&self) -> MutexGuard<'_, Option<SystemTime>> {
        self.flushed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn new(now: Instant) -> Self {
        Slot {
            state: None,
            claim: None,
            retreats: 0,
            hold_off_end: None,
            retreated: None,
            touched: now,
        }
    }

    /// Claims saved parameters, unless another connection holds the claim or a
    /// hold-off runs.
    fn grant(
        &mut self, state: PathState, rtt: Duration, now: Instant,
    ) -> Option<Claim> {
        if self.is_claimed(now) || self.is_held_off(now) {
            return None;
        }

        let token = ClaimToken::random();
        let lease = lease(state.saved_rtt, rtt);
        self.claim = Some((token, now + lease + LINGER));

        Some(Claim {
            state,
            token,
            lease,
        })
    }

    fn is_held_by(&self, token: ClaimToken, now: Instant) -> bool {
        self.claim
            .is_some_and(|(held, end)| held == token && now < end)
    }

    fn is_claimed(&self, now: Instant) -> bool {
        self.claim.is_some_and(|(_, end)| now < end)
    }

    fn is_held_off(&self, now: Instant) -> bool {
        self.hold_off_end.is_some_and(|end| now < end)
    }

    /// Returns the order in which slots go, least first. A connection whose
    /// slot goes loses its claim, and another one could get a second one.
    fn staleness(&self, now: Instant) -> (bool, Instant) {
        (self.is_claimed(now), self.touched)
    }

    fn live_state(&mut self) -> Option<PathState> {
        // RFC 9959, 3.2: delete the set when its Lifetime has passed.
        let wall_now = clock::wall_now();
        self.state = self.state.filter(|state| !state.is_expired(wall_now));
        self.state
    }
}

/// Returns the slot of an endpoint; a new one makes others go if need be.
fn slot_of<'a>(
    slots: &'a mut HashMap<RemoteEndpoint, Slot>, endpoint: &RemoteEndpoint,
    capacity: usize, now: Instant,
) -> &'a mut Slot {
    if !slots.contains_key(endpoint) {
        make_room(slots, capacity, now);
    }

    slots
        .entry(endpoint.clone())
        .or_insert_with(|| Slot::new(now))
}

// The search goes through all slots, which pays if several of them go.
fn make_room(
    slots: &mut HashMap<RemoteEndpoint, Slot>, capacity: usize, now: Instant,
) {
    if slots.len() < capacity {
        return;
    }

    let mut excess = slots.len() - capacity + 1 + capacity / 100;
    let mut order: Vec<_> =
        slots.values().map(|slot| slot.staleness(now)).collect();
    let (_, &mut last, _) = order.select_nth_unstable(excess - 1);

    slots.retain(|_, slot| {
        let goes = excess > 0 && slot.staleness(now) <= last;
        excess -= usize::from(goes);
        !goes
    });
}

impl PathStateStore for MemoryStore {
    fn get(
        &self, endpoint: &RemoteEndpoint,
    ) -> Result<Option<PathState>, StoreError> {
        Ok(self.slots().get_mut(endpoint).and_then(Slot::live_state))
    }

    fn claim(
        &self, endpoint: &RemoteEndpoint, rtt: Duration,
    ) -> Result<Option<Claim>, StoreError> {
        let now = clock::now();
        let mut slots = self.slots();

        let Some(slot) = slots.get_mut(endpoint) else {
            return Ok(None);
        };

        let Some(state) = slot.live_state() else {
            return Ok(None);
        };

        Ok(slot.grant(state, rtt, now))
    }

    fn claim_own(
        &self, endpoint: &RemoteEndpoint, own: &PathState, rtt: Duration,
    ) -> Result<Option<Claim>, StoreError> {
        if own.is_expired(clock::wall_now()) {
            return Ok(None);
        }

        let now = clock::now();
        let mut slots = self.slots();
        let slot = slot_of(&mut slots, endpoint, self.capacity, now);

        let void_until = slot.retreated.max(*self.flushed());

        if void_until.is_some_and(|at| own.observed <= at) {
            return Ok(None);
        }

        slot.touched = now;
        Ok(slot.grant(*own, rtt, now))
    }

    fn record(
        &self, endpoint: &RemoteEndpoint, observed: &PathState,
    ) -> Result<(), StoreError> {
        let now = clock::now();
        let mut slots = self.slots();
        let slot = slot_of(&mut slots, endpoint, self.capacity, now);

        if slot.is_held_off(now) {
            return Ok(());
        }

        let wall_now = clock::wall_now();
        slot.state = Some(PathState::merged(slot.state, *observed, wall_now));
        slot.touched = now;

        // A validated jump ends the consecutive retreats.
        if observed.validated {
            slot.retreats = 0;
            slot.hold_off_end = None;
        }

        Ok(())
    }

    fn release(
        &self, endpoint: &RemoteEndpoint, token: ClaimToken,
    ) -> Result<(), StoreError> {
        let now = clock::now();

        if let Some(slot) = self.slots().get_mut(endpoint) {
            if slot.is_held_by(token, now) {
                slot.claim = None;
            }
        }

        Ok(())
    }

    fn forget(
        &self, endpoint: &RemoteEndpoint, token: ClaimToken, used: SystemTime,
    ) -> Result<(), StoreError> {
        let now = clock::now();
        let mut slots = self.slots();
        let slot = slot_of(&mut slots, endpoint, self.capacity, now);

        if slot.is_held_by(token, now) {
            slot.claim = None;
        }

        slot.state = slot.state.filter(|held| held.observed > used);
        slot.retreated = slot.retreated.max(Some(clock::wall_now()));

        if !slot.is_held_off(now) {
            slot.retreats = slot.retreats.saturating_add(1);
            slot.hold_off_end = Some(now + hold_off(slot.retreats));
        }

        Ok(())
    }

    fn flush(&self) -> Result<usize, StoreError> {
        let mut slots = self.slots();
        let states = slots.values().filter(|slot| slot.state.is_some()).count();

        slots.clear();
        *self.flushed() = Some(clock::wall_now());

        Ok(states)
    }
}
