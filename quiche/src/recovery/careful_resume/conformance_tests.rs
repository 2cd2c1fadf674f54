//! Requirements of RFC 9959, and boundaries of them, that the action tables do
//! not show. The rows that they prove are in CONFORMANCE.md. Windows are in
//! packets.

use super::test_sender::Sender;
use super::test_sender::IW;
use super::test_sender::MDS;
use super::test_sender::RTT;
use super::*;
use crate::clock;
use crate::packet::Epoch;
use crate::path_state::MemoryStore;
use crate::path_state::PathStateStore;
use crate::path_state::PrefixLengths;
use crate::path_state::RemoteEndpoint;
use crate::recovery::RecoveryOps;
use crate::CongestionControlAlgorithm;
use crate::CongestionControlAlgorithm::Reno;
use crate::CongestionControlAlgorithm::CUBIC;
use rstest::rstest;
use std::ops::Range;

use Phase::*;
use Trigger::*;

const NANOSECOND: Duration = Duration::from_nanos(1);
const FIVE_MINUTES: Duration = Duration::from_secs(300);

fn sender_with(resume: Option<CarefulResumeConfig>) -> Sender {
    Sender::with_config(CUBIC, resume, false)
}

/// A sender that jumps while 18 packets, 10 to 27, are in flight.
fn jumped_amid_a_flight(cc: CongestionControlAlgorithm) -> Sender {
    let mut sender = Sender::resumed(cc, 300);
    sender.fill();
    sender.wait(RTT);

    for i in 0..IW as u64 {
        sender.fill();
        sender.ack(i..i + 1);
    }

    assert_eq!((sender.phase(), sender.window()), (Unvalidated, 150));
    assert_eq!((sender.pipe_size(), sender.next), (18, 28));
    sender
}

/// Sends rounds of that many packets, so that there is something to save.
fn observe(sender: &mut Sender, packets: usize, rtts: [Duration; 3]) {
    for rtt in rtts {
        let from = sender.next;
        sender.send(packets);
        sender.wait(rtt);
        sender.ack(from..sender.next);
    }
}

/// A1: what two clients of one subnet show is one set.
#[test]
fn second_observation_replaces_the_first() {
    let store = MemoryStore::new(10);
    let observed = clock::wall_now();

    for (client, saved_cwnd) in
        [("198.51.100.1", 100_000), ("198.51.100.2", 200_000)]
    {
        let lengths = PrefixLengths::default();
        let endpoint =
            RemoteEndpoint::new("192.0.2.1", client.parse().unwrap(), lengths);
        let state = PathState {
            saved_cwnd,
            saved_rtt: RTT,
            observed,
            expires: observed + FIVE_MINUTES,
            limited: false,
            validated: false,
        };

        store.record(&endpoint, &state).unwrap();
        assert_eq!(store.get(&endpoint).unwrap(), Some(state));
    }

    assert_eq!(store.flush().unwrap(), 1);
}

/// A4: of the last five minutes, not of the connection.
#[test]
fn saved_rtt_is_the_minimum_of_five_minutes() {
    let mut sender = sender_with(Some(CarefulResumeConfig::default()));
    let longer = RTT * 3 / 2;
    observe(&mut sender, 10 * IW, [longer, RTT, longer]);
    let state = sender.recovery.path_state(sender.now).unwrap();
    assert_eq!(state.saved_rtt, RTT);

    sender.wait(FIVE_MINUTES);
    observe(&mut sender, 10 * IW, [longer; 3]);
    let state = sender.recovery.path_state(sender.now).unwrap();
    assert_eq!(state.saved_rtt, longer);
}

/// A8: also where nothing but limited samples is known.
#[test]
fn a_limited_sample_does_not_lower_another() {
    let mut observer = Observer::default();
    let mut now = clock::now() + Duration::from_secs(1);

    for packets in [100; 5].into_iter().chain([50; 20]) {
        let acked = Acknowledged {
            bytes: packets * MDS,
            largest: 0,
            rtt: Duration::ZERO,
        };
        observer.on_ack(&acked, RTT, FlightLimit::Growth, now);
        now += RTT;
    }

    let observed = observer.observed().unwrap();
    assert_eq!((observed.cwnd(RTT), observed.limited), (100 * MDS, true));
}

