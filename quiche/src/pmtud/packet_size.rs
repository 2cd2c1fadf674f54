//! Packet size during the discovery of the path's MTU.
//!
//! Packets have the length that is known to pass: 1200 bytes, then that of the
//! longest acknowledged probe (RFC 8899, 5.3). The recovery counts in these
//! (RFC 9002, 7.2).

use super::Pmtud;
use super::MIN_PLPMTU;
use crate::path::pmtu_event;
use crate::path::Path;
use crate::path::PathEvent;
use crate::path::PathMap;
use crate::recovery::RecoveryOps;
use crate::Config;

/// Probe timeouts after which the path may pass only shorter packets, if no long
/// one is acknowledged: as many as are a sign of trouble for TCP (RFC 1122,
/// 4.2.3.5).
pub(super) const BLACK_HOLE_TIMEOUTS: u32 = 3;

impl Config {
    /// Starts discovery of a path's MTU after `bytes` have been sent on it. A
    /// probe is a packet of padding, which a short connection does not earn
    /// back.
    ///
    /// By default, and if a callback of the handshake turns it on, discovery
    /// starts at once.
    pub fn set_pmtud_start_after(&mut self, bytes: u64) {
        self.pmtud_start_after = bytes;
    }
}

impl Pmtud {
    pub(crate) fn start_after(mut self, bytes: u64) -> Self {
        self.start_after = bytes;
        self
    }

    /// Limits probes to what the peer receives, in bytes (RFC 9000, 18.2).
    fn limit(&mut self, received_max: usize) {
        self.maximum_supported_mtu = self.maximum_supported_mtu.min(received_max);
        self.set_probe_size(self.probe_size);
    }

    /// Returns the same discovery at its start.
    fn afresh(&self) -> Self {
        Self::new(self.maximum_supported_mtu, self.max_probes)
            .start_after(self.start_after)
    }
}

impl Path {
    /// Returns the length in bytes of the probe that is due, if one is.
    pub(crate) fn pmtu_probe_due(&self) -> Option<usize> {
        let pmtud = self.pmtud.as_ref()?;
        let is_due = self.active()
            && self.sent_bytes >= pmtud.start_after
            && pmtud.should_probe();
        is_due.then(|| pmtud.get_probe_size())
    }

    /// Takes an ACK of this number of bytes. One of more than a short packet has
    /// shows that long packets pass; short ones pass a black hole, too.
    pub(crate) fn on_acked(&mut self, bytes: usize) {
        if let Some(pmtud) = self.pmtud.as_mut().filter(|_| bytes > MIN_PLPMTU) {
            pmtud.timeouts = 0;
        }
    }

    /// Takes a timeout of loss detection. Returns to short packets and restarts
    /// discovery if long packets may be lost for their length (RFC 8899, 4.3).
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

    /// Makes the recovery count in packets of the length that is known to pass.
    pub(crate) fn count_known_packets(&mut self) {
        if let Some(pmtud) = &self.pmtud {
            self.recovery
                .pmtud_update_max_datagram_size(pmtud.get_current_mtu());
        }
    }

    /// Limits packets and probes to what the peer receives, in bytes.
    pub(crate) fn limit_packet_size(&mut self, received_max: usize) {
        if let Some(pmtud) = &mut self.pmtud {
            pmtud.limit(received_max);
        }
        self.recovery.update_max_datagram_size(received_max);
    }
}

impl PathMap {
    /// Starts discovery on another path, whose MTU may differ (RFC 9000, 14.2),
    /// if it was on before; up to what the peer receives, in bytes.
    pub(crate) fn discover_pmtu_on(&self, path: &mut Path, received_max: usize) {
        let mut others = self.iter();
        let searched = others.find_map(|(_, other)| other.pmtud.as_ref());
        path.pmtud = searched.map(Pmtud::afresh);
        path.count_known_packets();
        path.limit_packet_size(received_max);
    }
}
