//! Packets in flight on an abandoned path.
//!
//! After a client's address has changed, a whole window may be lost on the old
//! path. ACKs on the new path do not tell, and a probe timeout resends only the
//! data of the two oldest packets, the same ones every time. At the old path's
//! first probe timeout, all of it is therefore sent again on the new path. That
//! is no sign of congestion on either (RFC 9000, 9.4).

use super::*;

impl LegacyRecovery {
    /// Declares lost what is not acknowledged. Returns packets and bytes.
    pub(super) fn give_up_unacked(
        &mut self, handshake_status: HandshakeStatus, now: Instant,
    ) -> (usize, usize) {
        let (mut packets, mut bytes) = (0, 0);

        for epoch in &mut self.epochs {
            for pkt in &mut epoch.sent_packets {
                if pkt.time_acked.is_some() || pkt.time_lost.is_some() {
                    continue;
                }

                epoch.lost_frames_ack.extend(pkt.frames.drain(..));
                pkt.time_lost = Some(now);

                if pkt.in_flight {
                    epoch.in_flight_count -= 1;
                    bytes += pkt.size;
                    packets += 1;
                }
            }

            epoch.lost_frames_pto.clear();
            epoch.loss_probes = 0;
        }

        self.bytes_in_flight.saturating_subtract(bytes, now);
        self.congestion.lost_count += packets;
        self.bytes_lost += bytes as u64;
        self.set_loss_detection_timer(handshake_status, now);

        (packets, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Epoch;
    use crate::ranges::RangeSet;
    use crate::test_utils::helper_packet_sent;

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn unacked_packets_are_given_up_once() {
        let config = crate::Config::new(crate::PROTOCOL_VERSION).unwrap();
        let mut recovery = LegacyRecovery::new(&config);
        let status = HandshakeStatus::default();
        let (epoch, now) = (Epoch::Application, Instant::now());
        for pkt_num in 0..5 {
            let sent = helper_packet_sent(pkt_num, now, 1000);
            recovery.on_packet_sent(sent, epoch, status, now, "");
        }
        let mut ranges = RangeSet::default();
        ranges.insert(0..1);
        recovery
            .on_ack_received(&ranges, 0, epoch, status, now, None, "")
            .unwrap();

        assert_eq!(recovery.give_up_unacked(status, now), (4, 4000));
        assert_eq!(recovery.epochs[epoch].in_flight_count, 0);
        assert_eq!(recovery.bytes_in_flight(), 0);
        assert_eq!(recovery.congestion.lost_count, 4);
        assert_eq!(recovery.bytes_lost(), 4000);
        assert_eq!(recovery.give_up_unacked(status, now), (0, 0));
        assert_eq!(recovery.congestion.lost_count, 4);
    }
}
