//! The bytes of lost packets, of a path and in its qlog.

use super::*;

const MDS: usize = 1000;
const EPOCH: packet::Epoch = packet::Epoch::Application;

/// Sends six packets, and acknowledges these 50 ms later.
#[expect(clippy::disallowed_methods, reason = "any instant will do")]
fn recovery_after(cc: &str, acked: std::ops::Range<u64>) -> Recovery {
    let mut config = Config::new(crate::PROTOCOL_VERSION).unwrap();
    config.set_cc_algorithm_name(cc).unwrap();

    let mut recovery = Recovery::new(&config);
    let status = HandshakeStatus::default();
    let sent = Instant::now();

    for pkt_num in 0..6 {
        let pkt = test_utils::helper_packet_sent(pkt_num, sent, MDS);
        recovery.on_packet_sent(pkt, EPOCH, status, sent, "");
    }

    let now = sent + Duration::from_millis(50);
    let mut ranges = RangeSet::default();
    ranges.insert(acked);
    recovery
        .on_ack_received(&ranges, 0, EPOCH, status, now, None, "")
        .unwrap();

    recovery
}

#[rstest]
fn packets_lost_by_an_ack_are_counted_in_bytes(
    #[values("reno", "cubic", "bbr2_gcongestion")] cc: &str,
) {
    let recovery = recovery_after(cc, 2..6);

    assert_eq!(recovery.lost_count(), 2);
    assert_eq!(recovery.bytes_lost(), 2 * MDS as u64);
}

#[rstest]
fn packets_lost_by_time_are_counted_in_bytes(
    #[values("reno", "cubic", "bbr2_gcongestion")] cc: &str,
) {
    let mut recovery = recovery_after(cc, 2..3);
    assert_eq!(recovery.bytes_lost(), 0);

    let now = recovery.loss_detection_timer().unwrap();
    recovery.on_loss_detection_timeout(HandshakeStatus::default(), now, "");

    assert_eq!(recovery.lost_count(), 2);
    assert_eq!(recovery.bytes_lost(), 2 * MDS as u64);
}

#[cfg(feature = "qlog")]
#[rstest]
fn qlog_metrics_have_the_lost_bytes(
    #[values("reno", "cubic", "bbr2_gcongestion")] cc: &str,
) {
    let mut recovery = recovery_after(cc, 2..6);

    let event = recovery.get_updated_qlog_event_data();
    let Some(EventData::QuicMetricsUpdated(metrics)) = event else {
        panic!("no metrics: {event:?}");
    };

    assert_eq!(metrics.ex_data["cf_lost_bytes"]["total"], 2 * MDS);
}
