//! Tests of Careful Resume with BBR, over a path that acknowledges each packet
//! after one RTT, and loses those that a test names. Windows are in packets.

use super::*;
use crate::careful_resume::CarefulResumeConfig;
use crate::careful_resume::CarefulResumeEvent;
use crate::recovery::careful_resume::test_sender::Sender;
use crate::recovery::careful_resume::test_sender::IW;
use crate::recovery::careful_resume::test_sender::MDS;
use crate::recovery::careful_resume::test_sender::RTT;
use crate::recovery::Recovery;
use crate::test_utils::Pipe;
use rstest::rstest;
use std::collections::VecDeque;

use Phase::*;

const BBR2: CongestionControlAlgorithm =
    CongestionControlAlgorithm::Bbr2Gcongestion;

/// The saved capacity of most tests, in packets, and the jump.
const SAVED: usize = 400;
const JUMP: usize = SAVED / 2;

/// A download over a path of one RTT.
struct PacedDownload {
    sender: Sender,
    in_flight: VecDeque<(u64, Instant)>,
    /// The release time of each packet.
    released: Vec<Instant>,
    is_lost: fn(u64) -> bool,
    /// Whether packets leave at their release times.
    is_paced: bool,
    /// The last packet that the application has.
    last: u64,
    /// The last packet that was acknowledged.
    acked: u64,
    events: Vec<CarefulResumeEvent>,
    /// The largest window in safe retreat, after its first event.
    retreat_windows: Vec<usize>,
}

impl PacedDownload {
    fn new(saved: Option<usize>) -> Self {
        let config = Some(CarefulResumeConfig::default());
        let mut sender = Sender::with_config(BBR2, config, true);

        if let Some(saved) = saved {
            assert!(sender.careful_resume_from(saved));
        }

        PacedDownload {
            sender,
            in_flight: VecDeque::new(),
            released: vec![],
            is_lost: |_| false,
            is_paced: true,
            last: u64::MAX,
            acked: 0,
            events: vec![],
            retreat_windows: vec![],
        }
    }

    fn resumed() -> Self {
        Self::new(Some(SAVED))
    }

    fn bbr(&mut self) -> &mut GRecovery {
        match &mut self.sender.recovery {
            Recovery::GCongestion(recovery) => recovery,
            _ => unreachable!("BBR2"),
        }
    }

    fn has_left_startup(&mut self) -> bool {
        self.bbr().pacer.sender().has_left_startup()
    }

    /// Returns the pacing rate, in packets per RTT.
    fn pace(&mut self) -> usize {
        let bbr = self.bbr();
        let rate = bbr.pacer.pacing_rate(0, &bbr.rtt_stats);
        (rate.to_bytes_per_period(RTT) as usize + MDS / 2) / MDS
    }

    /// Returns the greatest bandwidth, in packets per RTT.
    fn bandwidth(&mut self) -> f64 {
        let bandwidth = self.bbr().pacer.max_bandwidth();
        bandwidth.to_bytes_per_period(RTT) as f64 / MDS as f64
    }

    /// Returns when the next packet leaves.
    fn next_release(&self) -> Option<Instant> {
        let (sender, now) = (&self.sender, self.sender.now);
        let release = sender.recovery.get_next_release_time().time(now);
        let may_send =
            sender.recovery.cwnd_available() >= MDS && sender.next <= self.last;
        may_send.then(|| release.filter(|_| self.is_paced).unwrap_or(now))
    }

    /// Does what is due next. False if nothing is.
    fn step(&mut self) -> bool {
        let release = self.next_release();
        let ack = self.in_flight.front().map(|(_, at)| *at);
        let timer = self.sender.recovery.loss_detection_timer();
        let due = [release, ack, timer.filter(|_| release.is_none())];

        let Some(now) = due.into_iter().flatten().min() else {
            return false;
        };
        self.sender.now = self.sender.now.max(now);

        if ack == Some(now) {
            let (pkt_num, _) = self.in_flight.pop_front().unwrap();
            self.sender.ack(pkt_num..pkt_num + 1);
            self.acked = pkt_num;
        } else if release == Some(now) {
            self.send();
        } else {
            let (status, now) = (HandshakeStatus::default(), self.sender.now);
            self.sender
                .recovery
                .on_loss_detection_timeout(status, now, "");
        }

        self.note();
        true
    }

