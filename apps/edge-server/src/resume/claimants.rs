//! Back-off of clients whose claims came to nothing: until when they get no further one.
//!
//! Saved path state belongs to a subnet, and a claim keeps all others of it from a jump. A client
//! that claims and falls silent, leaves, or takes back its request, or whose jumps fail one after
//! the other, would keep its neighbours from jumping for as long as it likes. So its own claims
//! wait; those of other clients of its subnet do not. Many people may share an address: one claim
//! in a few that comes to nothing is theirs to have. The store's hold-off after a retreat is for
//! the whole subnet. A client that acknowledges what it has not received is not believed for an
//! hour: nothing that its connections observe is recorded, so that nothing has to be forgotten again.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use ab_test::ClientUnit;
use quiche::path_state::hold_off;

/// Number of clients that are remembered.
const CLIENTS_MAX: usize = 65_536;

/// How long a client waits after its second retreat, and is remembered after it has waited.
const MEMORY: Duration = Duration::from_secs(3600);

/// Claims of use after which one that comes to nothing has no consequence.
const USES_PER_FAILURE: u32 = 8;

/// Why a claim came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The client did not take what the claim was for.
    Disuse,

    /// Congestion followed the jump.
    Retreat,

    /// The client acknowledged what it had not received.
    Violation,
}

/// Clients of all workers.
#[derive(Clone, Default)]
pub struct Claimants(Arc<Mutex<Histories>>);

#[derive(Default)]
struct Histories {
    failures: HashMap<ClientUnit, FailureRecord>,

    /// Claims of use since the last that came to nothing.
    uses: HashMap<ClientUnit, u32>,
}

#[derive(Clone, Copy, Debug)]
struct FailureRecord {
    /// Since a claim was of use.
    disuses: u32,
    retreats: u32,
    waits_until: Instant,

    /// Of a client that is not believed.
    disbelieved_until: Option<Instant>,
    kept_until: Instant,
}

impl Claimants {
    /// Returns whether a client may claim.
    pub fn may_claim(&self, client: IpAddr, now: Instant) -> bool {
        let histories = self.histories();
        let record = histories.failures.get(&ClientUnit::of(client));
        record.is_none_or(|record| record.waits_until <= now)
    }

    /// Returns whether a client is believed: what its connections observe may be recorded.
    pub fn is_believed(&self, client: IpAddr, now: Instant) -> bool {
        let histories = self.histories();
        let record = histories.failures.get(&ClientUnit::of(client));
        record.and_then(|record| record.disbelieved_until).is_none_or(|until| until <= now)
    }

    /// Notes a claim of a client that came to nothing, or a violation without a claim.
    pub fn on_failure(&self, client: IpAddr, failure: Failure, now: Instant) {
        let client = ClientUnit::of(client);
        let mut histories = self.histories();
        let uses = histories.uses.remove(&client).unwrap_or(0);
        if failure != Failure::Disuse || uses < USES_PER_FAILURE {
            histories.note(client, failure, now);
        }
    }

    /// Notes a claim of a client that was of use.
    pub fn on_use(&self, client: IpAddr) {
        let client = ClientUnit::of(client);
        let mut histories = self.histories();
        if let Some(record) = histories.failures.get_mut(&client) {
            record.disuses = 0;
        }
        if histories.uses.len() >= CLIENTS_MAX {
            histories.uses.clear();
        }
        let uses = histories.uses.entry(client).or_default();
        *uses = (*uses + 1).min(USES_PER_FAILURE);
    }

