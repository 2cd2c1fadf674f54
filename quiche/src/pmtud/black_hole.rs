//! Black holes of packets longer than a path passes (RFC 8899, 4.3).
//!
//! After some probe timeouts without an acknowledged long packet, the path may
//! pass only shorter ones. Packets become as short as at first, and discovery
//! starts again. Short packets pass such a path, so that their ACKs do not
//! count.

use super::MIN_PLPMTU;
use crate::path::pmtu_event;
use crate::path::Path;
use crate::path::PathEvent;
use crate::recovery::RecoveryOps;

/// Probe timeouts after which the path may pass only shorter packets, if no long
/// one is acknowledged: as many as are a sign of trouble for TCP (RFC 1122,
/// 4.2.3.5).
const BLACK_HOLE_TIMEOUTS: u32 = 3;

impl Path {
    /// Takes an ACK of this number of bytes. One of more than a short packet has
    /// shows that long packets pass.
    pub(crate) fn on_acked(&mut self, bytes: usize) {
        if let Some(pmtud) = self.pmtud.as_mut().filter(|_| bytes > MIN_PLPMTU) {
            pmtud.timeouts = 0;
        }
    }

    /// Takes a timeout of loss detection. Returns to short packets and restarts
    /// discovery if long packets may be lost for their length.
    pub(crate) fn suspect_black_hole(&mut self) -> Option<PathEvent> {
        let (local, peer) = (self.local_addr(), self.peer_addr());
        let is_long_missing = self.recovery.pto_count() > 0
            && self.recovery.bytes_in_flight() > MIN_PLPMTU;
        let pmtud = self.pmtud.as_mut().filter(|_| is_long_missing)?;

        pmtud.timeouts += 1;
        if pmtud.timeouts < BLACK_HOLE_TIMEOUTS {
            return None;
        }

        pmtud.timeouts = 0;
        let before = pmtud.get_current_mtu();
        if before > MIN_PLPMTU {
            pmtud.restart_pmtud();
        }
        let known = pmtud.get_current_mtu();
        self.count_known_packets();
        pmtu_event(local, peer, before, known)
    }
}
