//! Handshakes in places beyond the limit of connections, and which of them gives way to a newcomer
//! when all such places are taken.
//!
//! A handshake that does not end holds its place for `--handshake-timeout`, so that a few subnets
//! could keep all newcomers out. The oldest handshake of the subnet that has most gives way, to a
//! client whose subnet has fewer. An honest one takes a round trip or two, and so is left alone for
//! some seconds, unless its subnet has several times as many as the newcomer's.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::time::Duration;
use std::time::Instant;

use ipnet::IpNet;

use crate::admission::notices::Notices;
use crate::admission::ranking::Ranking;
use crate::quic::handle::ConnectionHandle;

/// How long a handshake keeps its place: four round trips of 700 ms, and more than that a client
/// needs only if it loses packets.
const GRACE: Duration = Duration::from_secs(3);

/// A subnet with so many times as many as the newcomer's has then gives even a young one.
const YOUNG_FACTOR: u64 = 4;

/// Number of subnets in which an old handshake is looked for.
const FULLEST_MAX: usize = 64;

/// Handshakes of all workers.
#[derive(Default)]
pub struct SurplusHandshakes {
    /// Those of each subnet, in the order in which they began.
    subnets: HashMap<IpNet, BTreeMap<u64, SurplusHandshake>>,
    counts: Ranking<IpNet>,
    all: u64,
    number_next: u64,
}

struct SurplusHandshake {
    since: Instant,
    owner: Option<(ConnectionHandle, Notices)>,
}

impl SurplusHandshakes {
    /// Returns whether a handshake has its place.
    pub fn contains(&self, subnet: IpNet, number: u64) -> bool {
        self.subnets.get(&subnet).is_some_and(|handshakes| handshakes.contains_key(&number))
    }

    /// Returns their number.
    pub fn len(&self) -> u64 {
        self.all
    }

    /// Returns the number of those of a subnet.
    pub fn count(&self, subnet: IpNet) -> u64 {
        self.counts.total_of(subnet)
    }

    /// Adds a handshake. Returns its number.
    pub fn begin(&mut self, subnet: IpNet, now: Instant) -> u64 {
        let number = self.number_next;
        self.number_next += 1;
        self.change(subnet, |handshakes| {
            handshakes.insert(number, SurplusHandshake { since: now, owner: None })
        });
        number
    }

    /// Removes a handshake. Returns whether it still had its place.
    pub fn end(&mut self, subnet: IpNet, number: u64) -> bool {
        self.change(subnet, |handshakes| handshakes.remove(&number)).is_some()
    }

    /// Takes the place of a handshake, and tells the worker that has its connection.
    pub fn revoke(&mut self, subnet: IpNet, number: u64) {
        let revoked = self.change(subnet, |handshakes| handshakes.remove(&number));
        if let Some((handle, notices)) = revoked.and_then(|handshake| handshake.owner) {
            notices.push(handle);
        }
    }

    /// Notes whose a handshake is, which may have lost its place already.
    pub fn set_owner(
        &mut self,
        subnet: IpNet,
        number: u64,
        handle: ConnectionHandle,
        notices: &Notices,
    ) {
        match self.subnets.get_mut(&subnet).and_then(|handshakes| handshakes.get_mut(&number)) {
            Some(handshake) => handshake.owner = Some((handle, notices.clone())),
            None => notices.push(handle),
        }
    }

    /// Returns the handshake that gives way to one of `newcomer`, if any does.
    pub fn replaceable(&self, newcomer: IpNet, now: Instant) -> Option<(IpNet, u64)> {
        let here = self.count(newcomer);
        let oldest_of = |subnet| {
            let (number, handshake) = self.subnets.get(&subnet)?.first_key_value()?;
            Some((subnet, *number, now.saturating_duration_since(handshake.since)))
        };
        let mut oldest = self.counts.larger_than(here).take(FULLEST_MAX).filter_map(oldest_of);
        let old = oldest.find(|(_, _, age)| *age >= GRACE);
        let crowd = YOUNG_FACTOR * (here + 1);
        let young = || self.counts.larger_than(crowd - 1).next().and_then(oldest_of);
        let found = old.or_else(young);
        found.map(|(subnet, number, _)| (subnet, number))
    }

