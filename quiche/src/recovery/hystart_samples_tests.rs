//! HyStart++ judges a round after eight ACKs, of whatever number of packets, or,
//! as upstream has it, after eight packets.

use std::ops::Range;
use std::time::Duration;
use std::time::Instant;

use crate::clock;
use crate::packet::Epoch;
use crate::ranges::RangeSet;
use crate::recovery::careful_resume::test_sender::packet;
use crate::recovery::HandshakeStatus;
use crate::recovery::Recovery;
use crate::recovery::RecoveryOps;
use crate::CongestionControlAlgorithm;
use crate::CongestionControlAlgorithm::Reno;
use crate::CongestionControlAlgorithm::CUBIC;
use rstest::rstest;

const MDS: usize = 1200;
const RTT: Duration = Duration::from_millis(100);

struct Sender {
    recovery: Recovery,
    now: Instant,
    next: u64,
}

impl Sender {
    fn new(cc: CongestionControlAlgorithm, is_one_per_ack: bool) -> Self {
        let mut config = crate::Config::new(crate::PROTOCOL_VERSION).unwrap();
        config.set_cc_algorithm(cc);
        config.set_max_send_udp_payload_size(MDS);
        config.set_hystart_samples_per_ack(is_one_per_ack);

        Sender {
            recovery: Recovery::new(&config),
            now: clock::now() + Duration::from_secs(1),
            next: 0,
        }
    }

    /// Sends what the window takes. Returns the packets.
    fn fill(&mut self) -> Range<u64> {
        let first = self.next;

        while self.recovery.cwnd_available() >= MDS {
            let (epoch, status) = (Epoch::Application, Default::default());
            let sent = packet(self.next, MDS, self.now);
            self.recovery
                .on_packet_sent(sent, epoch, status, self.now, "");
            self.recovery.update_app_limited(false);
            self.next += 1;
        }

        first..self.next
    }

    fn ack(&mut self, packets: Range<u64>) {
        let mut ranges = RangeSet::default();
        ranges.insert(packets);
        let (epoch, status) = (Epoch::Application, HandshakeStatus::default());

        self.recovery
            .on_ack_received(&ranges, 0, epoch, status, self.now, None, "")
            .unwrap();
    }

    /// One round trip of `rtt`, with an ACK for so many packets.
    fn round(&mut self, rtt: Duration, packets_per_ack: usize) {
        let mut sent = self.fill();
        self.now += rtt;

        while !sent.is_empty() {
            let end = sent.end.min(sent.start + packets_per_ack as u64);
            self.ack(sent.start..end);
            sent.start = end;
        }
    }

    fn is_conservative(&self) -> bool {
        let Recovery::Legacy(recovery) = &self.recovery else {
            unreachable!("Reno and CUBIC")
        };
        recovery.congestion.hystart.in_css()
    }
}

/// A window of 20 packets: 2, 10, or 20 ACKs.
#[rstest]
fn a_round_is_judged_after_eight_acks(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values(false, true)] is_one_per_ack: bool,
    #[values(1, 2, 10)] packets_per_ack: usize,
) {
    let mut sender = Sender::new(cc, is_one_per_ack);
    sender.round(RTT, packets_per_ack);
    sender.round(RTT * 3 / 2, packets_per_ack);

    let has_eight = packets_per_ack < 10;
    assert_eq!(sender.is_conservative(), has_eight || !is_one_per_ack);
}
