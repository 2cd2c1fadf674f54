//! Back-off of clients whose claims came to nothing: until when they get no further one.
//!
//! Saved path state belongs to a subnet, and a claim keeps all others of it from a jump. A client
//! that claims and falls silent, or whose jumps fail one after the other, would keep its
//! neighbours from jumping for as long as it likes. So its own claims wait; those of other
//! clients of its subnet do not. The store's hold-off after a retreat is for the whole subnet.

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

/// Why a claim came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The client did not acknowledge the initial window in time.
    Silence,

    /// Congestion followed the jump.
    Retreat,
}

/// Clients of all workers.
#[derive(Clone, Default)]
pub struct Claimants(Arc<Mutex<HashMap<ClientUnit, Record>>>);

#[derive(Clone, Copy, Debug)]
struct Record {
    silences: u32,
    retreats: u32,
    waits_until: Instant,
    kept_until: Instant,
}

impl Claimants {
    /// Returns whether a client may claim.
    pub fn may_claim(&self, client: IpAddr, now: Instant) -> bool {
        let records = self.records();
        records.get(&ClientUnit::of(client)).is_none_or(|record| record.waits_until <= now)
    }

    /// Notes a claim of a client that came to nothing.
    pub fn on_failure(&self, client: IpAddr, failure: Failure, now: Instant) {
        let mut records = self.records();
        if records.len() >= CLIENTS_MAX {
            records.retain(|_, record| record.kept_until > now);
        }
        let client = ClientUnit::of(client);
        let before = records.get(&client).filter(|record| record.kept_until > now);
        if before.is_none() && records.len() >= CLIENTS_MAX {
            return;
        }
        let (silences, retreats) = before.map_or((0, 0), |r| (r.silences, r.retreats));
        let (silences, retreats, wait) = match failure {
            Failure::Silence => (silences + 1, retreats, hold_off(silences + 1)),
            Failure::Retreat if retreats == 0 => (silences, 1, hold_off(1)),
            Failure::Retreat => (silences, retreats + 1, MEMORY),
        };
        let waits_until = before.map_or(now, |record| record.waits_until).max(now + wait);
        let record = Record { silences, retreats, waits_until, kept_until: waits_until + MEMORY };
        records.insert(client, record);
    }

    fn records(&self) -> MutexGuard<'_, HashMap<ClientUnit, Record>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
            [(Failure::Silence, [1, 2, 4, 8]), (Failure::Retreat, [1, 60, 60, 60])]
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
    fn other_address_of_a_failed_client_waits_as_well() {
        let now = quiche::clock::now();
        let claimants = Claimants::default();
        for (failed, same, other) in [
            ("198.51.100.7", "::ffff:198.51.100.7", "198.51.100.8"),
            ("2001:db8::1", "2001:db8::2:1", "2001:db8:0:1::1"),
        ] {
            claimants.on_failure(failed.parse().unwrap(), Failure::Silence, now);
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
            claimants.on_failure(client(n), Failure::Silence, now);
        }
        assert_eq!(claimants.records().len(), CLIENTS_MAX);
        claimants.on_failure(client(u32::MAX), Failure::Silence, now + 2 * MEMORY);
        assert_eq!(claimants.records().len(), 1);
    }
}