    fn send(&mut self) {
        let (pkt_num, now) = (self.sender.next, self.sender.now);
        self.sender.send(1);
        self.released.push(now);

        // As the connection does.
        let is_limited = self.sender.next > self.last;
        self.sender.recovery.update_app_limited(is_limited);

        if !(self.is_lost)(pkt_num) {
            self.in_flight.push_back((pkt_num, now + RTT));
        }
    }

    fn note(&mut self) {
        let resume = self.sender.recovery.careful_resume_mut().unwrap();
        self.events
            .extend(std::iter::from_fn(|| resume.next_event()));

        if resume.phase() == SafeRetreat {
            self.retreat_windows.push(self.sender.recovery.cwnd());
        }
    }

    /// Goes on until the phase is `phase`.
    fn until(mut self, phase: Phase) -> Self {
        for _ in 0..100_000 {
            if self.phase() == phase {
                return self;
            }
            assert!(self.step(), "nothing happens in {:?}", self.phase());
        }
        panic!("never in {phase:?}, but in {:?}", self.phase());
    }

    fn wait(&mut self, time: Duration) {
        let end = self.sender.now + time;
        while self.sender.now < end && self.step() {}
    }

    fn phase(&self) -> Phase {
        let resume = self.sender.recovery.careful_resume();
        resume.unwrap().phase()
    }

    fn window(&self) -> usize {
        self.sender.window()
    }

    fn triggers(&self) -> Vec<(Phase, Trigger)> {
        let changes = self.events.iter();
        changes.filter_map(|e| Some((e.new, e.trigger?))).collect()
    }

    /// Returns the event that began a phase.
    fn event(&self, phase: Phase) -> &CarefulResumeEvent {
        let mut events = self.events.iter().filter(|e| e.trigger.is_some());
        events.find(|event| event.new == phase).unwrap()
    }
}

fn is_first_unvalidated_lost(pkt_num: u64) -> bool {
    (30..32).contains(&pkt_num)
}

/// F10 and C2: in Startup, to half of what was saved.
#[test]
fn bbr2_jumps_to_half_of_saved_window() {
    let flow = PacedDownload::resumed().until(Unvalidated);

    assert_eq!(flow.window(), JUMP);
    let jump = flow.event(Unvalidated);
    assert_eq!(jump.trigger, Some(Trigger::CongestionWindowLimited));
    assert_eq!(jump.congestion_window, JUMP * MDS);
    assert!(jump.pipe_size <= 2 * IW * MDS, "{}", jump.pipe_size);
}

/// F10: not after Startup.
#[test]
fn bbr2_does_not_jump_after_startup() {
    let mut flow = PacedDownload::resumed();
    flow.bbr().pacer.sender_mut().retreat(usize::MAX);
    flow.bbr().pacer.sender_mut().end_careful_resume();
    assert!(flow.has_left_startup());

    let flow = flow.until(Normal);
    assert_eq!(flow.triggers(), [(Normal, Trigger::SlowStartExit)]);
}

/// F10: the jump begins a round, which ends with its first packet, also if other
/// packets than the initial ones are in flight.
#[test]
fn bbr2_jumps_at_the_start_of_a_round() {
    let mut flow = PacedDownload::resumed();
    flow.last = IW as u64 - 1;
    while flow.acked < flow.last / 2 {
        flow.step();
    }
    flow.last = u64::MAX;
    (0..4).for_each(|_| flow.send());
    let mut flow = flow.until(Unvalidated);
    let round = |flow: &mut PacedDownload| flow.bbr().pacer.sender().rounds();
    let (first, before) = (flow.sender.next, round(&mut flow));

    while flow.acked < first {
        assert_eq!(round(&mut flow), before);
        flow.step();
    }
    assert_eq!(round(&mut flow), before + 1);
}

