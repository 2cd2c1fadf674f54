//! Applications that send packets early, and such that only seem to, over one
//! bottleneck.

use super::super::test_sender::packet;
use super::super::test_sender::MDS;
use super::super::*;
use super::*;
use crate::clock;
use crate::clock::Simulation;
use crate::packet::Epoch;
use crate::rand::rand_u64_uniform;
use crate::ranges::RangeSet;
use crate::recovery::HandshakeStatus;
use crate::recovery::Recovery;
use crate::recovery::RecoveryOps;
use crate::CongestionControlAlgorithm;
use crate::CongestionControlAlgorithm::Reno;
use crate::CongestionControlAlgorithm::CUBIC;
use rstest::rstest;

/// For each controller.
const CASES: u64 = 500;

const NEVER: Duration = Duration::from_secs(3600);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// When an application builds a packet, and when it leaves.
#[derive(Clone, Copy, Debug)]
enum Application {
    /// Builds packets up to so long before their release times, and holds them
    /// until then (`SendInfo::at`).
    Holds { ahead: Duration },

    /// Builds packets up to so long before their release times; they leave at
    /// once.
    Hurries { ahead: Duration },
}

#[derive(Clone, Copy, Debug)]
struct WatchedSetting {
    cc: CongestionControlAlgorithm,
    application: Application,
    rtt: Duration,
    /// Bandwidth-delay product and buffer, in packets.
    bdp: u32,
    buffer: u32,
    /// The clock and the timers of the sender advance in these steps.
    tick: Duration,
    /// The longest time that the receiver delays an ACK, which it reports or
    /// not.
    ack_delay: Duration,
    is_reported: bool,
    /// The longest time by which a packet's RTT exceeds the path's.
    jitter: Duration,
    /// Saved capacity, in packets; 0 without one.
    saved: u32,
    /// When the RTT becomes this share of itself.
    shrinks: (Duration, f64),
}

impl WatchedSetting {
    fn new(cc: CongestionControlAlgorithm, application: Application) -> Self {
        WatchedSetting {
            cc,
            application,
            rtt: ms(100),
            bdp: 500,
            buffer: 500,
            tick: Duration::from_nanos(1),
            ack_delay: Duration::ZERO,
            is_reported: true,
            jitter: Duration::ZERO,
            saved: 0,
            shrinks: (NEVER, 1.0),
        }
    }

    fn random(cc: CongestionControlAlgorithm) -> Self {
        let up_to = |most: u64| rand_u64_uniform(most + 1);
        let holds = match up_to(2) {
            0 => Duration::ZERO,
            1 => ms(up_to(8)),
            _ => NEVER,
        };

        let rtt = ms(2 + up_to(10) * up_to(60));

        WatchedSetting {
            cc,
            application: match up_to(1) {
                0 => Application::Holds { ahead: holds },
                _ => Application::Hurries {
                    ahead: ms(up_to(2)),
                },
            },
            rtt,
            bdp: 20 + up_to(1000) as u32,
            buffer: 20 + up_to(1000) as u32,
            tick: Duration::from_micros(1 + up_to(2000)),
            ack_delay: ms(up_to(25)),
            is_reported: up_to(1) == 0,
            jitter: ms(up_to(30)),
            saved: up_to(1) as u32 * 600,
            shrinks: match holds {
                NEVER => (NEVER, 1.0),
                _ => (rtt * up_to(12) as u32, up_to(1000) as f64 / 1000.0),
            },
        }
    }

    fn unpaced(cc: CongestionControlAlgorithm) -> Self {
        WatchedSetting::new(cc, Application::Hurries { ahead: NEVER })
    }
}

/// A sender that always has data, and its path.
struct WatchedFlow {
    setting: WatchedSetting,
    recovery: Recovery,
    start: Instant,
    now: Instant,
    next: u64,
    /// When the last packet that was built leaves.
    departure: Instant,
    busy_until: Instant,
    /// Arrival, number and delay of the ACKs under way.
    acks: VecDeque<(Instant, u64, Duration)>,
    dropped: usize,
}