/// A3, A4: what was seen with a longer RTT is saved as what the path carries in
/// the RTT that it is saved with.
#[test]
fn saved_cwnd_and_saved_rtt_belong_together() {
    let mut sender = sender_with(Some(CarefulResumeConfig::default()));
    observe(&mut sender, 20 * IW, [RTT; 3]);
    let longer = sender.recovery.path_state(sender.now).unwrap();

    observe(&mut sender, 1, [RTT / 4; 3]);
    let shorter = sender.recovery.path_state(sender.now).unwrap();

    assert_eq!((longer.saved_rtt, shorter.saved_rtt), (RTT, RTT / 4));
    assert_eq!(longer.saved_cwnd, (20 * IW * MDS) as u64);
    assert_eq!(shorter.saved_cwnd, longer.saved_cwnd / 4);
}

/// A6, F3, F8: the operator's limits.
#[test]
fn saved_parameters_keep_the_operators_limits() {
    let lifetime = Duration::from_secs(7);
    let mut sender = sender_with(Some(CarefulResumeConfig {
        max_jump: 25 * MDS,
        lifetime,
        ..Default::default()
    }));
    observe(&mut sender, 10 * IW, [RTT; 3]);

    let state = sender.recovery.path_state(sender.now).unwrap();
    assert_eq!(state.saved_cwnd, 50 * MDS as u64);
    assert_eq!(state.expires, state.observed + lifetime);
}

/// The largest number is a usual way to say that there is no limit.
#[test]
fn largest_limits_do_not_overflow() {
    let mut unlimited = sender_with(Some(CarefulResumeConfig {
        max_jump: usize::MAX,
        lifetime: Duration::from_millis(u64::MAX),
        ..Default::default()
    }));
    observe(&mut unlimited, 10 * IW, [RTT; 3]);
    let state = unlimited.recovery.path_state(unlimited.now).unwrap();
    assert_eq!(state.saved_cwnd, (10 * IW * MDS) as u64);

    let mut never_saved = sender_with(Some(CarefulResumeConfig {
        min_initial_windows: usize::MAX,
        ..Default::default()
    }));
    observe(&mut never_saved, 10 * IW, [RTT; 3]);
    assert_eq!(never_saved.recovery.path_state(never_saved.now), None);
}

/// A capacity saved as twice max_jump is a lower bound.
#[test]
fn capacity_capped_by_max_jump_limits_no_growth() {
    for (max_jump, is_limit) in [(151 * MDS, true), (150 * MDS, false)] {
        let mut sender = sender_with(Some(CarefulResumeConfig {
            max_jump,
            ..Default::default()
        }));
        assert!(sender.careful_resume_from(300));
        sender.fill();
        sender.wait(RTT);
        sender.ack(0..IW as u64);

        let soft_growth = sender.soft_growth().unwrap();
        assert_eq!(soft_growth.is_limit, is_limit, "{max_jump}");
    }
}

/// B1: the same as without Careful Resume, ACK by ACK.
#[test]
fn reconnaissance_is_normal_congestion_control() {
    let mut plain = sender_with(None);
    let mut resumed = Sender::resumed(CUBIC, 300);

    for sender in [&mut plain, &mut resumed] {
        assert_eq!(sender.fill(), IW);
        assert_eq!(sender.recovery.cwnd_available(), 0);
        sender.wait(RTT);
    }

    for i in 0..IW as u64 - 1 {
        for sender in [&mut plain, &mut resumed] {
            sender.ack(i..i + 1);
            sender.fill();
        }
        assert_eq!(resumed.phase(), Reconnaissance);
        assert_eq!(resumed.window(), plain.window());
        assert_eq!(resumed.next, plain.next);
    }
}

/// B10: the minimum RTT of the phase, not the current one.
#[rstest]
fn one_too_short_rtt_sample_refuses_the_jump(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::resumed(cc, 300);
    sender.fill();
    sender.wait(RTT / 2);
    sender.ack(0..1);
    sender.wait(RTT / 2);
    sender.ack(1..IW as u64);

    assert!(sender.recovery.rtt() > RTT / 2);
    assert_eq!(
        sender.triggers().last(),
        Some(&(Normal, Some(RttNotValidated)))
    );
}

/// The release times of a jump to 150 packets, as time since the jump.
fn release_times(cc: CongestionControlAlgorithm, rtt: Duration) -> Vec<Duration> {
    let mut sender = Sender::with_pacing(cc, true);
    sender.careful_resume_from(300);
    sender.fill();
    sender.wait(rtt);
    sender.ack(0..IW as u64);
    let start = sender.now;
    let mut times = vec![];

    while sender.phase() == Unvalidated {
        let release = sender.recovery.get_next_release_time();
        sender.now = release.time(sender.now).unwrap_or(sender.now);
        sender.send(1);
        times.push(sender.recovery.get_packet_send_time(sender.now) - start);
    }

    times
}