    fn change<T>(
        &mut self,
        subnet: IpNet,
        change: impl FnOnce(&mut BTreeMap<u64, SurplusHandshake>) -> T,
    ) -> T {
        let handshakes = self.subnets.entry(subnet).or_default();
        let before = handshakes.len() as u64;
        let changed = change(handshakes);
        let now = handshakes.len() as u64;
        if now == 0 {
            self.subnets.remove(&subnet);
        }
        self.counts.change(subnet, before, now);
        self.all = self.all - before + now;
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subnet(number: u8) -> IpNet {
        IpNet::new([10, 0, number, 0].into(), 24).unwrap()
    }

    #[test]
    fn oldest_handshake_of_the_fullest_subnet_gives_way() {
        let start = quiche::clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut handshakes = SurplusHandshakes::default();
        let first = handshakes.begin(subnet(1), at(0));
        let [old, young] = [1, 2500].map(|ms| handshakes.begin(subnet(2), at(ms)));
        // Within a few round trips from their start, all are left alone.
        assert_eq!(handshakes.replaceable(subnet(9), at(2999)), None);
        // The subnet has as many.
        assert_eq!(handshakes.replaceable(subnet(2), at(9000)), None);
        assert_eq!(handshakes.replaceable(subnet(9), at(3000)), Some((subnet(1), first)));
        assert_eq!(handshakes.replaceable(subnet(9), at(3001)), Some((subnet(2), old)));
        assert_eq!(handshakes.replaceable(subnet(1), at(3001)), Some((subnet(2), old)));
        assert!(handshakes.end(subnet(2), old) && !handshakes.end(subnet(2), old));
        assert_eq!(handshakes.replaceable(subnet(1), at(9000)), None);
        assert!(handshakes.end(subnet(2), young) && handshakes.end(subnet(1), first));
        assert!(handshakes.subnets.is_empty() && handshakes.len() == 0);
    }

    // Otherwise handshakes that begin again and again, all of them young, hold all places.
    #[test]
    fn young_handshake_gives_way_where_there_are_many() {
        let now = quiche::clock::now();
        let mut handshakes = SurplusHandshakes::default();
        let first = handshakes.begin(subnet(1), now);
        for _ in 0..2 {
            handshakes.begin(subnet(1), now);
        }
        assert_eq!(handshakes.replaceable(subnet(9), now), None);
        handshakes.begin(subnet(1), now);
        assert_eq!(handshakes.replaceable(subnet(9), now), Some((subnet(1), first)));
        handshakes.begin(subnet(9), now);
        assert_eq!(handshakes.replaceable(subnet(9), now), None);
    }

    #[test]
    fn owner_of_a_revoked_handshake_is_told_once() {
        let now = quiche::clock::now();
        let notices = Notices::new(|| ());
        let mut handshakes = SurplusHandshakes::default();
        let [one, other] = [1, 2].map(|slot| {
            let number = handshakes.begin(subnet(1), now);
            (number, ConnectionHandle::new(slot, 0))
        });
        handshakes.set_owner(subnet(1), one.0, one.1, &notices);
        assert_eq!(notices.take(), []);
        handshakes.revoke(subnet(1), one.0);
        assert_eq!(notices.take(), [one.1]);
        // Before its worker has said whose it is.
        handshakes.revoke(subnet(1), other.0);
        assert_eq!(notices.take(), []);
        handshakes.set_owner(subnet(1), other.0, other.1, &notices);
        assert_eq!((notices.take(), notices.take()), (vec![other.1], vec![]));
    }
}