impl WatchedFlow {
    fn new(setting: WatchedSetting) -> Self {
        let mut config = crate::Config::new(crate::PROTOCOL_VERSION).unwrap();
        config.set_cc_algorithm(setting.cc);
        config.set_max_send_udp_payload_size(MDS);
        config
            .set_careful_resume(CarefulResumeConfig::default())
            .unwrap();
        let start = clock::now() + Duration::from_secs(1);

        let mut flow = WatchedFlow {
            setting,
            recovery: Recovery::new(&config),
            start,
            now: start,
            next: 0,
            departure: start,
            busy_until: start,
            acks: VecDeque::new(),
            dropped: 0,
        };
        if setting.saved > 0 {
            flow.careful_resume_from(setting.saved);
        }
        flow
    }

    fn careful_resume_from(&mut self, saved: u32) {
        let observed = clock::wall_now();
        let state = PathState {
            saved_cwnd: saved as u64 * MDS as u64,
            saved_rtt: self.setting.rtt,
            observed,
            expires: observed + NEVER,
            limited: false,
            validated: false,
        };
        let jump_before = self.start + NEVER;
        let now = self.clock();
        assert!(self.recovery.careful_resume_from(state, jump_before, now));
    }

    /// Runs for this number of RTTs.
    fn run(&mut self, rtts: u32) {
        let end = self.now + self.setting.rtt * rtts;

        while self.now < end {
            let wake = self.send();
            let ack = self.acks.front().map(|(at, ..)| *at);
            let timer = self.recovery.loss_detection_timer();
            let next = [wake, ack, timer].into_iter().flatten().min();

            self.now = next.unwrap_or(end).max(self.now);
            // A timer fires at the next tick, which a deadline may be.
            if ack.is_none_or(|ack| self.now < ack) {
                self.now = self.now.max(self.clock_at(self.now, true));
            }
            self.fire_timer();
            self.acknowledge();
        }
    }

    /// What the sender's clock says.
    fn clock(&self) -> Instant {
        self.clock_at(self.now, false)
    }

    fn clock_at(&self, at: Instant, rounded_up: bool) -> Instant {
        let tick = self.setting.tick.as_nanos() as u64;
        let time = (at - self.start).as_nanos() as u64;
        let ticks = match rounded_up {
            true => time.div_ceil(tick),
            false => time / tick,
        };
        self.start + Duration::from_nanos(ticks * tick)
    }

    /// Builds what may be built. Returns when more may.
    fn send(&mut self) -> Option<Instant> {
        let (ahead, is_held) = match self.setting.application {
            Application::Holds { ahead } => (ahead, true),
            Application::Hurries { ahead } => (ahead, false),
        };
        let now = self.clock();

        while self.recovery.cwnd_available() >= MDS {
            let release = self.recovery.get_next_release_time().time(now);
            if let Some(release) = release.filter(|at| *at > now + ahead) {
                return Some(release - ahead);
            }

            let number = self.next;
            self.next += 1;
            let status = HandshakeStatus::default();
            let sent = packet(number, MDS, now);
            self.recovery.on_packet_sent(
                sent,
                Epoch::Application,
                status,
                now,
                "",
            );
            self.recovery.ping_sent(Epoch::Application);

            let release = self.recovery.get_packet_send_time(now);
            let earliest = if is_held { release } else { self.now };
            self.departure = self.departure.max(earliest).max(self.now);
            self.cross(number);
        }

        self.recovery.on_nothing_to_send();
        self.recovery.update_app_limited(false);
        None
    }

    fn cross(&mut self, number: u64) {
        let WatchedSetting { bdp, shrinks, .. } = self.setting;
        let service = self.setting.rtt / bdp;
        let rtt = match self.departure < self.start + shrinks.0 {
            true => self.setting.rtt,
            false => self.setting.rtt.mul_f64(shrinks.1),
        };
        let queue = self.busy_until.saturating_duration_since(self.departure);
        if queue > service * self.setting.buffer {
            self.dropped += 1;
            return;
        }

        self.busy_until = self.busy_until.max(self.departure) + service;
        let some = |most: Duration| {
            Duration::from_nanos(rand_u64_uniform(most.as_nanos() as u64 + 1))
        };
        let delay = some(self.setting.ack_delay);
        let at = self.busy_until + rtt + delay + some(self.setting.jitter);
        let last = self.acks.back().map_or(at, |(at, ..)| *at);
        self.acks.push_back((at.max(last), number, delay));
    }

    fn acknowledge(&mut self) {
        while self.acks.front().is_some_and(|(at, ..)| *at <= self.now) {
            let Some((_, number, delay)) = self.acks.pop_front() else {
                return;
            };
            let delay = if self.setting.is_reported {
                delay
            } else {
                ms(0)
            };
            let mut ranges = RangeSet::default();
            ranges.insert(number..number + 1);
            self.recovery
                .on_ack_received(
                    &ranges,
                    delay.as_micros() as u64,
                    Epoch::Application,
                    HandshakeStatus::default(),
                    self.clock(),
                    None,
                    "",
                )
                .unwrap();
        }
    }

