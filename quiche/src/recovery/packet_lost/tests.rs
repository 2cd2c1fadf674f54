//! qlog event of each lost packet, with every controller.

use super::*;
use crate::clock;
use crate::ranges::RangeSet;
use crate::recovery::careful_resume_qlog::tests::LogBuffer;
use crate::recovery::HandshakeStatus;
use crate::recovery::Sent;
use crate::test_utils;
use crate::test_utils::emit_flight;
use crate::test_utils::Pipe;
use crate::Config;
use crate::QlogLevel;
use rstest::rstest;
use serde_json::json;
use serde_json::Value;
use std::time::Duration;

const EPOCH: Epoch = Epoch::Application;
const RTT: Duration = Duration::from_millis(50);

/// Returns name, time in milliseconds, and data of each lost packet of a log.
fn lost(buffer: &LogBuffer) -> Vec<(f64, Value)> {
    let is_lost = |line: &Value| line["name"] == "quic:packet_lost";
    let lines = buffer.lines().into_iter().filter(is_lost);
    lines
        .map(|line| (line["time"].as_f64().unwrap(), line["data"].clone()))
        .collect()
}

fn one_rtt(pkt_num: u64) -> Value {
    json!({ "packet_type": "1RTT", "packet_number": pkt_num })
}

/// A sender of which a log is kept or not.
struct LoggedSender {
    recovery: Recovery,
    buffer: LogBuffer,
    log: Option<QlogStreamer>,
    now: Instant,
}

impl LoggedSender {
    fn new(cc: &str, is_logged: bool) -> Self {
        let mut config = Config::new(crate::PROTOCOL_VERSION).unwrap();
        config.set_cc_algorithm_name(cc).unwrap();
        let now = clock::now();
        let buffer = LogBuffer::default();
        let log = is_logged.then(|| buffer.start_log(now));

        LoggedSender {
            recovery: Recovery::new(&config),
            buffer,
            log,
            now,
        }
    }

    fn write_log(&mut self) {
        if let Some(log) = &mut self.log {
            self.recovery.maybe_qlog(log, self.now);
        }
    }

    fn send(&mut self, pkt: Sent, epoch: Epoch) {
        let status = HandshakeStatus::default();
        self.recovery
            .on_packet_sent(pkt, epoch, status, self.now, "");
        self.write_log();
    }

    /// Sends packets with these numbers.
    fn send_all(&mut self, pkt_nums: std::ops::Range<u64>, epoch: Epoch) {
        for pkt_num in pkt_nums {
            let pkt = test_utils::helper_packet_sent(pkt_num, self.now, 1000);
            self.send(pkt, epoch);
        }
    }

    fn ack(&mut self, pkt_nums: std::ops::Range<u64>, epoch: Epoch) {
        let mut ranges = RangeSet::default();
        ranges.insert(pkt_nums);
        let status = HandshakeStatus::default();
        self.recovery
            .on_ack_received(&ranges, 0, epoch, status, self.now, None, "")
            .unwrap();
    }

    fn await_timer(&mut self) {
        self.now = self.recovery.loss_detection_timer().unwrap();
        let status = HandshakeStatus::default();
        self.recovery
            .on_loss_detection_timeout(status, self.now, "");
    }
}

#[rstest]
fn each_lost_packet_is_logged_once_with_its_trigger(
    #[values("reno", "cubic", "bbr2_gcongestion")] cc: &str,
) {
    let mut sender = LoggedSender::new(cc, true);
    sender.send_all(0..6, EPOCH);
    sender.now += RTT;
    // Packets 0 and 1 are three or more before the largest that arrived.
    sender.ack(4..5, EPOCH);
    sender.write_log();
    sender.write_log();
    sender.await_timer();
    sender.write_log();

    let lost = lost(&sender.buffer);
    let data: Vec<_> = lost.iter().map(|(_, data)| data.clone()).collect();
    let event = |pkt_num, trigger: &str| json!({ "header": one_rtt(pkt_num), "trigger": trigger });
    assert_eq!(
        data,
        [
            event(0, "reordering_threshold"),
            event(1, "reordering_threshold"),
            event(2, "time_threshold"),
            event(3, "time_threshold"),
        ]
    );
    assert_eq!((lost[0].0, lost[1].0), (50.0, 50.0));
    assert!(lost[2].0 > 50.0, "{lost:?}");
}

