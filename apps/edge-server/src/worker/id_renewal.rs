//! Renewal of connection IDs: each client has spare ones, and after a change of the configuration IDs of
//! the new one in the place of all others (draft-ietf-quic-load-balancers, 3.1).
//!
//! A connection whose IDs are of an earlier configuration gets new ones when it is served, as when a packet of
//! its client has arrived, so that a reload does not delay others. What a client has been asked to retire
//! goes on until it does.

use std::time::Duration;

use quiche::clock;

use crate::connection::Connection;
use crate::quic::connection_id::Cid;
use crate::worker::Worker;

/// Most IDs at a time that clients may allow for. One that allows for more keeps IDs of earlier
/// configurations: the transport asks for the retirement of one only beyond what the client allows for.
const ALLOWED_IDS_MAX: usize = 16;

/// Time in which packets to a retired ID may be under way, and are not answered: a stateless reset would
/// look like the connection's end to a client that has not forgotten the ID.
const RETIRED_ID_KEPT: Duration = Duration::from_secs(3);

impl Worker {
    /// Issues connection IDs. This comes before a turn, with whose packets they leave.
    pub(super) fn renew_ids(&mut self, slot: usize) {
        self.remove_retired_ids(slot);
        let connection = &mut self.connections[slot];
        if !connection.quic().is_established() {
            return;
        }
        let is_of_epoch = connection.ids.epoch() == self.id_epoch;
        if !is_of_epoch && self.rotations.take() {
            connection.ids.begin_epoch(self.id_epoch);
        }
        if connection.ids.has_earlier() {
            self.replace_earlier_ids(slot);
        }
        while self.connections[slot].quic().scids_left() > 0 && self.issue_id(slot, false) {}
    }

    /// Forgets the IDs that a client has retired: the transport would take a packet to one of them, such as
    /// one that another has overtaken, for an error of the client.
    pub(super) fn remove_retired_ids(&mut self, slot: usize) {
        let connection = &mut self.connections[slot];
        while let Some(retired) = connection.quic().retired_scid_next() {
            let retired = Cid::new(&retired);
            // A client that retires IDs unasked, over and over, would fill the table.
            match connection.ids.remove(&retired) {
                true => self.cid_table.end([retired], clock::now() + RETIRED_ID_KEPT),
                false => self.cid_table.remove(&retired),
            }
        }
    }

    /// Issues IDs until the client is asked to retire all of earlier configurations, or has to retire some
    /// before it may have more.
    fn replace_earlier_ids(&mut self, slot: usize) {
        let allowed = allowed_ids(&mut self.connections[slot]);
        if allowed > ALLOWED_IDS_MAX {
            return;
        }
        loop {
            let connection = &mut self.connections[slot];
            let count = connection.quic().active_scids();
            // As many as the transport keeps.
            if !connection.ids.has_earlier() || count >= 2 * allowed - 1 {
                return;
            }
            if !self.issue_id(slot, count >= allowed) {
                return;
            }
        }
    }

    /// Issues an ID, for which the client has to retire its lowest one if it has no room. Returns whether
    /// it did.
    fn issue_id(&mut self, slot: usize, retires_lowest: bool) -> bool {
        let connection = &mut self.connections[slot];
        let mut issue = || {
            let local = connection.local_address()?;
            let generated = self.id_generator.generate()?;
            let reset_token = self.resets.token(&generated, local)?;
            let id = generated.cid;
            let issued = connection.quic().new_scid(&id.as_quic(), reset_token, retires_lowest);
            connection.ids.add(id, issued.ok()?, retires_lowest);
            self.cid_table.insert(id, slot);
            Some(())
        };
        issue().is_some()
    }
}

/// Returns how many IDs at a time the client allows for (RFC 9000, 18.2).
fn allowed_ids(connection: &mut Connection) -> usize {
    let parameters = connection.quic().peer_transport_params();
    let allowed = parameters.map_or(0, |parameters| parameters.active_conn_id_limit);
    usize::try_from(allowed).unwrap_or(usize::MAX).max(2)
}
