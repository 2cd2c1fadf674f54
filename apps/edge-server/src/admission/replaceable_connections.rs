//! Replaceable connections of one worker, or of the TCP side, by group and by how long they have been
//! so: a full server, or subnet, closes some of them for new clients.

use std::collections::BTreeSet;
use std::time::Instant;

use foldhash::HashMap;

use crate::admission::connection_limits::ClientGroup;

/// Connections that are replaceable, or will be if nothing moves.
///
/// They turn idle and busy again with every request, and a place is looked for on a full server
/// only. So the time noted for a connection may be too early, and is corrected when it is met.
#[derive(Default)]
pub struct ReplaceableConnections {
    /// Slots of each group, by the time that is noted.
    by_group: HashMap<ClientGroup, BTreeSet<(Instant, usize)>>,
    slots: HashMap<usize, ([ClientGroup; 2], Instant)>,
}

impl ReplaceableConnections {
    /// Notes the groups of the connection in a slot, and from when on it is replaceable.
    pub fn note(&mut self, slot: usize, groups: [ClientGroup; 2], from: Instant) {
        if self.slots.get(&slot).is_some_and(|(_, noted)| *noted <= from) {
            return;
        }
        self.remove(slot);
        self.slots.insert(slot, (groups, from));
        for group in groups {
            self.by_group.entry(group).or_default().insert((from, slot));
        }
    }

    /// Removes the connection in a slot.
    pub fn remove(&mut self, slot: usize) {
        let Some((groups, noted)) = self.slots.remove(&slot) else { return };
        for group in groups {
            let Some(of_group) = self.by_group.get_mut(&group) else { continue };
            of_group.remove(&(noted, slot));
            if of_group.is_empty() {
                self.by_group.remove(&group);
            }
        }
    }

    /// Returns the slot of the connection that has been replaceable for longest, of the first of
    /// these groups that has one. `current` tells from when on the one in a slot is, if ever.
    pub fn longest_of(
        &mut self,
        groups: &[ClientGroup],
        now: Instant,
        current: impl Fn(usize) -> Option<Instant>,
    ) -> Option<usize> {
        groups.iter().find_map(|group| self.longest_of_group(group, now, &current))
    }

    fn longest_of_group(
        &mut self,
        group: &ClientGroup,
        now: Instant,
        current: &impl Fn(usize) -> Option<Instant>,
    ) -> Option<usize> {
        loop {
            let (noted, slot) = *self.by_group.get(group)?.first()?;
            if noted > now {
                return None;
            }
            let from = current(slot);
            if from == Some(noted) {
                return Some(slot);
            }
            let (groups, _) = self.slots[&slot];
            self.remove(slot);
            if let Some(from) = from {
                self.note(slot, groups, from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ab_test::ClientUnit;

    use super::*;

    fn groups(subnet: &str, client: [u8; 4]) -> [ClientGroup; 2] {
        let subnet = subnet.parse().unwrap();
        [ClientGroup::Subnet(subnet), ClientGroup::Client(subnet, ClientUnit::of(client.into()))]
    }

    /// Connections, and from when on each is replaceable by now.
    #[derive(Default)]
    struct CurrentConnections {
        connections: ReplaceableConnections,
        current: HashMap<usize, Instant>,
    }

    impl CurrentConnections {
        fn set(&mut self, slot: usize, groups: [ClientGroup; 2], from: Instant) {
            self.connections.note(slot, groups, from);
            self.current.insert(slot, from);
        }

        fn longest_of(&mut self, groups: &[ClientGroup], now: Instant) -> Option<usize> {
            let current = |slot: usize| self.current.get(&slot).copied();
            self.connections.longest_of(groups, now, current)
        }
    }

    #[test]
    fn connections_of_a_client_are_told_from_its_neighbours() {
        let start = quiche::clock::now();
        let [one, other] = [1, 2].map(|host| groups("192.0.2.0/24", [192, 0, 2, host]));
        let mut fixture = CurrentConnections::default();
        fixture.set(7, one, start);
        fixture.set(8, other, start);
        assert_eq!(fixture.longest_of(&[other[1]], start), Some(8));
        assert_eq!(fixture.longest_of(&[one[1]], start), Some(7));
    }

    #[test]
    fn longest_replaceable_connection_of_the_fullest_subnet_is_found() {
        let start = quiche::clock::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let of_one = groups("192.0.2.0/24", [192, 0, 2, 1]);
        let of_other = groups("198.51.100.0/24", [198, 51, 100, 1]);
        let [one, other] = [of_one[0], of_other[0]];
        let mut fixture = CurrentConnections::default();
        fixture.set(7, of_one, at(1));
        fixture.set(8, of_other, at(1));
        fixture.set(9, of_other, at(2));
        assert_eq!(fixture.longest_of(&[other, one], at(2)), Some(8));
        assert_eq!(fixture.longest_of(&[one, other], at(2)), Some(7));
        // It has moved meanwhile.
        fixture.set(8, of_other, at(12));
        assert_eq!(fixture.longest_of(&[other], at(2)), Some(9));
        // It closes.
        fixture.current.remove(&9);
        assert_eq!(fixture.longest_of(&[other], at(11)), None);
        assert_eq!(fixture.longest_of(&[other, one], at(11)), Some(7));
        assert_eq!(fixture.longest_of(&[other, one], at(12)), Some(8));
        // It ends its request.
        fixture.set(8, of_other, at(5));
        assert_eq!(fixture.longest_of(&[other], at(5)), Some(8));
        fixture.connections.remove(7);
        fixture.connections.remove(8);
        assert!(fixture.connections.slots.is_empty() && fixture.connections.by_group.is_empty());
    }
}
