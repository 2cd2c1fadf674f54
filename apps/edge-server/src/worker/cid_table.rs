//! Connection-ID table of one worker: a packet is a connection's; or nobody's, as long as
//! packets of one that has ended may be under way (RFC 9000, 10.2).
//!
//! Of such a connection only the IDs are kept. Its memory serves the next one, while the
//! processor has it at hand.

use std::collections::BTreeMap;
use std::time::Duration;
use std::time::Instant;

use foldhash::HashMap;

use crate::quic::connection_id::Cid;

/// How much longer than it must an ID may be kept, so that many are forgotten at once.
const LONGER: Duration = Duration::from_millis(100);

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CidTarget {
    /// To the connection in this slot.
    Connection(usize),

    /// Nowhere: nobody answers it.
    Ended,
}

/// The connection IDs of a worker.
#[derive(Default)]
pub struct CidTable {
    of_id: HashMap<Cid, CidTarget>,

    /// Those of connections that have ended, by when they are forgotten.
    ended: BTreeMap<Instant, Vec<Cid>>,
}

impl CidTable {
    pub fn find(&self, id: &[u8]) -> Option<CidTarget> {
        self.of_id.get(id).copied()
    }

    /// An ID leads to the connection in `slot`.
    pub fn insert(&mut self, id: Cid, slot: usize) {
        self.of_id.insert(id, CidTarget::Connection(slot));
    }

    /// An ID leads nowhere, and whoever uses it is a stranger.
    pub fn remove(&mut self, id: &Cid) {
        self.of_id.remove(id);
    }

    /// The connection of these IDs has ended. They are known until then, and a little
    /// longer.
    pub fn end(&mut self, ids: &[Cid], until: Instant) {
        let near = self.ended.range(until..=until + LONGER).next();
        let at = near.map_or(until + LONGER, |(at, _)| *at);
        self.ended.entry(at).or_default().extend(ids);
        self.of_id.extend(ids.iter().map(|id| (*id, CidTarget::Ended)));
    }

    /// Forgets the IDs whose time has come.
    pub fn forget(&mut self, now: Instant) {
        while let Some(due) = self.ended.first_entry().filter(|entry| *entry.key() <= now) {
            for id in due.remove() {
                self.of_id.remove(&id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_leads_to_its_connection_until_it_is_retired() {
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
    fn ids_of_what_has_ended_are_known_for_their_time_and_forgotten_together() {
        let start = quiche::clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut table = CidTable::default();
        // In the order of their ends, which is not that of their beginnings.
        for (id, until) in [(3, 500), (1, 50), (2, 140), (4, 250)] {
            let ids = [Cid::new(&[id]), Cid::new(&[id, id])];
            ids.iter().for_each(|id| table.insert(*id, 0));
            table.end(&ids, at(until));
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
            // The second was to be known for 140 ms.
            (150, &[3, 4]),
            (599, &[3]),
            (600, &[]),
        ] {
            table.forget(at(now));
            assert_eq!(known(&table), expected, "{now}");
        }
        assert!(table.of_id.is_empty() && table.ended.is_empty());
    }
}
