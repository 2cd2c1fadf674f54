//! Replaceable connections of one worker, by group and by how long they have been so: a full
//! server, or subnet, closes some of them for new clients.

use std::collections::BTreeSet;
use std::time::Instant;

use foldhash::HashMap;

use crate::admission::connection_limits::ClientGroup;

/// Connections that are replaceable, or will be if nothing moves.
#[derive(Default)]
pub struct ReplaceableConnections {
    /// Slots of each group, by the time from which they are replaceable.
    by_group: HashMap<ClientGroup, BTreeSet<(Instant, usize)>>,
    slots: HashMap<usize, ([ClientGroup; 2], Instant)>,
}

impl ReplaceableConnections {
    /// Notes the groups of the connection in a slot, and from when on it is replaceable, if ever.
    pub fn set(&mut self, slot: usize, replaceable: Option<([ClientGroup; 2], Instant)>) {
        if self.slots.get(&slot) == replaceable.as_ref() {
            return;
        }
        self.remove(slot);
        if let Some((groups, from)) = replaceable {
            self.slots.insert(slot, (groups, from));
            for group in groups {
                self.by_group.entry(group).or_default().insert((from, slot));
            }
        }
    }

    /// Returns the slot of the connection that has been replaceable for longest, of the first of
    /// these groups that has one.
    pub fn longest_of(&self, groups: &[ClientGroup], now: Instant) -> Option<usize> {
        groups.iter().find_map(|group| {
            let (from, slot) = self.by_group.get(group)?.first()?;
            (*from <= now).then_some(*slot)
        })
    }

    fn remove(&mut self, slot: usize) {
        let Some((groups, from)) = self.slots.remove(&slot) else { return };
        for group in groups {
            let Some(of_group) = self.by_group.get_mut(&group) else { continue };
            of_group.remove(&(from, slot));
            if of_group.is_empty() {
                self.by_group.remove(&group);
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

    #[test]
    fn connections_of_a_client_are_told_from_its_neighbours() {
        let start = quiche::clock::now();
        let [one, other] = [1, 2].map(|host| groups("192.0.2.0/24", [192, 0, 2, host]));
        let mut connections = ReplaceableConnections::default();
        connections.set(7, Some((one, start)));
        connections.set(8, Some((other, start)));
        assert_eq!(connections.longest_of(&[other[1]], start), Some(8));
        assert_eq!(connections.longest_of(&[one[1]], start), Some(7));
    }

    #[test]
    fn longest_replaceable_connection_of_the_fullest_subnet_is_found() {
        let start = quiche::clock::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let of_one = groups("192.0.2.0/24", [192, 0, 2, 1]);
        let of_other = groups("198.51.100.0/24", [198, 51, 100, 1]);
        let [one, other] = [of_one[0], of_other[0]];
        let mut connections = ReplaceableConnections::default();
        connections.set(7, Some((of_one, at(1))));
        connections.set(8, Some((of_other, at(1))));
        connections.set(9, Some((of_other, at(2))));
        assert_eq!(connections.longest_of(&[other, one], at(2)), Some(8));
        assert_eq!(connections.longest_of(&[one, other], at(2)), Some(7));
        // It has moved meanwhile.
        connections.set(8, Some((of_other, at(12))));
        assert_eq!(connections.longest_of(&[other], at(2)), Some(9));
        connections.set(9, None);
        assert_eq!(connections.longest_of(&[other], at(11)), None);
        assert_eq!(connections.longest_of(&[other, one], at(11)), Some(7));
        assert_eq!(connections.longest_of(&[other, one], at(12)), Some(8));
        connections.set(7, None);
        connections.set(8, None);
        assert!(connections.slots.is_empty() && connections.by_group.is_empty());
    }
}
