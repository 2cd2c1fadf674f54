//! Memory of packets in flight, which an idle connection releases.

use super::*;

impl LegacyRecovery {
    pub(super) fn give_room_back(&mut self) {
        for epoch in &mut self.epochs {
            epoch.sent_packets.shrink_to_fit();
            epoch.acked_frames.shrink_to_fit();
            epoch.lost_frames_ack.shrink_to_fit();
        }

        self.newly_acked.shrink_to_fit();
    }
}
