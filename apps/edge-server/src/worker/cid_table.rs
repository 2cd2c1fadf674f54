//! Connection-ID table of one worker: a packet is a connection's; or nobody's, as long as
//! packets of one that has ended may be under way (RFC 9000, 10.2).
//!
//! Of such a connection only the IDs are kept. Its memory serves the next one, while the
//! processor has it at hand.

use std::collections::BTreeMap;
use std::time::Duration;
use std::time::Instant;

use foldhash::HashMap;

use crate::quic::connection_id::RoutingId;

/// How much longer than it must an ID may be kept, so that many are forgotten at once.
const LONGER: Duration = Duration::from_millis(100);

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the connection in this slot.
    Connection(usize),

    /// Nowhere: nobody answers it.
    Ended,
}

/// The connection IDs of a worker.
#[derive(Default)]
pub struct Routes {
    of_id: HashMap<RoutingId, Route>,

    /// Those of connections that have ended, by when they are forgotten.
    ended: BTreeMap<Instant, Vec<RoutingId>>,
}

impl Routes {
    pub fn find(&self, id: &[u8]) -> Option<Route> {
        self.of_id.get(id).copied()
    }

    /// An ID leads to the connection in `slot`.
    pub fn insert(&mut self, id: RoutingId, slot: usize) {
        self.of_id.insert(id, Route::Connection(slot));
    }

    /// An ID leads nowhere, and whoever uses it is a stranger.
    pub fn remove(&mut self, id: &RoutingId) {
        self.of_id.remove(id);
    }

    /// The connection of these IDs has ended. They are known until then, and a little
    /// longer.
    pub fn end(&mut self, ids: &[RoutingId], until: Instant) {
        let near = self.ended.range(until..=until + LONGER).next();
        let at = near.map_or(until + LONGER, |(at, _)| *at);
        self.ended.entry(at).or_default().extend(ids);
        self.of_id.extend(ids.iter().map(|id| (*id, Route::Ended)));
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
        let mut routes = Routes::default();
        let (one, other) = (RoutingId::new(&[1, 2]), RoutingId::new(&[1]));
        routes.insert(one, 7);
        routes.insert(other, 8);
        assert_eq!(routes.find(&[1, 2]), Some(Route::Connection(7)));
        routes.remove(&one);
        assert_eq!(routes.find(&[1, 2]), None);
        assert_eq!(routes.find(&[1]), Some(Route::Connection(8)));
    }

    #[test]
    fn ids_of_what_has_ended_are_known_for_their_time_and_forgotten_together() {
        let start = quiche::clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut routes = Routes::default();
        // In the order of their ends, which is not that of their beginnings.
        for (id, until) in [(3, 500), (1, 50), (2, 140), (4, 250)] {
            let ids = [RoutingId::new(&[id]), RoutingId::new(&[id, id])];
            ids.iter().for_each(|id| routes.insert(*id, 0));
            routes.end(&ids, at(until));
        }
        let known = |routes: &Routes| {
            let known = |id: &u8| {
                let found = [routes.find(&[*id]), routes.find(&[*id, *id])];
                assert_eq!(found[0], found[1]);
                found[0] == Some(Route::Ended)
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
            routes.forget(at(now));
            assert_eq!(known(&routes), expected, "{now}");
        }
        assert!(routes.of_id.is_empty() && routes.ended.is_empty());
    }
}
