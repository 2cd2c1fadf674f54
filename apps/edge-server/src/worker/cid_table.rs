//! Connection-ID table of one worker: finds the connection of a packet, and knows the IDs of
//! ended connections as long as packets to them may be under way (RFC 9000, 10.2).
//!
//! Only the IDs of an ended connection are kept. The next connection reuses its memory while
//! that is in the processor's cache.

use std::collections::BTreeMap;
use std::time::Duration;
use std::time::Instant;

use foldhash::HashMap;

use crate::quic::connection_id::Cid;

/// How much longer than necessary an ID may be kept, so that many are removed at once.
const SLACK: Duration = Duration::from_millis(100);

/// Target of a connection ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CidTarget {
    /// The connection in this slot.
    Connection(usize),

    /// A connection that has ended, or has retired the ID: its packets are not answered.
    Ended,
}

/// The connection IDs of a worker.
#[derive(Default)]
pub struct CidTable {
    targets: HashMap<Cid, CidTarget>,

    /// IDs of ended connections, by the time of their removal.
    ended: BTreeMap<Instant, Vec<Cid>>,
}

impl CidTable {
    /// Returns the target of an ID.
    pub fn find(&self, id: &[u8]) -> Option<CidTarget> {
        self.targets.get(id).copied()
    }

    /// Adds an ID of the connection in `slot`.
    pub fn insert(&mut self, id: Cid, slot: usize) {
        self.targets.insert(id, CidTarget::Connection(slot));
    }

    /// Removes an ID, which is unknown from now on.
    pub fn remove(&mut self, id: &Cid) {
        self.targets.remove(id);
    }

    /// Notes that the connection of these IDs has ended, or has retired them. They are kept until `until`, and a
    /// little longer.
    pub fn end(&mut self, ids: impl IntoIterator<Item = Cid>, until: Instant) {
        let near = self.ended.range(until..=until + SLACK).next();
        let at = near.map_or(until + SLACK, |(at, _)| *at);
        let ended = self.ended.entry(at).or_default();
        for id in ids {
            ended.push(id);
            self.targets.insert(id, CidTarget::Ended);
        }
    }

    /// Removes the IDs of ended connections whose time has passed.
    pub fn remove_expired(&mut self, now: Instant) {
        while let Some(due) = self.ended.first_entry().filter(|entry| *entry.key() <= now) {
            for id in due.remove() {
                self.targets.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_leads_to_its_connection_until_it_is_removed() {
        let mut table = CidTable::default();
        let (one, other) = (Cid::new(&[1, 2]), Cid::new(&[1]));
        table.insert(one, 7);
        table.insert(other, 8);
        assert_eq!(table.find(&[1, 2]), Some(CidTarget::Connection(7)));
        table.remove(&one);
        assert_eq!(table.find(&[1, 2]), None);
        assert_eq!(table.find(&[1]), Some(CidTarget::Connection(8)));
    }

    #[test]
    fn ids_of_ended_connections_expire_together() {
        let start = quiche::clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut table = CidTable::default();
        // In the order of their ends, which is not that of their expiry.
        for (id, until) in [(3, 500), (1, 50), (2, 140), (4, 250)] {
            let ids = [Cid::new(&[id]), Cid::new(&[id, id])];
            ids.iter().for_each(|id| table.insert(*id, 0));
            table.end(ids, at(until));
        }
        let known = |table: &CidTable| {
            let known = |id: &u8| {
                let found = [table.find(&[*id]), table.find(&[*id, *id])];
                assert_eq!(found[0], found[1]);
                found[0] == Some(CidTarget::Ended)
            };
            (1..=4).filter(known).collect::<Vec<_>>()
        };
        for (now, expected) in [
            (0, &[1, 2, 3, 4][..]),
            (149, &[1, 2, 3, 4]),
            // The second was to be kept for 140 ms.
            (150, &[3, 4]),
            (599, &[3]),
            (600, &[]),
        ] {
            table.remove_expired(at(now));
            assert_eq!(known(&table), expected, "{now}");
        }
        assert!(table.targets.is_empty() && table.ended.is_empty());
    }
}