/// C3: the current RTT makes the pace, whatever the saved one was.
#[rstest]
fn jump_pace_follows_the_current_rtt(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let rtt = RTT * 3 / 4;
    let times = release_times(cc, rtt);
    let last = *times.last().unwrap();

    assert_eq!(times.len(), 150);
    assert!(last <= rtt && last > rtt * 98 / 100, "{last:?}");
}

/// C3: what a client or a server computes in the handshake is no RTT of the
/// path, and neither is the delay of an ACK.
#[rstest]
#[case::slow_handshake(RTT * 2, Duration::ZERO)]
#[case::late_ack(RTT, Duration::from_millis(10))]
fn jump_pace_follows_application_data(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[case] handshake_rtt: Duration, #[case] ack_delay: Duration,
) {
    let mut sender = Sender::with_pacing(cc, true);
    sender.careful_resume_from(300);
    let max_ack_delay = Duration::from_millis(25);
    sender.recovery.update_max_ack_delay(max_ack_delay);
    sender.send_in(Epoch::Handshake);
    sender.wait(handshake_rtt);
    sender.ack_in(Epoch::Handshake, 0..1, Duration::ZERO);

    sender.next = 0;
    sender.fill();
    sender.wait(RTT + ack_delay);
    sender.ack_in(Epoch::Application, 0..IW as u64, ack_delay);
    assert_eq!(sender.phase(), Unvalidated);

    let rate = sender.careful_resume().pace().unwrap().rate as usize;
    assert_eq!(rate, 150 * MDS * 10);

    // And the phase lasts that long.
    sender.send(50);
    sender.wait(RTT + Duration::from_millis(1));
    sender.send(1);
    assert_eq!(
        sender.triggers().last(),
        Some(&(Validating, Some(RttExceeded)))
    );
}

/// C5: the step lets no more go at once than a batch.
#[rstest]
fn jump_is_followed_by_no_burst(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let times = release_times(cc, RTT);
    let batches = times.chunk_by(|a, b| a == b).map(<[Duration]>::len);

    assert_eq!(batches.max(), Some(1));
}

/// C6: ACKs of packets before the jump count, and the window stays.
#[rstest]
fn acks_in_unvalidated_grow_pipe_size_alone(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = jumped_amid_a_flight(cc);
    sender.wait(RTT);
    sender.ack(10..15);

    assert_eq!((sender.phase(), sender.window()), (Unvalidated, 150));
    assert_eq!(sender.pipe_size(), 18 + 5);
}

/// C8: the lost packet was sent before the jump.
#[rstest]
fn loss_in_unvalidated_retreats(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = jumped_amid_a_flight(cc);
    sender.send(20);
    sender.wait(RTT);
    sender.ack(13..14);

    assert_eq!(
        sender.triggers().last(),
        Some(&(SafeRetreat, Some(PacketLoss)))
    );
    assert_eq!((sender.pipe_size(), sender.window()), (19, 9));
}

/// C9: in bytes, less than a packet of the window remains.
#[rstest]
fn window_without_room_for_a_packet_is_full(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::resumed(cc, 301);
    sender.reconnoitre();
    assert_eq!(sender.recovery.cwnd(), 150 * MDS + MDS / 2);

    sender.send(149);
    assert_eq!(sender.phase(), Unvalidated);
    sender.send(1);
    assert_eq!(
        sender.triggers().last(),
        Some(&(Validating, Some(LastUnvalidatedPacketSent)))
    );
    assert_eq!(sender.recovery.cwnd(), 150 * MDS);
}

/// C11: more than one RTT, not one RTT.
#[rstest]
fn unvalidated_lasts_one_rtt(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::resumed(cc, 300);
    sender.reconnoitre();
    sender.send(50);

    sender.wait(RTT);
    sender.send(1);
    assert_eq!(sender.phase(), Unvalidated);

    sender.wait(NANOSECOND);
    sender.send(1);
    assert_eq!(
        sender.triggers().last(),
        Some(&(Validating, Some(RttExceeded)))
    );
}

/// C12: less than the initial window in flight, although more than PipeSize.
#[rstest]
#[case(IW - 1, (Normal, IW), RateLimited)]
#[case(IW, (Validating, IW), RttExceeded)]
fn jump_to_less_than_the_initial_window_ends(
    #[case] packets: usize, #[case] then: (Phase, usize),
    #[case] trigger: Trigger,
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::resumed(cc, 300);
    sender.reconnoitre();
    sender.send(packets - 1);
    sender.wait(RTT + NANOSECOND);
    sender.send(1);

    assert_eq!((sender.phase(), sender.window()), then);
    assert_eq!(sender.triggers().last(), Some(&(then.0, Some(trigger))));
}

