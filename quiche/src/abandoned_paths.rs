//! Paths that a client has abandoned, which make room for its new one.
//!
//! A NAT may give a client another address every few minutes. Each is a path
//! (RFC 9000, 9.3). The library keeps as many paths as there may be connection
//! IDs, and never drops the first ones.

use crate::*;

impl<F: BufFactory> Connection<F> {
    /// Frees the place of an abandoned path if there is none for a new path: of
    /// one without data in flight, else of the one with the least, which is
    /// sent again on the active path. Otherwise a client whose address changes
    /// every few seconds would not be heard until its old paths have failed
    /// validation.
    pub(crate) fn make_room_for_path(&mut self, now: Instant) {
        let paths_max = self.local_transport_params.active_conn_id_limit;
        if !self.is_server || (self.paths.len() as u64) < paths_max {
            return;
        }
        // Each new path is an event for the application: no more than it takes.
        if self.paths.has_events() {
            return;
        }
        let abandoned = self.paths.iter().filter(|(_, path)| path.abandoned);
        let Some((id, _)) = abandoned.min_by_key(|(_, path)| missing(path))
        else {
            return;
        };
        self.give_up_abandoned_path(id, now);
        // A path without a connection ID is removed when another one is added.
        let path = self.paths.get_mut(id).ok();
        let Some(seq) = path.and_then(|path| path.active_dcid_seq.take()) else {
            return;
        };
        // RFC 9000, 5.1.2: an ID that is no longer used is retired.
        let is_used = |path: &path::Path| path.active_dcid_seq == Some(seq);
        if !self.paths.iter().any(|(_, path)| is_used(path)) {
            let _ = self.ids.retire_dcid(seq);
        }
    }

    /// Declares lost what was sent on an abandoned path; the active path sends
    /// it again.
    fn give_up_abandoned_path(&mut self, id: usize, now: Instant) {
        let handshake_status = self.handshake_status();
        let Ok(path) = self.paths.get_mut(id) else {
            return;
        };
        let (lost_packets, lost_bytes) = path
            .recovery
            .on_abandoned_path_timeout(handshake_status, now);
        let next = || path.recovery.next_lost_frame(packet::Epoch::Application);
        let lost: Vec<_> = std::iter::from_fn(next).collect();

        self.lost_count += lost_packets;
        self.lost_bytes += lost_bytes as u64;
        let Ok(active) = self.paths.get_active_mut() else {
            return;
        };
        for frame in lost.into_iter().filter(|frame| !is_of_its_path(frame)) {
            active
                .recovery
                .add_lost_frame(packet::Epoch::Application, frame);
        }
    }
}

/// Returns what would have to be sent again if the path were given up: whether
/// there is anything, and the bytes in flight.
fn missing(path: &path::Path) -> (bool, usize) {
    let has_lost = path.recovery.has_lost_frames(packet::Epoch::Application);
    let in_flight = path.recovery.bytes_in_flight();
    (has_lost || in_flight > 0, in_flight)
}

/// Whether a frame concerns only the path that it is sent on.
fn is_of_its_path(frame: &frame::Frame) -> bool {
    use frame::Frame::*;
    matches!(
        frame,
        PathChallenge { .. } | PathResponse { .. } | Ping { .. }
    )
}