    fn fire_timer(&mut self) {
        let (now, status) = (self.clock(), HandshakeStatus::default());
        let timer = self.recovery.loss_detection_timer();
        if timer.is_some_and(|at| at <= now) {
            self.recovery.on_loss_detection_timeout(status, now, "");
        }
    }

    fn is_unpaced(&self) -> bool {
        let resume = self.recovery.careful_resume();
        resume.is_some_and(|resume| resume.pacing_watch.is_unpaced())
    }

    /// Takes the phases entered since the last call, and why.
    fn triggers(&mut self) -> Vec<(Phase, Option<Trigger>)> {
        let resume = self.recovery.careful_resume_mut().unwrap();
        std::iter::from_fn(|| resume.next_event())
            .map(|event| (event.new, event.trigger))
            .collect()
    }
}

/// C3: what an application measures that does not pace is not saved.
#[rstest]
fn slow_start_without_pacing_is_noticed(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values(60, 100, 600)] rtt_ms: u64, #[values(200, 500, 2500)] bdp: u32,
    #[values(0, 2)] ack_delay_ms: u64,
) {
    let mut flow = WatchedFlow::new(WatchedSetting {
        rtt: ms(rtt_ms),
        bdp,
        buffer: bdp,
        ack_delay: ms(ack_delay_ms),
        ..WatchedSetting::unpaced(cc)
    });
    flow.run(6);

    assert!(flow.is_unpaced(), "{} packets", flow.next);
    flow.run(10);
    assert_eq!(flow.recovery.path_state(flow.now), None);
    let last = (Phase::Normal, Some(Trigger::NotPaced));
    assert_eq!(flow.triggers().last(), Some(&last));
}

/// C3: a jump that leaves at once ends in a retreat, although nothing is lost.
#[rstest]
fn jump_without_pacing_retreats(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
    #[values(30, 100, 600)] rtt_ms: u64,
) {
    let mut flow = WatchedFlow::new(WatchedSetting {
        rtt: ms(rtt_ms),
        saved: 500,
        ..WatchedSetting::unpaced(cc)
    });
    flow.run(4);

    assert_eq!(flow.dropped, 0);
    let triggers = flow.triggers();
    let retreat = (Phase::SafeRetreat, Some(Trigger::NotPaced));
    assert!(triggers.contains(&retreat), "{triggers:?}");
    assert!(triggers.iter().any(|(new, _)| *new == Phase::Unvalidated));
    assert_eq!(flow.recovery.path_state(flow.now), None);
}

/// B4: what is noticed before the jump refuses it.
#[rstest]
fn proof_in_reconnaissance_refuses_the_jump(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    let mut flow = WatchedFlow::new(WatchedSetting {
        saved: 500,
        ..WatchedSetting::unpaced(cc)
    });
    let now = flow.now;
    let Recovery::Legacy(legacy) = &flow.recovery else {
        unreachable!("Reno and CUBIC")
    };
    let c = legacy.careful_resume_conditions(now);
    let resume = flow.recovery.careful_resume_mut().unwrap();

    assert_eq!(resume.on_not_paced(&c), Action::Keep);
    assert_eq!(resume.phase(), Phase::Normal);
    flow.run(4);
    let triggers = flow.triggers();
    assert_eq!(triggers[1], (Phase::Normal, Some(Trigger::NotPaced)));
    assert!(triggers.iter().all(|(new, _)| *new != Phase::Unvalidated));
}

/// An application paces that waits, or holds packets, or looks two milliseconds
/// ahead: whatever the clock, the path and the receiver do. If it looks ahead by
/// 8 ms at most, the path may also become shorter.
#[rstest]
fn random_paths_accuse_no_pacing_application(
    #[values(Reno, CUBIC)] cc: CongestionControlAlgorithm,
) {
    for seed in 0..CASES {
        let _time = Simulation::start(seed, Duration::from_secs(1_000_000));
        let mut flow = WatchedFlow::new(WatchedSetting::random(cc));
        flow.run(20);
        assert!(!flow.is_unpaced(), "{seed}: {:?}", flow.setting);
    }
}