/// C12: no more than PipeSize in flight, although more than the initial window.
#[rstest]
#[case(4, (Normal, 20), RateLimited)]
#[case(5, (Validating, 21), RttExceeded)]
fn jump_to_no_more_than_the_pipe_size_ends(
    #[case] packets: usize, #[case] then: (Phase, usize),
    #[case] trigger: Trigger,
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = jumped_amid_a_flight(cc);
    sender.wait(RTT);
    sender.ack(10..12);
    assert_eq!(sender.pipe_size(), 20);
    sender.send(packets - 1);
    sender.wait(NANOSECOND);
    sender.send(1);

    assert_eq!((sender.phase(), sender.window()), then);
    assert_eq!(sender.triggers().last(), Some(&(then.0, Some(trigger))));
}

/// E3: also where the controller saw no congestion, and would grow.
#[rstest]
fn window_does_not_grow_in_safe_retreat(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::resumed(cc, 300);
    sender.reconnoitre();
    sender.send(50);
    let now = sender.now;
    sender.recovery.on_path_change(Epoch::Application, now, "");
    assert_eq!((sender.phase(), sender.window()), (SafeRetreat, 2));

    sender.wait(RTT);
    for i in 10..59 {
        sender.ack(i..i + 1);
        assert_eq!((sender.phase(), sender.window()), (SafeRetreat, 2));
    }
    sender.ack(59..60);
    assert_eq!((sender.phase(), sender.window()), (Normal, 2));
}

/// E7, F2: half the pipe size becomes ssthresh, so that slow start goes on up
/// to there and no further.
#[rstest]
fn slow_start_after_a_retreat_ends_at_half_the_pipe(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::resumed(cc, 300);
    sender.reconnoitre();
    sender.fill();
    sender.wait(RTT);
    sender.ack(10..73);
    sender.ack(74..77);
    sender.wait(RTT / 10);
    sender.ack(77..160);
    assert_eq!((sender.phase(), sender.window()), (Normal, 33));
    assert_eq!(sender.pipe_size(), 149);

    let windows = [(); 2].map(|()| {
        sender.wait(NANOSECOND);
        let from = sender.next;
        sender.fill();
        sender.wait(RTT);
        sender.ack(from..sender.next);
        sender.window()
    });

    assert_eq!(windows[0], 66);
    assert!((74..=76).contains(&windows[1]), "{windows:?}");
}

/// F1: a packet that arrives in between breaks the row of losses.
#[rstest]
fn arrival_between_losses_is_no_persistent_congestion(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut sender = Sender::resumed(cc, 300);
    sender.reconnoitre();
    sender.send(49);
    sender.wait(RTT * 9 / 10);
    sender.send(1);
    sender.wait(RTT / 10);
    sender.ack(58..59);
    assert_eq!(sender.phase(), SafeRetreat);

    // From packet 10 on it is more than three times the probe time-out, from
    // packet 59 on it is less.
    sender.wait(RTT * 58 / 10);
    sender.send(5);
    sender.wait(RTT);
    sender.ack(64..65);
    let duration = sender.recovery.pto() * 3;
    assert!(duration > RTT * 59 / 10 && duration < RTT * 68 / 10);

    assert_eq!(
        sender.triggers().last(),
        Some(&(Normal, Some(ExitRecovery)))
    );
}

/// The state machine alone, at one moment.
struct Machine {
    careful_resume: CarefulResume,
    now: Instant,
}

impl Machine {
    /// The worked example: with 29 packets in flight it jumps to 150, and
    /// number 30 is the first.
    fn jumped_with_29_in_flight() -> Self {
        let (now, observed) = (clock::now(), clock::wall_now());
        let mut machine = Machine {
            careful_resume: CarefulResume::new(CarefulResumeConfig::default()),
            now,
        };
        let state = PathState {
            saved_cwnd: 300 * MDS as u64,
            saved_rtt: RTT,
            observed,
            expires: observed + FIVE_MINUTES,
            limited: false,
            validated: false,
        };
        let c = machine.conditions(IW, 0);
        let resume = &mut machine.careful_resume;
        assert!(resume.offer(state, now + RTT, observed, &c));

        for in_flight in 1..=IW {
            machine.send(IW, in_flight);
        }
        machine.acked(1..IW as u64 + 1);
        let action = machine.ack_up_to(IW as u64, 29, 29);
        assert_eq!(action, Action::Jump { window: 150 * MDS });
        assert_eq!(machine.careful_resume.stats().pipe_size, 29 * MDS);
        machine
    }

