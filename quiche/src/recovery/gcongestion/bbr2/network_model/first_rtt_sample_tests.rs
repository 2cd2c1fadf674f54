//! First RTT sample of BBR2's model: it replaces the initial RTT.

use super::*;
use crate::recovery::gcongestion::bbr2::DEFAULT_PARAMS;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Takes the ACK of a packet with this RTT.
fn ack(model: &mut BBRv2NetworkModel, pkt_num: u64, start: Instant, rtt: u64) {
    let sent = start + ms(pkt_num * 10);
    model.on_packet_sent(sent, 0, pkt_num, 1200, true);

    let acked = Acked {
        pkt_num,
        time_sent: sent,
    };
    let mut event =
        BBRv2CongestionEvent::new(sent + ms(rtt), 100_000, 1200, false);
    model.on_congestion_event_start(&[acked], &[], &mut event, &DEFAULT_PARAMS);
}

// Over a satellite, it is longer.
#[test]
#[allow(clippy::disallowed_methods)]
fn first_rtt_sample_replaces_initial_rtt() {
    let start = Instant::now();

    for first in [600, 50] {
        let mut model = BBRv2NetworkModel::new(&DEFAULT_PARAMS, ms(333));

        for (pkt, rtt, expected) in [
            (1, first, first),
            (2, first + 50, first),
            (3, first - 10, first - 10),
            (4, first, first - 10),
        ] {
            ack(&mut model, pkt, start, rtt);
            assert_eq!(model.min_rtt(), ms(expected));
        }
    }
}