/// A watch whose RTT is known, and the time at which it began.
fn watch(rtt: Duration) -> (PacingWatch, Instant) {
    let (mut watch, start) = (PacingWatch::default(), clock::now());
    watch.on_packet_sent(0, start, start);
    assert!(!watch.on_acked(0..1, Duration::ZERO, start + rtt));
    (watch, start + rtt)
}

/// Builds packets at one time whose leads are an eighth of `rtt` apart.
/// `delivered` is the time to the ACK of a packet with this lead.
fn is_found(
    rtt: Duration, packets: u32, ack_delay: Duration,
    delivered: impl Fn(Duration) -> Duration,
) -> bool {
    let (mut watch, start) = watch(rtt);
    let leads = (1..=packets).map(|i| rtt * i / 8);

    for (pkt_num, lead) in (1..).zip(leads.clone()) {
        watch.on_packet_sent(pkt_num, start, start + lead);
    }

    (1..).zip(leads).any(|(pkt_num, lead)| {
        let now = start + delivered(lead);
        watch.on_acked(pkt_num..pkt_num + 1, ack_delay, now)
    })
}

#[test]
fn shorter_path_is_no_early_packet() {
    let (rtt, none) = (ms(100), Duration::ZERO);

    assert!(is_found(rtt, 8, none, |_| rtt));
    assert!(!is_found(rtt, 8, none, |lead| rtt + lead));
    // The path has become shorter by a third, or by two.
    assert!(!is_found(rtt, 8, none, |lead| rtt * 2 / 3 + lead));
    assert!(!is_found(rtt, 8, none, |lead| rtt / 3 + lead));
}

#[test]
fn few_or_slightly_early_packets_prove_nothing() {
    let (rtt, none) = (ms(100), Duration::ZERO);

    // Five leads, of which four exceed an eighth of the RTT.
    assert!(is_found(rtt, 5, none, |_| rtt));
    assert!(!is_found(rtt, 4, none, |_| rtt));
    // A queue delays what left early.
    assert!(is_found(rtt, 16, none, |lead| rtt + lead / 2));
    assert!(!is_found(rtt, 16, none, |lead| rtt + lead * 7 / 8));
    // Too short to tell.
    assert!(!is_found(ms(8), 8, none, |_| ms(8)));
}

#[test]
fn reported_ack_delay_accuses_nobody() {
    let rtt = ms(100);

    // The peer says that it delays ACKs by more than it does.
    assert!(!is_found(rtt, 8, ms(60), |lead| rtt + lead));
    // It does so by what it says.
    assert!(is_found(rtt, 16, ms(60), |_| rtt + ms(60)));
}

/// RFC 9002, 7.5: probes do not wait.
#[rstest]
fn probes_prove_nothing(#[values(Reno, CUBIC)] cc: CongestionControlAlgorithm) {
    let mut flow = WatchedFlow::new(WatchedSetting::unpaced(cc));
    flow.run(2);
    let marks = |flow: &WatchedFlow| {
        let resume = flow.recovery.careful_resume().unwrap();
        resume.pacing_watch.marks.len()
    };
    let (marked, sent) = (marks(&flow), flow.next);
    assert!(marked > 0);

    let timer = flow.recovery.loss_detection_timer().unwrap();
    let status = HandshakeStatus::default();
    flow.recovery.on_loss_detection_timeout(status, timer, "");
    flow.now = timer;
    assert!(flow.recovery.loss_probes(Epoch::Application) > 0);
    for _ in 0..2 {
        let sent = packet(flow.next, MDS, flow.now);
        flow.recovery.on_packet_sent(
            sent,
            Epoch::Application,
            status,
            flow.now,
            "",
        );
        flow.next += 1;
    }

    assert_eq!((marks(&flow), flow.next), (marked, sent + 2));
}

#[test]
fn marks_in_flight_are_limited() {
    let (mut watch, start) = watch(ms(100));

    for pkt_num in 1..10_000 {
        let release = start + ms(100) * pkt_num as u32;
        watch.on_packet_sent(pkt_num, start, release);
    }
    assert_eq!(watch.marks.len(), MARKS_MAX);

    // A later ACK makes room: what is not acknowledged by then is lost.
    assert!(!watch.on_acked(9999..10_000, ms(0), start + NEVER));
    assert_eq!(watch.marks.len(), 0);
}

#[test]
fn log_has_the_warning_once() {
    warn_not_paced();
    assert!(!warn_not_paced());
}
