//! Packet size while the path's MTU is sought.
//!
//! Packets are as long as is known to pass: 1200 bytes, then the longest probe that
//! was acknowledged (RFC 8899, 5.3). The recovery counts in those (RFC 9002, 7.2).

use super::Pmtud;
use super::MIN_PLPMTU;
use crate::path::pmtu_event;
use crate::path::Path;
use crate::path::PathEvent;
use crate::path::PathMap;
use crate::recovery::RecoveryOps;
use crate::Config;

/// After as many probe timeouts in a row, a path may have come to take shorter packets
/// only: as many as TCP takes for a sign of trouble (RFC 1122, 4.2.3.5).
pub(super) const BLACK_HOLE_TIMEOUTS: u32 = 3;

impl Config {
    /// Looks for a path's MTU once that many bytes have been sent on it. A probe is a
    /// packet of padding, which a short connection does not earn back.
    ///
    /// Discovery that is turned on by a callback of the handshake begins at once, as all
    /// does by default.
    pub fn set_pmtud_start_after(&mut self, bytes: u64) {
        self.pmtud_start_after = bytes;
    }
}

impl Pmtud {
    pub(crate) fn start_after(mut self, bytes: u64) -> Self {
        self.start_after = bytes;
        self
    }

    /// No probe is longer than what the peer receives, in bytes (RFC 9000, 18.2).
    fn limit(&mut self, received_max: usize) {
        self.maximum_supported_mtu = self.maximum_supported_mtu.min(received_max);
        self.set_probe_size(self.probe_size);
    }

    /// The same search, of which nothing is known yet.
    fn afresh(&self) -> Self {
        Self::new(self.maximum_supported_mtu, self.max_probes)
            .start_after(self.start_after)
    }
}

impl Path {
    /// The length in bytes of the probe that is to be sent, if one is.
    pub(crate) fn pmtu_probe_due(&self) -> Option<usize> {
        let pmtud = self.pmtud.as_ref()?;
        let is_due = self.active()
            && self.sent_bytes >= pmtud.start_after
            && pmtud.should_probe();
        is_due.then(|| pmtud.get_probe_size())
    }

    /// Sends short packets again and begins the search anew if the long ones may be what
    /// is lost (RFC 8899, 4.3).
    pub(crate) fn suspect_black_hole(&mut self) -> Option<PathEvent> {
        let (local, peer) = (self.local_addr(), self.peer_addr());
        let is_suspect = self.recovery.pto_count() >= BLACK_HOLE_TIMEOUTS;
        let pmtud = self.pmtud.as_mut().filter(|_| is_suspect)?;
        let before = pmtud.get_current_mtu();
        if before > MIN_PLPMTU {
            pmtud.restart_pmtud();
        }
        let known = pmtud.get_current_mtu();
        self.count_known_packets();
        pmtu_event(local, peer, before, known)
    }

    /// Has the recovery count in packets that are known to pass.
    pub(crate) fn count_known_packets(&mut self) {
        if let Some(pmtud) = &self.pmtud {
            self.recovery
                .pmtud_update_max_datagram_size(pmtud.get_current_mtu());
        }
    }

    /// Neither packets nor probes are longer than what the peer receives, in bytes.
    pub(crate) fn limit_packet_size(&mut self, received_max: usize) {
        if let Some(pmtud) = &mut self.pmtud {
            pmtud.limit(received_max);
        }
        self.recovery.update_max_datagram_size(received_max);
    }
}

impl PathMap {
    /// On another path, the MTU is another one (RFC 9000, 14.2): it is looked for again
    /// if it was before, up to what the peer receives in bytes.
    pub(crate) fn discover_pmtu_on(&self, path: &mut Path, received_max: usize) {
        let mut others = self.iter();
        let searched = others.find_map(|(_, other)| other.pmtud.as_ref());
        path.pmtud = searched.map(Pmtud::afresh);
        path.count_known_packets();
        path.limit_packet_size(received_max);
    }
}
