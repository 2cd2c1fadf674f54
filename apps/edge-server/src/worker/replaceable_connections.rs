//! Replaceable connections of one worker, by subnet and by how long they have been so: a full
//! server closes some of them for new clients.

use std::collections::BTreeSet;
use std::time::Instant;

use foldhash::HashMap;
use ipnet::IpNet;

/// Connections that are replaceable, or will be if nothing moves.
#[derive(Default)]
pub struct ReplaceableConnections {
    /// Slots of each subnet, by the time from which they are replaceable.
    by_subnet: HashMap<IpNet, BTreeSet<(Instant, usize)>>,
    slots: HashMap<usize, (IpNet, Instant)>,
}

impl ReplaceableConnections {
    /// Notes the subnet of the connection in a slot, and from when on it is replaceable, if ever.
    pub fn set(&mut self, slot: usize, replaceable: Option<(IpNet, Instant)>) {
        if self.slots.get(&slot) == replaceable.as_ref() {
            return;
        }
        self.remove(slot);
        if let Some((subnet, from)) = replaceable {
            self.slots.insert(slot, (subnet, from));
            self.by_subnet.entry(subnet).or_default().insert((from, slot));
        }
    }

    /// Returns the slot of the connection that has been replaceable for longest, of the first of
    /// these subnets that has one.
    pub fn longest_of(&self, subnets: &[IpNet], now: Instant) -> Option<usize> {
        subnets.iter().find_map(|subnet| {
            let (from, slot) = self.by_subnet.get(subnet)?.first()?;
            (*from <= now).then_some(*slot)
        })
    }

    fn remove(&mut self, slot: usize) {
        let Some((subnet, from)) = self.slots.remove(&slot) else { return };
        if let Some(of_subnet) = self.by_subnet.get_mut(&subnet) {
            of_subnet.remove(&(from, slot));
            if of_subnet.is_empty() {
                self.by_subnet.remove(&subnet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn longest_replaceable_connection_of_the_fullest_subnet_is_found() {
        let start = quiche::clock::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let [one, other]: [IpNet; 2] =
            ["192.0.2.0/24", "198.51.100.0/24"].map(|subnet| subnet.parse().unwrap());
        let mut connections = ReplaceableConnections::default();
        connections.set(7, Some((one, at(1))));
        connections.set(8, Some((other, at(1))));
        connections.set(9, Some((other, at(2))));
        assert_eq!(connections.longest_of(&[other, one], at(2)), Some(8));
        assert_eq!(connections.longest_of(&[one, other], at(2)), Some(7));
        // It has moved meanwhile.
        connections.set(8, Some((other, at(12))));
        assert_eq!(connections.longest_of(&[other], at(2)), Some(9));
        connections.set(9, None);
        assert_eq!(connections.longest_of(&[other], at(11)), None);
        assert_eq!(connections.longest_of(&[other, one], at(11)), Some(7));
        assert_eq!(connections.longest_of(&[other, one], at(12)), Some(8));
        connections.set(7, None);
        connections.set(8, None);
        assert!(connections.slots.is_empty() && connections.by_subnet.is_empty());
    }
}