    fn histories(&self) -> MutexGuard<'_, Histories> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Histories {
    fn note(&mut self, client: ClientUnit, failure: Failure, now: Instant) {
        let records = &mut self.failures;
        if records.len() >= CLIENTS_MAX {
            records.retain(|_, record| record.kept_until > now);
        }
        let before = records.get(&client).filter(|record| record.kept_until > now);
        if before.is_none() && records.len() >= CLIENTS_MAX {
            return;
        }
        let (disuses, retreats) = before.map_or((0, 0), |r| (r.disuses, r.retreats));
        let (disuses, retreats, wait) = match failure {
            Failure::Disuse => (disuses + 1, retreats, hold_off(disuses + 1)),
            Failure::Retreat if retreats == 0 => (disuses, 1, hold_off(1)),
            Failure::Retreat => (disuses, retreats + 1, MEMORY),
            Failure::Violation => (disuses, retreats, MEMORY),
        };
        let disbelieved_until = match failure {
            Failure::Violation => Some(now + MEMORY),
            Failure::Disuse | Failure::Retreat => before.and_then(|r| r.disbelieved_until),
        };
        let waits_until = before.map_or(now, |record| record.waits_until).max(now + wait);
        let kept_until = waits_until + MEMORY;
        records.insert(
            client,
            FailureRecord { disuses, retreats, waits_until, disbelieved_until, kept_until },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn failing_client_waits_and_its_neighbours_do_not() {
        let start = quiche::clock::now();
        let here = "198.51.100.7".parse().unwrap();
        for (failure, waits) in
            [(Failure::Disuse, [1, 2, 4, 8]), (Failure::Retreat, [1, 60, 60, 60])]
        {
            let claimants = Claimants::default();
            let mut now = start;
            for minutes in waits {
                assert!(claimants.may_claim(here, now));
                claimants.on_failure(here, failure, now);
                assert!(claimants.may_claim("198.51.100.8".parse().unwrap(), now));
                now += minutes * MINUTE - Duration::from_millis(1);
                assert!(!claimants.may_claim(here, now), "{failure:?} {minutes}");
                now += Duration::from_millis(1);
            }
            now += MEMORY;
            claimants.on_failure(here, failure, now);
            assert!(claimants.may_claim(here, now + MINUTE), "its failures are forgotten");
        }
    }

    #[test]
    fn violator_neither_claims_nor_is_believed_for_an_hour() {
        let start = quiche::clock::now();
        let claimants = Claimants::default();
        let [here, neighbour] = ["198.51.100.7", "198.51.100.8"].map(|at| at.parse().unwrap());
        for failure in [Failure::Disuse, Failure::Retreat] {
            claimants.on_failure(here, failure, start);
            assert!(claimants.is_believed(here, start), "{failure:?}");
        }
        (0..USES_PER_FAILURE).for_each(|_| claimants.on_use(here));
        claimants.on_failure(here, Failure::Violation, start);
        claimants.on_failure(here, Failure::Disuse, start + MINUTE);
        for (after, is_believed) in [(MEMORY - Duration::from_millis(1), false), (MEMORY, true)] {
            assert_eq!(claimants.is_believed(here, start + after), is_believed);
            assert_eq!(claimants.may_claim(here, start + after), is_believed);
            assert!(claimants.is_believed(neighbour, start + after));
        }
    }

    // An office or a mobile network behind one address: somebody always closes a tab.
    #[test]
    fn rare_disuse_among_many_uses_has_no_consequence() {
        let now = quiche::clock::now();
        let claimants = Claimants::default();
        let shared = "198.51.100.7".parse().unwrap();
        let fails_after = |uses: u32, failure| {
            (0..uses).for_each(|_| claimants.on_use(shared));
            claimants.on_failure(shared, failure, now);
            let waits = !claimants.may_claim(shared, now);
            claimants.histories().failures.clear();
            waits
        };
        for (uses, failure, waits) in [
            (8, Failure::Disuse, false),
            (0, Failure::Disuse, true),
            (7, Failure::Disuse, true),
            (1000, Failure::Disuse, false),
            (7, Failure::Disuse, true),
            (8, Failure::Retreat, true),
        ] {
            assert_eq!(fails_after(uses, failure), waits, "{uses} {failure:?}");
        }
    }

    #[test]
    fn use_shortens_the_next_wait() {
        let mut now = quiche::clock::now();
        let claimants = Claimants::default();
        let here = "198.51.100.7".parse().unwrap();
        for (uses, minutes) in [(0, 1), (0, 2), (1, 1), (0, 2)] {
            (0..uses).for_each(|_| claimants.on_use(here));
            claimants.on_failure(here, Failure::Disuse, now);
            now += minutes * MINUTE - Duration::from_millis(1);
            assert!(!claimants.may_claim(here, now), "{minutes}");
            now += Duration::from_millis(1);
            assert!(claimants.may_claim(here, now), "{minutes}");
        }
    }

    #[test]
    fn other_address_of_a_failed_client_waits_as_well() {
        let now = quiche::clock::now();
        let claimants = Claimants::default();
        for (failed, same, other) in [
            ("198.51.100.7", "::ffff:198.51.100.7", "198.51.100.8"),
            ("2001:db8::1", "2001:db8::2:1", "2001:db8:0:1::1"),
        ] {
            claimants.on_failure(failed.parse().unwrap(), Failure::Disuse, now);
            assert!(!claimants.may_claim(same.parse().unwrap(), now), "{same}");
            assert!(claimants.may_claim(other.parse().unwrap(), now), "{other}");
        }
    }

    #[test]
    fn number_of_remembered_clients_is_bounded() {
        let now = quiche::clock::now();
        let claimants = Claimants::default();
        let client = |n: u32| IpAddr::V4(n.into());
        for n in 0..=CLIENTS_MAX as u32 {
            claimants.on_failure(client(n), Failure::Disuse, now);
            claimants.on_use(client(n));
        }
        assert_eq!(claimants.histories().failures.len(), CLIENTS_MAX);
        assert!(claimants.histories().uses.len() <= CLIENTS_MAX);
        claimants.on_failure(client(u32::MAX), Failure::Disuse, now + 2 * MEMORY);
        assert_eq!(claimants.histories().failures.len(), 1);
    }
}