    fn conditions(&self, window: usize, in_flight: usize) -> Conditions {
        Conditions {
            now: self.now,
            cwnd: window * MDS,
            ssthresh: usize::MAX,
            flight_size: in_flight * MDS,
            initial_window: IW * MDS,
            max_datagram_size: MDS,
            rtt: RTT,
            min_rtt: Some(RTT),
            window_limited: true,
            has_left_slow_start: false,
        }
    }

    /// Sends the packet with the number of those in flight, as nothing was
    /// acknowledged yet.
    fn send(&mut self, window: usize, in_flight: usize) -> Action {
        let c = self.conditions(window, in_flight);
        self.careful_resume
            .on_packet_sent(in_flight as u64, false, &c)
    }

    fn acked(&mut self, packets: Range<u64>) {
        let bytes = packets.clone().count() * MDS;
        self.careful_resume.on_acked(packets, bytes);
    }

    fn ack_up_to(
        &mut self, largest: u64, window: usize, in_flight: usize,
    ) -> Action {
        let c = self.conditions(window, in_flight);
        let acked = Acknowledged {
            bytes: 0,
            largest,
            rtt: Duration::ZERO,
        };
        self.careful_resume.after_ack(&acked, &c)
    }
}

/// Vectors 2 and 3: 121 packets may be sent; of fewer, what is in flight is
/// the window.
#[test]
fn worked_example_jumps() {
    let mut machine = Machine::jumped_with_29_in_flight();
    for in_flight in 30..150 {
        assert_eq!(machine.send(150, in_flight), Action::Keep);
    }
    let window = 150 * MDS;
    assert_eq!(machine.send(150, 150), Action::Validate { window });
    assert_eq!(machine.careful_resume.phase(), Validating);
    let packets = machine.careful_resume.unvalidated_packets();
    assert_eq!(packets, (Some(30), Some(150)));

    let mut machine = Machine::jumped_with_29_in_flight();
    for in_flight in 30..=50 {
        assert_eq!(machine.send(150, in_flight), Action::Keep);
    }
    let window = 50 * MDS;
    let acked = machine.ack_up_to(30, 150, 50);
    assert_eq!(acked, Action::Validate { window });
    assert_eq!(machine.careful_resume.phase(), Validating);
}

/// Vector 4: packet 64 is lost after 34 of the jump's were acknowledged.
#[test]
fn worked_example_retreats() {
    let mut machine = Machine::jumped_with_29_in_flight();
    for in_flight in 30..=150 {
        machine.send(150, in_flight);
    }
    machine.acked(30..64);
    let c = machine.conditions(150, 116);
    assert_eq!(
        machine.careful_resume.on_congestion(PacketLoss, &c),
        Action::Retreat {
            pipe_size: 63 * MDS,
            window: 63 * MDS / 2
        }
    );

    machine.acked(65..150);
    let kept = machine.ack_up_to(149, 31, 1);
    assert_eq!(
        (kept, machine.careful_resume.phase()),
        (Action::Keep, SafeRetreat)
    );

    machine.acked(150..151);
    let ssthresh = (63 + 86) * MDS / 2;
    let ended = machine.ack_up_to(150, 31, 0);
    assert_eq!(ended, Action::EndRetreat { ssthresh });
    assert_eq!(machine.careful_resume.phase(), Normal);
}

/// H: the draft's names, and ours.
#[test]
fn triggers_have_the_names_of_the_draft() {
    for (trigger, name) in [
        (CongestionWindowLimited, "congestion_window_limited"),
        (RttNotValidated, "rtt_not_validated"),
        (LastUnvalidatedPacketSent, "last_unvalidated_packet_sent"),
        (
            FirstUnvalidatedPacketAcknowledged,
            "first_unvalidated_packet_acknowledged",
        ),
        (RttExceeded, "rtt_exceeded"),
        (RateLimited, "rate_limited"),
        (
            LastUnvalidatedPacketAcknowledged,
            "last_unvalidated_packet_acknowledged",
        ),
        (PathChanged, "path_changed"),
        (PacketLoss, "packet_loss"),
        (EcnCe, "ECN_CE"),
        (ExitRecovery, "exit_recovery"),
        (NoSavedSet, "no_saved_set"),
        (LifetimePassed, "lifetime_passed"),
        (ClaimLapsed, "claim_lapsed"),
        (JumpNotLarger, "jump_not_larger"),
        (PersistentCongestion, "persistent_congestion"),
        (NotPaced, "not_paced"),
        (HandshakeAcknowledged, "handshake_acknowledged"),
    ] {
        assert_eq!(trigger.name(), name);
    }
}
