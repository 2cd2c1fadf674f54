//! Packets in flight on an abandoned path: as for Reno and CUBIC, all of them
//! are sent again on the new path, and tell BBR2 nothing.

use super::*;

impl GRecovery {
    /// Declares lost what is not acknowledged. Returns packets and bytes.
    pub(super) fn give_up_unacked(
        &mut self, handshake_status: HandshakeStatus, now: Instant,
    ) -> (usize, usize) {
        let (mut packets, mut bytes) = (0, 0);

        for epoch in &mut self.epochs {
            let (lost_packets, lost_bytes) =
                epoch.give_up_unacked(&mut self.pacer);
            packets += lost_packets;
            bytes += lost_bytes;
        }

        self.bytes_in_flight.saturating_subtract(bytes, now);
        self.lost_count += packets;
        self.bytes_lost += bytes as u64;
        self.set_loss_detection_timer(handshake_status, now);

        (packets, bytes)
    }
}

impl RecoveryEpoch {
    fn give_up_unacked(&mut self, pacer: &mut Pacer) -> (usize, usize) {
        let (mut packets, mut bytes) = (0, 0);

        for SentPacket { pkt_num, status } in &mut self.sent_packets {
            let SentStatus::Sent {
                in_flight,
                sent_bytes,
                frames,
                ..
            } = status.lose()
            else {
                continue;
            };

            self.lost_frames_ack.extend(frames);
            pacer.on_packet_neutered(*pkt_num);

            if in_flight {
                packets += 1;
                bytes += sent_bytes;
            }
        }

        self.pkts_in_flight -= packets;
        self.loss_time = None;
        self.loss_probes = 0;
        self.lost_frames_pto.clear();
        self.drain_acked_and_lost_packets();

        (packets, bytes)
    }
}
