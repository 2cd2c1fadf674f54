//! Silly window syndrome avoidance: the last bytes of the window do not leave
//! as small packets, whose ACKs would release further small packets.

use std::time::Duration;

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

/// In congestion avoidance, with nothing in flight, after the packets 0 to 9.
fn recovery(cc: CongestionControlAlgorithm, sws_avoidance: bool) -> Recovery {
    let mut recovery = in_slow_start(cc, sws_avoidance);

    for pkt_num in 0..10 {
        send(&mut recovery, pkt_num, MDS);
    }
    for pkt_num in 1..10 {
        ack(&mut recovery, pkt_num);
    }

    assert_eq!(recovery.bytes_in_flight(), 0);
    recovery
}

fn in_slow_start(
    cc: CongestionControlAlgorithm, sws_avoidance: bool,
) -> Recovery {
    let mut config = crate::Config::new(crate::PROTOCOL_VERSION).unwrap();
    config.set_cc_algorithm(cc);
    config.set_max_send_udp_payload_size(MDS);
    config.set_sws_avoidance(sws_avoidance);

    Recovery::new(&config)
}

fn send(recovery: &mut Recovery, pkt_num: u64, size: usize) {
    let (now, status) = (clock::now(), HandshakeStatus::default());
    let sent = packet(pkt_num, size, now);

    recovery.on_packet_sent(sent, Epoch::Application, status, now, "");
}

fn ack(recovery: &mut Recovery, pkt_num: u64) {
    let mut ranges = RangeSet::default();
    ranges.insert(pkt_num..pkt_num + 1);
    let now = clock::now() + Duration::from_millis(1);
    let (epoch, status) = (Epoch::Application, HandshakeStatus::default());

    recovery
        .on_ack_received(&ranges, 0, epoch, status, now, None, "")
        .unwrap();
}

/// Sends 1 MB as the window allows; packets are acknowledged one by one.
/// Returns how many packets that took.
fn packets_for_a_megabyte(
    cc: CongestionControlAlgorithm, sws_avoidance: bool,
) -> u64 {
    let mut recovery = recovery(cc, sws_avoidance);
    let (mut sent, mut acked, mut left) = (10, 10, 1_000_000);

    // A small packet makes the rest of the window no multiple of a packet.
    send(&mut recovery, sent, 100);
    sent += 1;

    while left > 0 {
        loop {
            let size = recovery.cwnd_available().min(MDS).min(left);
            // A packet without room for a frame is not made.
            if size < 50 {
                break;
            }
            send(&mut recovery, sent, size);
            recovery.update_app_limited(true);
            sent += 1;
            left -= size;
        }

        ack(&mut recovery, acked);
        acked += 1;
    }

    sent - 10
}

#[rstest]
fn small_packets_do_not_release_more_of_them(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let _time = clock::Simulation::start(1, Duration::ZERO);
    let full = 1_000_000_u64.div_ceil(MDS as u64);

    assert!(packets_for_a_megabyte(cc, false) > full * 21 / 20);
    assert!(packets_for_a_megabyte(cc, true) <= full + 2);
}

#[rstest]
fn rest_of_the_window_waits_for_a_full_packet(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values(false, true)] sws_avoidance: bool,
) {
    let _time = clock::Simulation::start(1, Duration::ZERO);
    let mut recovery = recovery(cc, sws_avoidance);
    let window = recovery.cwnd();

    // One packet that makes the rest of the window half of one, about.
    let full = window / MDS - 1;
    let rest = window - full * MDS;
    let left = rest / 2;

    send(&mut recovery, 10, rest - left);
    for pkt_num in 0..full as u64 {
        send(&mut recovery, 11 + pkt_num, MDS);
    }
    assert_eq!(
        recovery.cwnd_available(),
        if sws_avoidance { 0 } else { left }
    );
    // A window that holds a small packet back is full: the application does not
    // limit the connection.
    assert_eq!(recovery.app_limited(), !sws_avoidance);
}

#[rstest]
fn slow_start_uses_the_whole_window(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let _time = clock::Simulation::start(1, Duration::ZERO);
    let mut recovery = in_slow_start(cc, true);
    let window = recovery.cwnd();

    send(&mut recovery, 0, 100);
    for pkt_num in 1..10 {
        send(&mut recovery, pkt_num, MDS);
    }

    assert_eq!(recovery.cwnd_available(), window - 100 - 9 * MDS);
}

/// A round with a longer RTT begins conservative slow start.
#[rstest]
fn conservative_slow_start_grows_by_full_packets(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values(false, true)] sws_avoidance: bool,
) {
    let time = clock::Simulation::start(1, Duration::from_secs(1));
    let mut recovery = in_slow_start(cc, sws_avoidance);
    let (mut sent, mut small) = (0, 0);

    for rtt_ms in [100, 150, 150, 150] {
        let first = sent;
        while recovery.cwnd_available() > 0 {
            let size = recovery.cwnd_available().min(MDS);
            send(&mut recovery, sent, size);
            recovery.update_app_limited(false);
            sent += 1;
            small += u64::from(size < MDS);
        }

        time.advance_to(time.elapsed() + Duration::from_millis(rtt_ms));
        for pkt_num in first..sent {
            ack(&mut recovery, pkt_num);
            let size = recovery.cwnd_available().min(MDS);
            small += u64::from(size > 0 && size < MDS);
        }
    }

    assert_eq!(small > 0, !sws_avoidance);
    let window = recovery.cwnd() / MDS;
    assert!((45..64).contains(&window), "{window}");
}
