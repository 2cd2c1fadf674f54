//! Probe timeouts before the first RTT sample.

use std::time::Duration;
use std::time::Instant;

use crate::clock;
use crate::clock::Simulation;
use crate::packet::Epoch;
use crate::ranges::RangeSet;
use crate::recovery::careful_resume::test_sender::packet;
use crate::recovery::HandshakeStatus;
use crate::recovery::Recovery;
use crate::recovery::RecoveryOps;
use crate::test_utils::Pipe;
use crate::Config;
use crate::Connection;
use crate::DEFAULT_INITIAL_RTT;
use rstest::rstest;

const MDS: usize = 1200;
const SAVED_RTT: Duration = Duration::from_millis(1200);

fn recovery(cc: &str) -> Recovery {
    let mut config = Config::new(crate::PROTOCOL_VERSION).unwrap();
    config.set_cc_algorithm_name(cc).unwrap();
    Recovery::new(&config)
}

fn raise(recovery: &mut Recovery, rtt: Duration, now: Instant) -> bool {
    recovery.raise_initial_rtt(rtt, HandshakeStatus::default(), now)
}

fn send(recovery: &mut Recovery, now: Instant) {
    let (sent, status) = (packet(0, MDS, now), HandshakeStatus::default());
    recovery.on_packet_sent(sent, Epoch::Initial, status, now, "");
}

fn ack(recovery: &mut Recovery, now: Instant) {
    let mut ranges = RangeSet::default();
    ranges.insert(0..1);
    let (epoch, status) = (Epoch::Initial, HandshakeStatus::default());
    recovery
        .on_ack_received(&ranges, 0, epoch, status, now, None, "")
        .unwrap();
}

#[rstest]
fn initial_rtt_raised_before_sending_sets_probe_timeout(
    #[values("reno", "cubic", "bbr2_gcongestion")] cc: &str,
) {
    let (mut recovery, now) = (recovery(cc), clock::now());
    assert_eq!(recovery.pto(), 3 * DEFAULT_INITIAL_RTT);
    assert!(raise(&mut recovery, SAVED_RTT, now));

    assert_eq!(recovery.pto(), 3 * SAVED_RTT);
    assert_eq!(recovery.min_rtt(), None);
    assert_eq!(recovery.loss_detection_timer(), None);
    send(&mut recovery, now);
    assert_eq!(recovery.loss_detection_timer(), Some(now + 3 * SAVED_RTT));
}

#[rstest]
fn initial_rtt_raised_in_flight_moves_probe_timeout(
    #[values("reno", "cubic", "bbr2_gcongestion")] cc: &str,
) {
    let (mut recovery, now) = (recovery(cc), clock::now());
    send(&mut recovery, now);
    let default = Some(now + 3 * DEFAULT_INITIAL_RTT);
    assert_eq!(recovery.loss_detection_timer(), default);

    let later = now + Duration::from_millis(5);
    assert!(raise(&mut recovery, SAVED_RTT, later));
    assert_eq!(recovery.loss_detection_timer(), Some(now + 3 * SAVED_RTT));
}

#[rstest]
fn initial_rtt_raised_after_sample_changes_nothing(
    #[values("reno", "cubic", "bbr2_gcongestion")] cc: &str,
) {
    let (mut recovery, now) = (recovery(cc), clock::now());
    let rtt = Duration::from_millis(50);
    send(&mut recovery, now);
    ack(&mut recovery, now + rtt);
    let timer = recovery.loss_detection_timer();

    assert!(!raise(&mut recovery, SAVED_RTT, now + rtt));
    assert_eq!((recovery.rtt(), recovery.pto()), (rtt, 3 * rtt));
    assert_eq!(recovery.loss_detection_timer(), timer);
}

#[rstest]
fn initial_rtt_is_never_lowered_and_bounded(
    #[values("cubic", "bbr2_gcongestion")] cc: &str,
) {
    let (mut recovery, now) = (recovery(cc), clock::now());

    for short in [
        Duration::ZERO,
        Duration::from_millis(5),
        DEFAULT_INITIAL_RTT,
    ] {
        assert!(!raise(&mut recovery, short, now));
        assert_eq!(recovery.rtt(), DEFAULT_INITIAL_RTT);
    }

    assert!(raise(&mut recovery, Duration::MAX, now));
    assert_eq!(recovery.rtt(), Duration::from_secs(3));
    assert!(!raise(&mut recovery, Duration::MAX, now));
}

/// A server that has sent its handshake flight and had no answer.
fn server_in_handshake(_time: &Simulation) -> Pipe {
    let mut pipe = Pipe::new("cubic").unwrap();
    let flight = crate::test_utils::emit_flight(&mut pipe.client).unwrap();
    crate::test_utils::process_flight(&mut pipe.server, flight).unwrap();
    crate::test_utils::emit_flight(&mut pipe.server).unwrap();
    pipe
}

/// A recovery that replaces another in the handshake keeps what it was told.
#[rstest]
fn initial_rtt_outlives_the_choice_of_another_controller(
    #[values("reno", "cubic", "bbr2_gcongestion")] former: &str,
    #[values("reno", "cubic", "bbr2_gcongestion")] chosen: &str,
) {
    let mut pipe = Pipe::new(former).unwrap();
    let server = &mut pipe.server;
    assert!(server.raise_initial_rtt(SAVED_RTT));
    let mut config = server.recovery_config;
    config.cc_algorithm = chosen.parse().unwrap();
    let path = server.paths.get_active_mut().unwrap();
    path.reinit_recovery(&config);

    assert_eq!(path.recovery.pto(), 3 * SAVED_RTT);
    assert_eq!(path.recovery.min_rtt(), None);
    assert!(!raise(&mut path.recovery, SAVED_RTT, clock::now()));
}

fn probes(server: &Connection) -> usize {
    server.path_stats().next().unwrap().total_pto_count
}

#[test]
fn server_probes_its_handshake_after_three_initial_rtts() {
    let time = Simulation::start(1, Duration::ZERO);
    let mut server = server_in_handshake(&time).server;
    assert!(server.raise_initial_rtt(SAVED_RTT));
    assert_eq!(server.timeout(), Some(3 * SAVED_RTT));

    time.advance_to(3 * SAVED_RTT - Duration::from_millis(1));
    server.on_timeout();
    assert_eq!(probes(&server), 0);
    time.advance_to(3 * SAVED_RTT);
    server.on_timeout();
    assert_eq!(probes(&server), 1);
}

#[test]
fn initial_rtt_of_established_connection_is_not_raised() {
    let _time = Simulation::start(1, Duration::ZERO);
    let mut pipe = Pipe::new("cubic").unwrap();
    pipe.handshake().unwrap();
    assert!(!pipe.server.raise_initial_rtt(SAVED_RTT));
}