/// F10, C3 and C4: jump_cwnd per RTT.
#[test]
fn unvalidated_packets_leave_at_the_probing_rate() {
    let mut flow = PacedDownload::resumed().until(Unvalidated);
    assert_eq!(flow.pace(), JUMP);

    let first = flow.sender.next as usize;
    flow.wait(RTT * 9 / 10);
    let sent = &flow.released[first..];
    let took = sent[sent.len() - 1] - sent[0];
    let interval = RTT / JUMP as u32;

    assert!(sent.len() >= JUMP * 8 / 10, "{} packets", sent.len());
    assert!(
        took + interval * 3 >= interval * sent.len() as u32,
        "{took:?}"
    );
}

/// As with Reno and CUBIC: a thirty-second of the jump makes up for a late timer,
/// and nothing for a time without data.
#[rstest]
#[case::late(false, 4..=6)]
#[case::without_data(true, 1..=1)]
fn unvalidated_packets_that_are_late_leave_in_a_small_burst(
    #[case] is_pause: bool, #[case] expected: std::ops::RangeInclusive<usize>,
) {
    let mut flow = PacedDownload::resumed().until(Unvalidated);
    let first = flow.released.len();
    while flow.released.len() < first + 20 {
        assert!(flow.step());
    }
    if is_pause {
        flow.sender.recovery.on_nothing_to_send();
    }

    flow.sender.now += RTT / 4;
    let before = flow.released.len();
    while flow.next_release() == Some(flow.sender.now) {
        flow.send();
    }
    let burst = flow.released.len() - before;
    assert!(expected.contains(&burst), "{burst} of {JUMP}");
}

/// F10: two rounds, and the flag is cleared.
#[test]
fn flag_is_cleared_two_rounds_after_the_jump() {
    let flow = PacedDownload::resumed().until(Unvalidated);
    let jumped_at = flow.sender.now;

    let flow = flow.until(Validating);
    let took = flow.sender.now - jumped_at;
    assert!(took >= RTT * 9 / 10 && took <= RTT * 11 / 10, "{took:?}");

    let mut flow = flow.until(Normal);
    let took = flow.sender.now - jumped_at;
    assert!(took >= RTT * 18 / 10 && took <= RTT * 21 / 10, "{took:?}");
    let last = Trigger::LastUnvalidatedPacketAcknowledged;
    assert_eq!(flow.triggers()[2..], [(Normal, last)]);
    assert!(!flow.bbr().pacer.sender().flag().holds_startup());
    assert!(!flow.has_left_startup());
}

/// F10: the second round grows as slow start does, from what was in flight.
#[test]
fn validating_window_grows_to_twice_the_jump() {
    let mut flow = PacedDownload::resumed().until(Validating);
    let window = flow.window();
    assert!((JUMP * 9 / 10..=JUMP).contains(&window), "{window}");
    assert!(flow.pace() >= JUMP);

    let flow = flow.until(Normal);
    let window = flow.window();
    assert!((JUMP * 18 / 10..=JUMP * 2).contains(&window), "{window}");
}

/// A greater gain of Startup ends with the jump, also for the rounds after it.
#[test]
fn jump_takes_back_a_greater_startup_gain() {
    let pace_after_jump = |gain: Option<f32>| {
        let mut flow = PacedDownload::resumed();
        if let Some(gain) = gain {
            flow.bbr().pacer.sender_mut().set_startup_pacing_gain(gain);
        }
        let mut flow = flow.until(Normal);
        flow.wait(RTT);
        flow.pace()
    };

    assert_eq!(pace_after_jump(Some(5.0)), pace_after_jump(None));
    assert!(pace_after_jump(Some(2.0)) < pace_after_jump(None));
}

/// F10: the rounds of a jump do not end Startup.
#[test]
fn startup_lasts_as_long_as_the_flag_is_set() {
    let mut flow = PacedDownload::resumed();
    while flow.phase() != Normal {
        flow.step();
        assert!(!flow.has_left_startup(), "{:?}", flow.phase());
    }
}

/// F10: a rate below the nominal one is no jump.
#[test]
fn jump_below_the_nominal_rate_is_refused() {
    let flow = PacedDownload::new(Some(4 * IW)).until(Normal);
    assert_eq!(flow.triggers(), [(Normal, Trigger::JumpNotLarger)]);
}

