//! Bottleneck for tests: a rate, a round-trip time that may swing, and a
//! buffer, with one sender that always has data but for its pauses.

use std::collections::VecDeque;
use std::time::Duration;
use std::time::Instant;

use crate::careful_resume::AfterJump;
use crate::careful_resume::CarefulResumeConfig;
use crate::careful_resume::Phase;
use crate::clock;
use crate::packet::Epoch;
use crate::path_state::PathState;
use crate::ranges::RangeSet;
use crate::recovery::careful_resume::test_sender::packet;
use crate::recovery::HandshakeStatus;
use crate::recovery::Recovery;
use crate::recovery::RecoveryOps;
use crate::recovery::Sent;
use crate::slow_start::SlowStartEnd;
use crate::slow_start::SlowStartExit;
use crate::Config;
use crate::CongestionControlAlgorithm;

pub(crate) const MDS: usize = 1200;
pub(crate) const RTT: Duration = Duration::from_millis(100);

/// The bandwidth-delay product of the path, in packets.
pub(crate) const BDP: usize = 1000;

#[derive(Clone, Copy)]
pub(crate) struct Setting {
    pub(crate) cc: CongestionControlAlgorithm,
    pub(crate) exit: SlowStartExit,
    /// Careful Resume, and the saved capacity in packets; 0 without one.
    pub(crate) careful_resume: Option<(CarefulResumeConfig, usize)>,
    /// In packets.
    pub(crate) bdp: usize,
    pub(crate) buffer: usize,
    /// By so much of it the RTT swings, with a period of 3.3 RTTs.
    pub(crate) swing: f64,
    /// The receiver's flow control, in packets: it allows as many from the last
    /// tenth on that has arrived.
    pub(crate) receive_window: Option<usize>,
}

impl Setting {
    pub(crate) fn new(cc: CongestionControlAlgorithm, exit: &str) -> Self {
        Setting {
            cc,
            exit: exit.parse().unwrap(),
            careful_resume: None,
            bdp: BDP,
            buffer: BDP,
            swing: 0.0,
            receive_window: None,
        }
    }

    /// The sender has a saved capacity of this many packets, and slow start
    /// goes on after the jump as the exit has it.
    pub(crate) fn resumed(self, saved: usize) -> Self {
        self.resumed_with(saved, AfterJump::None)
    }

    pub(crate) fn with_nothing_saved(self) -> Self {
        self.resumed(0)
    }

    pub(crate) fn resumed_with(
        self, saved: usize, after_jump: AfterJump,
    ) -> Self {
        let config = CarefulResumeConfig {
            after_jump,
            ..Default::default()
        };
        Setting {
            careful_resume: Some((config, saved)),
            ..self
        }
    }
}

/// A sender, and its path.
pub(crate) struct Flow {
    setting: Setting,
    pub(crate) recovery: Recovery,
    start: Instant,
    pub(crate) now: Instant,
    next: u64,
    /// Nothing is sent until then.
    pub(crate) paused_until: Instant,
    /// When the bottleneck has sent all that it holds.
    busy_until: Instant,
    /// Numbers and arrival of the ACKs under way.
    acks: VecDeque<(Instant, u64)>,
    pub(crate) dropped: usize,
    pub(crate) acked: usize,
    /// When the window first held as much as the path.
    pub(crate) full: Option<Instant>,
    /// The longest queue so far, in packets.
    pub(crate) queue_max: usize,
}

impl Flow {
    pub(crate) fn new(setting: Setting) -> Self {
        let mut config = Config::new(crate::PROTOCOL_VERSION).unwrap();
        config.set_cc_algorithm(setting.cc);
        config.set_max_send_udp_payload_size(MDS);
        config.set_slow_start_exit(setting.exit).unwrap();
        config.set_reno_cubic_pacing(true);
        if let Some((resume, _)) = setting.careful_resume {
            config.set_careful_resume(resume).unwrap();
        }
        let now = clock::now() + Duration::from_secs(1);

        let mut flow = Flow {
            setting,
            recovery: Recovery::new(&config),
            start: now,
            now,
            next: 0,
            paused_until: now,
            busy_until: now,
            acks: VecDeque::new(),
            dropped: 0,
            acked: 0,
            full: None,
            queue_max: 0,
        };
        if let Some((_, saved @ 1..)) = setting.careful_resume {
            flow.careful_resume_from(saved);
        }
        flow
    }

    /// Time that the bottleneck needs for the queue of other flows.
    pub(crate) fn others_queue(&mut self, queue: Duration) {
        self.busy_until = self.busy_until.max(self.now + queue);
    }

    /// Drops this number of packets in flight.
    pub(crate) fn lose(&mut self, packets: usize) {
        self.acks.drain(..packets);
    }

