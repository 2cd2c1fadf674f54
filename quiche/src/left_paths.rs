//! Places for paths: those that a client has left make room for the one that it
//! comes to.
//!
//! A NAT may give a client another address every few minutes. Each is a path
//! (RFC 9000, 9.3), and the library keeps as many as there may be connection
//! IDs, the first ones for ever.

use crate::*;

impl<F: BufFactory> Connection<F> {
    /// Gives the place of a path up that was left, if a new one finds none.
    pub(crate) fn make_room_for_path(&mut self) {
        let paths_max = self.local_transport_params.active_conn_id_limit;
        if !self.is_server || (self.paths.len() as u64) < paths_max {
            return;
        }
        let Some((_, path)) =
            self.paths.iter_mut().find(|(_, path)| is_over(path))
        else {
            return;
        };
        // What has no connection ID is removed when another path is added.
        let Some(seq) = path.active_dcid_seq.take() else {
            return;
        };
        // RFC 9000, 5.1.2: an ID that is not used any more is retired.
        let is_used = |path: &path::Path| path.active_dcid_seq == Some(seq);
        if !self.paths.iter().any(|(_, path)| is_used(path)) {
            let _ = self.ids.retire_dcid(seq);
        }
    }
}

/// Whether a path was left, and nothing that was sent on it is missed. One that is
/// only probed stays: anybody who repeats a packet could take its place.
fn is_over(path: &path::Path) -> bool {
    let has_lost = path.recovery.has_lost_frames(packet::Epoch::Application);
    path.left && path.recovery.bytes_in_flight() == 0 && !has_lost
}
