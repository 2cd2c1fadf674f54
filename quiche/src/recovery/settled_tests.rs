//! Settled packets, acknowledged or lost, are skipped, and no other packet is.

use super::*;
use crate::clock;
use crate::clock::Simulation;
use crate::rand::rand_u64_uniform;
use crate::recovery::careful_resume::test_sender::packet;

const PACKET_THRESHOLD: u64 = 3;
const LOSS_DELAY: Duration = Duration::from_millis(100);

fn is_settled(pkt: &Sent) -> bool {
    pkt.time_acked.is_some() || pkt.time_lost.is_some()
}

struct EpochRun {
    epoch: RecoveryEpoch,
    next: u64,
    acks: RangeSet,
    rtt_stats: RttStats,
}

impl EpochRun {
    /// Some packets arrive late, some never; an ACK has room for a few ranges.
    fn new() -> Self {
        Self {
            epoch: RecoveryEpoch::default(),
            next: 0,
            acks: RangeSet::new(5),
            rtt_stats: RttStats::new(LOSS_DELAY, Duration::ZERO),
        }
    }

    fn send(&mut self, now: Instant) {
        for _ in 0..rand_u64_uniform(9) {
            let sent = packet(self.next, 1200, now);
            self.epoch.sent_packets.push_back(sent);
            self.epoch.in_flight_count += 1;
            self.next += 1;
        }
    }

    fn ack(&mut self, now: Instant) {
        for _ in 0..=rand_u64_uniform(6) {
            let back = rand_u64_uniform(self.next.min(20));
            self.acks.push_item(self.next - 1 - back);
        }
        let (epoch, mut acked) = (&mut self.epoch, vec![]);
        let (acks, rtt_stats) = (&self.acks, &self.rtt_stats);
        epoch
            .detect_and_remove_acked_packets(
                now, acks, &mut acked, rtt_stats, None, "",
            )
            .unwrap();
        epoch.largest_acked_packet = epoch.largest_acked_packet.max(acks.last());
    }

    fn detect_lost(&mut self, now: Instant) {
        self.epoch.detect_lost_packets(
            LOSS_DELAY,
            PACKET_THRESHOLD,
            now,
            "",
            Epoch::Application,
        );
    }

    fn assert_as_after_a_look_at_all(&self, now: Instant) {
        let packets = &self.epoch.sent_packets;
        let acked = |pkt: &&Sent| self.acks.contains(pkt.pkt_num);
        assert!(packets.iter().filter(acked).all(|p| p.time_acked.is_some()));

        let mut open = packets.iter().filter(|pkt| !is_settled(pkt));
        let count = open.clone().count();
        assert_eq!(self.epoch.in_flight_count, count);
        let first_open = open.clone().next();
        let first = first_open.map_or(self.next, |pkt| pkt.pkt_num);
        let largest_acked = self.epoch.largest_acked_packet.unwrap();
        assert_eq!(self.epoch.settled_until, first.min(largest_acked + 1));
        assert!(open.all(|pkt| {
            pkt.pkt_num > largest_acked
                || pkt.time_sent + LOSS_DELAY > now
                    && pkt.pkt_num + PACKET_THRESHOLD > largest_acked
        }));

        let waiting = first_open.filter(|pkt| pkt.pkt_num < largest_acked);
        let loss_time = waiting.map(|pkt| pkt.time_sent + LOSS_DELAY);
        assert_eq!(self.epoch.loss_time, loss_time);
    }
}

#[test]
fn random_acks_and_losses_settle_each_packet_once() {
    for seed in 0..300 {
        let simulation = Simulation::start(seed, Duration::from_secs(1));
        let mut run = EpochRun::new();
        for _ in 0..100 {
            let wait = Duration::from_millis(rand_u64_uniform(30));
            simulation.advance_to(simulation.elapsed() + wait);
            let now = clock::now();
            run.send(now);
            if run.next > 0 {
                run.ack(now);
                run.detect_lost(now);
                run.assert_as_after_a_look_at_all(now);
            }
        }
    }
}
