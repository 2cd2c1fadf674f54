//! Black holes of packets longer than a path passes (RFC 8899, 4.3).
//!
//! If long packets are lost again and again, and none is acknowledged, the path
//! may pass only shorter ones. Packets become as short as at first, and
//! discovery starts again. Short packets pass such a path, so that their ACKs do
//! not count.

use std::time::Instant;

use super::MIN_PLPMTU;
use crate::packet;
use crate::path::pmtu_event;
use crate::path::Path;
use crate::path::PathEvent;
use crate::path::PathMap;
use crate::ranges::RangeSet;
use crate::recovery::Recovery;
use crate::recovery::RecoveryOps;

/// Losses and probe timeouts after which the path may pass only shorter packets,
/// if no long one is acknowledged: as many timeouts as are a sign of trouble for
/// TCP (RFC 1122, 4.2.3.5).
const SUSPICIONS_MAX: u32 = 3;

impl Path {
    /// Takes an ACK before the recovery does. One of a long packet shows that
    /// long packets pass.
    pub(crate) fn on_ack(&mut self, epoch: packet::Epoch, acked: &RangeSet) {
        if let Some(pmtud) = self.pmtud.as_mut() {
            if pmtud.suspicions > 0
                && self.recovery.has_longer_packet(epoch, MIN_PLPMTU, acked)
            {
                pmtud.suspicions = 0;
            }
        }
    }

    /// Takes an ACK or a timeout of loss detection after the recovery, with what
    /// it declared lost.
    pub(crate) fn suspect_black_hole(
        &mut self, lost_packets: usize, lost_bytes: usize, now: Instant,
    ) {
        let Some(pmtud) = self.pmtud.as_mut() else {
            return;
        };
        // A burst is one loss.
        let is_later = pmtud
            .suspected
            .is_none_or(|last| now >= last + self.recovery.rtt());
        let is_long_lost = lost_bytes > lost_packets * MIN_PLPMTU;
        if is_later && (is_long_lost || is_long_packet_late(&self.recovery)) {
            pmtud.suspicions += 1;
            pmtud.suspected = Some(now);
        }
    }

    /// Returns to short packets and restarts discovery if long packets seem to
    /// be lost for their length.
    fn leave_black_hole(&mut self) -> Option<PathEvent> {
        let (local, peer) = (self.local_addr(), self.peer_addr());
        let pmtud = self
            .pmtud
            .as_mut()
            .filter(|pmtud| pmtud.suspicions >= SUSPICIONS_MAX)?;
        pmtud.suspicions = 0;
        let before = pmtud.get_current_mtu();
        if before > MIN_PLPMTU {
            pmtud.restart_pmtud();
        }
        let known = pmtud.get_current_mtu();
        self.count_known_packets();
        pmtu_event(local, peer, before, known)
    }
}

impl PathMap {
    /// Leaves the black holes among the paths.
    pub(crate) fn leave_black_holes(&mut self) {
        let (paths, events) = self.iter_mut_and_events();
        for (_, path) in paths {
            events.extend(path.leave_black_hole());
        }
    }
}

/// Whether a long packet is in flight after a probe timeout.
fn is_long_packet_late(recovery: &Recovery) -> bool {
    if recovery.pto_count() == 0 {
        return false;
    }

    let mut all = RangeSet::default();
    all.insert(0..u64::MAX);
    recovery.has_longer_packet(packet::Epoch::Application, MIN_PLPMTU, &all)
}