#[rstest]
fn lost_packets_have_the_type_of_their_space(
    #[values("cubic", "bbr2_gcongestion")] cc: &str,
) {
    let mut sender = LoggedSender::new(cc, true);
    // BBR2 wants numbers that rise over all spaces, as the library draws them.
    for (first, epoch) in [(0, Epoch::Initial), (4, Epoch::Handshake)] {
        sender.send_all(first..first + 4, epoch);
        sender.now += RTT;
        sender.ack(first + 3..first + 4, epoch);
        sender.write_log();
    }

    let lost = lost(&sender.buffer);
    let types: Vec<_> = lost
        .iter()
        .map(|(_, data)| data["header"]["packet_type"].as_str().unwrap())
        .collect();
    assert_eq!(types, ["initial", "handshake"]);
}

#[rstest]
fn a_lost_probe_of_the_mtu_is_marked(
    #[values("cubic", "bbr2_gcongestion")] cc: &str,
) {
    let mut sender = LoggedSender::new(cc, true);
    let mut probe = test_utils::helper_packet_sent(0, sender.now, 1400);
    probe.is_pmtud_probe = true;
    sender.send(probe, EPOCH);
    sender.send_all(1..5, EPOCH);
    sender.now += RTT;
    sender.ack(1..5, EPOCH);
    sender.write_log();

    let lost = lost(&sender.buffer);
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(lost[0].1["header"], one_rtt(0));
    assert_eq!(lost[0].1["is_mtu_probe_packet"], true);
}

#[rstest]
fn packets_given_up_with_their_path_have_no_trigger(
    #[values("cubic", "bbr2_gcongestion")] cc: &str,
) {
    let mut sender = LoggedSender::new(cc, true);
    sender.send_all(0..3, EPOCH);
    sender.now += RTT;
    sender.ack(0..1, EPOCH);
    let status = HandshakeStatus::default();
    for _ in 0..2 {
        sender
            .recovery
            .on_abandoned_path_timeout(status, sender.now);
        sender.write_log();
    }

    let given_up = |pkt_num| (50.0, json!({ "header": one_rtt(pkt_num) }));
    assert_eq!(lost(&sender.buffer), [given_up(1), given_up(2)]);
}

#[rstest]
fn nothing_is_kept_without_a_log(
    #[values("cubic", "bbr2_gcongestion")] cc: &str,
) {
    let mut sender = LoggedSender::new(cc, false);
    sender.send_all(0..6, EPOCH);
    sender.now += RTT;
    sender.ack(4..5, EPOCH);
    assert!(sender.recovery.loss_log(EPOCH).0.is_none());

    let log = &mut sender.buffer.start_log(sender.now);
    sender.recovery.write_lost_packets(log);
    assert_eq!(lost(&sender.buffer), []);
}

#[rstest]
fn log_of_a_connection_has_its_lost_packets(
    #[values("cubic", "bbr2_gcongestion")] cc: &str,
) {
    let mut pipe = Pipe::new(cc).unwrap();
    let buffer = LogBuffer::default();
    let log = Box::new(buffer.clone());
    let (title, about) = (String::new(), String::new());
    pipe.server
        .set_qlog_with_level(log, title, about, QlogLevel::Core);
    pipe.handshake().unwrap();
    pipe.server.stream_send(1, b"lost", false).unwrap();
    let dropped = emit_flight(&mut pipe.server).unwrap();
    test_utils::trigger_ack_based_loss(&mut pipe.server, &mut pipe.client);

    assert_eq!(dropped.len(), 1);
    assert_eq!(pipe.server.stats().lost, 1);
    let lost = lost(&buffer);
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert_eq!(lost[0].1["header"]["packet_type"], "1RTT");
    assert_eq!(lost[0].1["trigger"], "reordering_threshold");
}