/// F10, C8 and E2: Drain, with half of the pipe size.
#[test]
fn loss_while_resuming_makes_bbr2_drain() {
    let mut flow = PacedDownload::resumed();
    flow.is_lost = is_first_unvalidated_lost;
    let mut flow = flow.until(SafeRetreat);

    let retreat = *flow.event(SafeRetreat);
    assert_eq!(retreat.trigger, Some(Trigger::PacketLoss));
    assert!(retreat.congestion_window <= retreat.pipe_size / 2);
    assert!(flow.sender.recovery.cwnd() <= retreat.congestion_window);
    assert!(flow.has_left_startup());
}

/// C8: also a loss that a timer finds.
#[test]
fn loss_by_timer_while_resuming_is_a_retreat() {
    let mut flow = PacedDownload::resumed().until(Unvalidated);
    assert_eq!(flow.sender.next, IW as u64);
    flow.is_lost = |pkt_num| pkt_num == IW as u64;
    flow.last = IW as u64 + 1;
    while flow.sender.next <= flow.last {
        flow.step();
    }

    // Too late to find the loss by packets.
    flow.sender.wait(RTT * 8 / 10);
    flow.last += 2 * IW as u64;
    let flow = flow.until(SafeRetreat);
    assert_eq!(flow.acked, IW as u64 + 1);
    assert_eq!(flow.event(SafeRetreat).trigger, Some(Trigger::PacketLoss));
}

/// E3: no growth in safe retreat.
#[test]
fn window_of_bbr2_does_not_grow_in_retreat() {
    let mut flow = PacedDownload::resumed();
    flow.is_lost = is_first_unvalidated_lost;
    let flow = flow.until(SafeRetreat).until(Normal);
    let windows = &flow.retreat_windows;
    assert!(windows.len() > JUMP / 2, "{}", windows.len());
    assert!(windows.is_sorted_by(|before, after| before >= after));
}

/// E6 and E7: with the last packet of the jump, to half of the pipe size.
#[test]
fn startup_goes_on_after_a_retreat_up_to_ssthresh() {
    let mut flow = PacedDownload::resumed();
    flow.is_lost = is_first_unvalidated_lost;
    let mut flow = flow.until(SafeRetreat).until(Normal);
    let end = *flow.event(Normal);
    assert_eq!(end.trigger, Some(Trigger::ExitRecovery));
    assert_eq!(end.ssthresh, end.pipe_size / 2);
    assert!(end.ssthresh > JUMP * MDS / 4);
    assert!(!flow.has_left_startup());

    let mut largest = 0;
    while !flow.has_left_startup() {
        largest = largest.max(flow.sender.recovery.cwnd());
        flow.step();
    }
    assert_eq!(largest, end.ssthresh);
}

/// F9: what is delivered in Drain with the flag set tells no bandwidth.
#[test]
fn samples_in_drain_are_discarded_while_the_flag_is_set() {
    let mut flow = PacedDownload::resumed();
    flow.is_lost = is_first_unvalidated_lost;
    let mut flow = flow.until(SafeRetreat);
    let before = flow.bandwidth();
    let mut flow = flow.until(Normal);
    let pipe = flow.event(Normal).pipe_size - flow.event(SafeRetreat).pipe_size;
    assert!(pipe > JUMP * MDS / 2, "acknowledged in Drain");
    assert_eq!(flow.bandwidth(), before);

    flow.wait(RTT * 6);
    assert!(flow.bandwidth() > before);
}

/// C12: a jump that is not used.
#[test]
fn jump_that_is_not_used_leaves_the_pipe_size() {
    let mut flow = PacedDownload::resumed().until(Unvalidated);
    flow.last = flow.sender.next;
    let mut flow = flow.until(Normal);
    let end = *flow.event(Normal);
    assert_eq!(end.trigger, Some(Trigger::RateLimited));
    assert_eq!(end.congestion_window, end.pipe_size.max(IW * MDS));
    assert!(flow.pace() < JUMP, "{}", flow.pace());
}

/// B2: a loss before the jump is BBR's own matter.
#[test]
fn loss_in_reconnaissance_leaves_careful_resume() {
    let mut flow = PacedDownload::resumed();
    flow.is_lost = |pkt_num| pkt_num == 3;
    let mut flow = flow.until(Normal);
    assert_eq!(flow.triggers(), [(Normal, Trigger::PacketLoss)]);
    assert!(!flow.has_left_startup());
}

