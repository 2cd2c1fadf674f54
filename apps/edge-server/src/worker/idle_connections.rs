//! Idle connections of one worker, by subnet and by how long they have been idle: a full server
//! closes some of them for new clients.

use std::collections::BTreeMap;
use std::time::Duration;
use std::time::Instant;

use foldhash::HashMap;
use ipnet::IpNet;

/// How long a connection is idle before another may take its place: a client has asked for a page,
/// and may ask for what belongs to it.
const IDLE_MIN: Duration = Duration::from_secs(1);

/// Connections without a request under way.
#[derive(Default)]
pub struct IdleConnections {
    /// Slots of each subnet, in the order in which they have become idle.
    by_subnet: HashMap<IpNet, BTreeMap<u64, (usize, Instant)>>,

    /// Subnet and serial of each slot.
    slots: HashMap<usize, (IpNet, u64)>,
    serial_next: u64,
}

impl IdleConnections {
    /// Notes whether the connection in a slot is idle, and of which subnet.
    pub fn set(&mut self, slot: usize, subnet: Option<IpNet>, now: Instant) {
        match subnet {
            Some(_) if self.slots.contains_key(&slot) => (),
            Some(subnet) => {
                let serial = self.serial_next;
                self.serial_next += 1;
                self.slots.insert(slot, (subnet, serial));
                self.by_subnet.entry(subnet).or_default().insert(serial, (slot, now));
            }
            None => self.remove(slot),
        }
    }

    /// Returns the slot of the connection that has been idle for longest, of the first of these
    /// subnets that has one.
    pub fn longest_of(&self, subnets: &[IpNet], now: Instant) -> Option<usize> {
        subnets.iter().find_map(|subnet| {
            let (slot, since) = *self.by_subnet.get(subnet)?.first_key_value()?.1;
            (now.saturating_duration_since(since) >= IDLE_MIN).then_some(slot)
        })
    }

    fn remove(&mut self, slot: usize) {
        let Some((subnet, serial)) = self.slots.remove(&slot) else { return };
        if let Some(of_subnet) = self.by_subnet.get_mut(&subnet) {
            of_subnet.remove(&serial);
            if of_subnet.is_empty() {
                self.by_subnet.remove(&subnet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_idle_connection_of_the_fullest_subnet_is_found() {
        let start = quiche::clock::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let [one, other]: [IpNet; 2] =
            ["192.0.2.0/24", "198.51.100.0/24"].map(|subnet| subnet.parse().unwrap());
        let mut idle = IdleConnections::default();
        idle.set(7, Some(one), at(0));
        idle.set(8, Some(other), at(0));
        idle.set(9, Some(other), at(1));
        // Idle as before.
        idle.set(8, Some(other), at(2));
        assert_eq!(idle.longest_of(&[other, one], at(2)), Some(8));
        assert_eq!(idle.longest_of(&[one, other], at(2)), Some(7));
        // It has a request meanwhile.
        idle.set(8, None, at(2));
        idle.set(8, Some(other), at(2));
        assert_eq!(idle.longest_of(&[other], at(2)), Some(9));
        idle.set(9, None, at(2));
        assert_eq!(idle.longest_of(&[other], at(2)), None, "8 is idle for too short a time");
        assert_eq!(idle.longest_of(&[other, one], at(2)), Some(7));
        idle.set(7, None, at(3));
        idle.set(8, None, at(3));
        assert!(idle.slots.is_empty() && idle.by_subnet.is_empty());
    }
}