    fn careful_resume_from(&mut self, saved: usize) {
        let observed = clock::wall_now();
        let state = PathState {
            saved_cwnd: (saved * MDS) as u64,
            saved_rtt: RTT,
            observed,
            expires: observed + Duration::from_secs(3600),
            limited: false,
            validated: false,
        };
        let jump_before = self.now + Duration::from_secs(60);
        assert!(self
            .recovery
            .careful_resume_from(state, jump_before, self.now));
    }

    /// Runs for a number of RTTs, or until `stop`.
    pub(crate) fn run(&mut self, rtts: f64, stop: impl Fn(&Flow) -> bool) {
        let end = self.now + RTT.mul_f64(rtts);

        while self.now < end && !stop(self) {
            let release = self.send();
            let ack = self.acks.front().map(|(at, _)| *at);
            let timer = self.recovery.loss_detection_timer();
            let pause = Some(self.paused_until).filter(|at| *at > self.now);

            let next = [release, ack, timer, pause];
            self.now = next
                .into_iter()
                .flatten()
                .min()
                .unwrap_or(end)
                .max(self.now);
            if timer.is_some_and(|at| at <= self.now) {
                let status = HandshakeStatus::default();
                self.recovery
                    .on_loss_detection_timeout(status, self.now, "");
            }
            self.acknowledge();

            let window = self.recovery.cwnd() / MDS;
            if window >= self.setting.bdp {
                self.full.get_or_insert(self.now);
            }
        }
    }

    /// Sends what may go. Returns when more may.
    fn send(&mut self) -> Option<Instant> {
        while self.now >= self.paused_until && self.is_allowed() {
            let release = self.recovery.get_next_release_time();
            if let Some(at) = release.time(self.now) {
                return Some(at);
            }
            if self.recovery.cwnd_available() < MDS {
                self.recovery.update_app_limited(false);
                return None;
            }

            let number = self.next;
            self.next += 1;
            let sent = Sent {
                ..packet(number, MDS, self.now)
            };
            let status = HandshakeStatus::default();
            self.recovery.on_packet_sent(
                sent,
                Epoch::Application,
                status,
                self.now,
                "",
            );
            for epoch in [Epoch::Initial, Epoch::Handshake, Epoch::Application] {
                self.recovery.ping_sent(epoch);
            }
            if self.recovery.is_limited_by_pacing() {
                self.recovery.update_app_limited(false);
            }
            self.cross(number);
        }

        self.recovery.update_app_limited(true);
        None
    }

    fn is_allowed(&self) -> bool {
        let Some(window) = self.setting.receive_window else {
            return true;
        };
        let step = window / 10;
        self.next < (self.acked / step * step + window) as u64
    }

    fn cross(&mut self, number: u64) {
        let service = RTT / self.setting.bdp as u32;
        let queue = self.busy_until.saturating_duration_since(self.now);
        let queued = (queue.as_nanos() / service.as_nanos()) as usize;
        self.queue_max = self.queue_max.max(queued);

        if queued >= self.setting.buffer.max(20) {
            self.dropped += 1;
            return;
        }

        self.busy_until = self.busy_until.max(self.now) + service;
        let after = self.acks.back().map_or(self.now, |(at, _)| *at);
        let at = (self.busy_until + self.rtt()).max(after);
        self.acks.push_back((at, number));
    }

    fn rtt(&self) -> Duration {
        let time = self.rtts(self.now);
        let swing =
            self.setting.swing * (time / 3.3 * std::f64::consts::TAU).sin();
        RTT.mul_f64(1.0 + swing)
    }

    fn acknowledge(&mut self) {
        while self.acks.front().is_some_and(|(at, _)| *at <= self.now) {
            let Some((_, number)) = self.acks.pop_front() else {
                return;
            };
            let mut ranges = RangeSet::default();
            ranges.insert(number..number + 1);
            let status = HandshakeStatus::default();
            self.recovery
                .on_ack_received(
                    &ranges,
                    0,
                    Epoch::Application,
                    status,
                    self.now,
                    None,
                    "",
                )
                .unwrap();
            self.acked += 1;
        }
    }

    /// RTTs since the start.
    pub(crate) fn rtts(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.start).as_secs_f64() / RTT.as_secs_f64()
    }

    pub(crate) fn end(&self) -> Option<SlowStartEnd> {
        self.recovery.slow_start().and_then(|s| s.stats().end)
    }

    pub(crate) fn is_conservative(&self) -> bool {
        let stats = self.recovery.slow_start().map(|s| s.stats());
        stats.is_some_and(|stats| stats.conservative_since.is_some())
    }

    pub(crate) fn phase(&self) -> Phase {
        self.recovery
            .careful_resume()
            .map_or(Phase::Normal, |r| r.phase())
    }

    /// In packets.
    pub(crate) fn window(&self) -> usize {
        self.recovery.cwnd() / MDS
    }
}