/// C7.
#[test]
fn path_change_in_a_jump_is_a_retreat() {
    let mut flow = PacedDownload::resumed().until(Unvalidated);
    let now = flow.sender.now;
    flow.sender
        .recovery
        .on_path_change(Epoch::Application, now, "");
    flow.note();
    assert_eq!(flow.phase(), SafeRetreat);
    assert_eq!(flow.event(SafeRetreat).trigger, Some(Trigger::PathChanged));
    assert!(flow.has_left_startup());
}

#[test]
fn new_port_in_a_jump_ends_it_without_a_retreat() {
    let mut flow = PacedDownload::resumed().until(Unvalidated);
    let now = flow.sender.now;
    flow.sender.recovery.careful_resume_on_rebinding(now);
    flow.note();
    assert_eq!(flow.triggers()[1..], [(Normal, Trigger::PathChanged)]);
    assert!(flow.window() < JUMP);
}

/// C3: an application that does not pace.
#[test]
fn bbr2_that_is_not_paced_neither_jumps_nor_saves() {
    let mut flow = PacedDownload::new(None);
    flow.is_paced = false;
    flow.wait(RTT * 20);
    let triggers = flow.triggers();
    assert!(
        triggers.iter().any(|(_, why)| *why == Trigger::NotPaced),
        "{triggers:?}"
    );
    let now = flow.sender.now;
    assert_eq!(flow.sender.recovery.path_state(now), None);
}

/// A3 and A4.
#[test]
fn bbr2_observes_what_was_acknowledged_in_an_rtt() {
    let mut flow = PacedDownload::new(None);
    flow.wait(RTT * 6);
    let observed = flow.sender.recovery.path_state(flow.sender.now).unwrap();
    let sent_per_rtt = observed.saved_cwnd as usize / MDS;
    assert!(observed.saved_rtt >= RTT && observed.saved_rtt < RTT * 11 / 10);
    assert!((40..2000).contains(&sent_per_rtt), "{sent_per_rtt}");
    assert!(observed.limited, "in Startup the window is the limit");
}

#[test]
fn bbr2_without_saved_parameters_is_as_without_careful_resume() {
    let mut flow = PacedDownload::new(None);
    flow.wait(RTT * 4);
    assert_eq!(flow.triggers(), [(Normal, Trigger::NoSavedSet)]);
    let window = flow.window();

    let mut off = Sender::with_config(BBR2, None, true);
    off.now = flow.sender.now - RTT * 4;
    assert!(off.recovery.careful_resume().is_none());
    assert!(window > 2 * IW, "{window}");
}

#[rstest]
fn connection_of_bbr2_resumes(#[values(false, true)] by_connection: bool) {
    let name = match by_connection {
        true => "bbr2_gcongestion",
        false => "bbr2_gcongestion+careful-resume",
    };
    let mut config = Pipe::default_config(name).unwrap();
    // Careful Resume requires pacing.
    config.enable_pacing(false);
    let mut pipe = Pipe::with_config(&mut config).unwrap();

    if by_connection {
        assert_eq!(pipe.server.careful_resume_phase(), Normal);
        pipe.server.set_careful_resume(Default::default()).unwrap();
    }

    assert_eq!(pipe.server.careful_resume_phase(), Reconnaissance);
    let path = pipe.server.paths.get_active().unwrap();
    let Recovery::GCongestion(bbr) = &path.recovery else {
        panic!("not BBR2")
    };
    assert!(bbr.pacer.is_enabled());
}

/// The experiment `early_jump`: a quarter of saved_cwnd over one RTT.
#[test]
fn early_jump_is_to_a_quarter() {
    let config = CarefulResumeConfig {
        early_jump: true,
        ..Default::default()
    };
    let mut sender = Sender::with_config(BBR2, Some(config), true);
    sender.send_in(Epoch::Initial);
    sender.wait(RTT);
    sender.ack_in(Epoch::Initial, 0..1, Duration::ZERO);

    sender.send(IW);
    assert!(sender.careful_resume_from(SAVED));
    assert_eq!((sender.phase(), sender.window()), (Unvalidated, SAVED / 4));
}
