//! RTT samples of HyStart++: it judges a round after eight ACKs, of any number
//! of packets, or, as upstream, after eight packets.

use std::time::Duration;

use crate::recovery::careful_resume::test_sender::Sender;
use crate::recovery::careful_resume::test_sender::MDS;
use crate::recovery::careful_resume::test_sender::RTT;
use crate::recovery::Recovery;
use crate::CongestionControlAlgorithm;
use crate::CongestionControlAlgorithm::Reno;
use crate::CongestionControlAlgorithm::CUBIC;
use rstest::rstest;

fn sender(cc: CongestionControlAlgorithm, is_one_per_ack: bool) -> Sender {
    let mut config = crate::Config::new(crate::PROTOCOL_VERSION).unwrap();
    config.set_cc_algorithm(cc);
    config.set_max_send_udp_payload_size(MDS);
    config.set_hystart_samples_per_ack(is_one_per_ack);
    Sender::of(&config)
}

/// Sends a window, and acknowledges it after `rtt` with one ACK for each
/// `packets_per_ack` packets.
fn round(sender: &mut Sender, rtt: Duration, packets_per_ack: usize) {
    let mut sent = sender.next..sender.next + sender.fill() as u64;
    sender.now += rtt;

    while !sent.is_empty() {
        let end = sent.end.min(sent.start + packets_per_ack as u64);
        sender.ack(sent.start..end);
        sent.start = end;
    }
}

fn is_conservative(sender: &Sender) -> bool {
    let Recovery::Legacy(recovery) = &sender.recovery else {
        unreachable!("Reno and CUBIC")
    };
    recovery.congestion.hystart.in_css()
}

/// A window of 20 packets: 2, 10, or 20 ACKs.
#[rstest]
fn hystart_round_needs_eight_acks(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values(false, true)] is_one_per_ack: bool,
    #[values(1, 2, 10)] packets_per_ack: usize,
) {
    let mut sender = sender(cc, is_one_per_ack);
    round(&mut sender, RTT, packets_per_ack);
    round(&mut sender, RTT * 3 / 2, packets_per_ack);

    let has_eight = packets_per_ack < 10;
    assert_eq!(is_conservative(&sender), has_eight || !is_one_per_ack);
}
