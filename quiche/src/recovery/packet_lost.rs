//! qlog event `quic:packet_lost` (draft-ietf-quic-qlog-quic-events): each packet
//! that loss detection declares lost.
//!
//! The trigger is `reordering_threshold` if enough later packets were
//! acknowledged, otherwise `time_threshold`. What is given up on an abandoned
//! path has none, nor has the draft one for it. Recovery knows packet number
//! spaces, not types: a client's early data appears as 1RTT.

use std::time::Instant;

use qlog::events::quic::PacketHeader;
use qlog::events::quic::PacketLost;
use qlog::events::quic::PacketLostTrigger;
use qlog::events::EventData;
use qlog::streamer::QlogStreamer;

use crate::buffers::BufFactory;
use crate::packet::Epoch;
use crate::packet::Type;
use crate::recovery::Recovery;
use crate::recovery::RecoveryOps;
use crate::Connection;

struct LostPacket {
    pkt_num: u64,
    trigger: Option<PacketLostTrigger>,
    is_mtu_probe: bool,
    time: Instant,
}

/// The lost packets of a packet number space that are not in the log yet. Stays
/// empty until a log has asked for them once.
#[derive(Default)]
pub struct LossLog(Option<Box<Unlogged>>);

#[derive(Default)]
struct Unlogged {
    packets: Vec<LostPacket>,
}

impl LossLog {
    /// Keeps a packet that is lost by the packet threshold, or else by the time
    /// threshold (RFC 9002, 6.1).
    #[inline]
    pub(super) fn push(
        &mut self, pkt_num: u64, is_by_number: bool, is_mtu_probe: bool,
        now: Instant,
    ) {
        if let Some(unlogged) = &mut self.0 {
            let trigger = if is_by_number {
                PacketLostTrigger::ReorderingThreshold
            } else {
                PacketLostTrigger::TimeThreshold
            };

            unlogged.packets.push(LostPacket {
                pkt_num,
                trigger: Some(trigger),
                is_mtu_probe,
                time: now,
            });
        }
    }

    /// Keeps packets that are given up with their path.
    pub(super) fn push_given_up(
        &mut self, pkt_nums: impl Iterator<Item = u64>, now: Instant,
    ) {
        if let Some(unlogged) = &mut self.0 {
            unlogged.packets.extend(pkt_nums.map(|pkt_num| LostPacket {
                pkt_num,
                trigger: None,
                is_mtu_probe: false,
                time: now,
            }));
        }
    }

    fn write(&mut self, epoch: Epoch, log: &mut QlogStreamer) {
        for packet in self.0.get_or_insert_default().packets.drain(..) {
            let header = PacketHeader::with_type(
                Type::from_epoch(epoch).to_qlog(),
                Some(packet.pkt_num),
                None,
                None,
                None,
            );
            let event = EventData::QuicPacketLost(PacketLost {
                header: Some(header),
                frames: None,
                is_mtu_probe_packet: packet.is_mtu_probe.then_some(true),
                trigger: packet.trigger,
            });

            log.add_event_data_with_instant(event, packet.time).ok();
        }
    }
}

impl Recovery {
    /// Writes which packets were declared lost since the last call.
    pub(super) fn write_lost_packets(&mut self, log: &mut QlogStreamer) {
        for &epoch in Epoch::epochs(Epoch::Initial..=Epoch::Application) {
            self.loss_log(epoch).write(epoch, log);
        }
    }
}

impl<F: BufFactory> Connection<F> {
    /// Writes which packets were declared lost since the last call, on any path:
    /// an ACK tells about packets of others than that on which it arrives.
    pub(crate) fn log_lost_packets(&mut self) {
        if let Some(log) = &mut self.qlog.streamer {
            for (_, path) in self.paths.iter_mut() {
                path.recovery.write_lost_packets(log);
            }
        }
    }
}

#[cfg(test)]
mod tests;
