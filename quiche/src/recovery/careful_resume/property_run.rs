//! Property-test run: one event sequence through recovery, a twin without
//! Careful Resume, and the oracle.
//!
//! The oracle tells the twin what Careful Resume would do to it. After every
//! event all three must agree.

use super::oracle::ControllerView;
use super::oracle::Oracle;
use super::oracle::Order;
use super::oracle::SavedSet;
use super::property_ledger::Ledger;
use super::property_ledger::Packet;
use super::property_ledger::Persistent;
use super::property_ledger::Report;
use super::test_sender::legacy;
use super::test_sender::packet;
use super::*;
use crate::clock;
use crate::packet::Epoch;
use crate::ranges::RangeSet;
use crate::recovery::congestion::Congestion;
use crate::recovery::HandshakeStatus;
use crate::recovery::Recovery;
use crate::recovery::RecoveryConfig;
use crate::recovery::RecoveryOps;
use crate::recovery::Sent;
use crate::CongestionControlAlgorithm;

pub(super) const MDS: usize = 1200;

/// Fails the case with a message unless the condition holds.
macro_rules! check {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err(format!($($message)+));
        }
    };
}

/// Fails the case unless both are equal.
macro_rules! check_eq {
    ($engine:expr, $expected:expr, $what:expr) => {{
        let (engine, expected) = (&$engine, &$expected);
        check!(
            engine == expected,
            "{}: the recovery has {engine:?}, expected is {expected:?}",
            $what
        );
    }};
}

pub(super) type Checked = Result<(), String>;

/// A phase that was entered, and why.
pub(super) type Seen = (Phase, Option<Trigger>);

/// Settings of a case.
#[derive(Clone, Copy, Debug)]
pub(super) struct CaseSetting {
    pub(super) cc: CongestionControlAlgorithm,
    pub(super) is_paced: bool,
    pub(super) initial_packets: usize,
    pub(super) max_jump: usize,
    pub(super) has_ceiling: bool,
    pub(super) rtt: Duration,
}

pub(super) struct Run {
    pub(super) setting: CaseSetting,
    config: RecoveryConfig,
    clock: clock::Simulation,
    pub(super) engine: Recovery,
    twin: Recovery,
    pub(super) oracle: Oracle,
    pub(super) ledger: Ledger,
    pub(super) now: Instant,
    app_limited: bool,
    /// The phase that freezes the window, and the window, in bytes.
    frozen: Option<(Phase, usize)>,
    /// The controller has seen no congestion since the retreat.
    is_after_retreat: bool,
    has_lost_after_retreat: bool,
    /// Whether persistent congestion ended a jump. From then on the twin, which
    /// learns of the jump's threshold after the ACK, is another sender.
    pub(super) has_collapsed: bool,
    pub(super) seen: Vec<Seen>,
}

impl Run {
    pub(super) fn new(setting: CaseSetting, base: RecoveryConfig) -> Self {
        let wall_offset = Duration::from_secs(1_000_000_000);
        let clock = clock::Simulation::start(0, wall_offset);
        let config = RecoveryConfig {
            cc_algorithm: setting.cc,
            max_send_udp_payload_size: MDS,
            initial_congestion_window_packets: setting.initial_packets,
            ..base
        };
        let resume = CarefulResumeConfig {
            max_jump: setting.max_jump,
            after_jump: match setting.has_ceiling {
                true => AfterJump::Ceiling,
                false => AfterJump::None,
            },
            ..Default::default()
        };
        let initial_window = setting.initial_packets * MDS;

        Run {
            setting,
            config,
            engine: recovery(&RecoveryConfig {
                careful_resume: Some(resume),
                reno_cubic_pacing: setting.is_paced,
                ..config
            }),
            twin: recovery(&config),
            oracle: Oracle::new(
                MDS,
                initial_window,
                setting.max_jump,
                setting.has_ceiling,
            ),
            ledger: Ledger::new(config.initial_rtt),
            now: clock::now(),
            clock,
            app_limited: false,
            frozen: None,
            is_after_retreat: false,
            has_lost_after_retreat: false,
            has_collapsed: false,
            seen: vec![],
        }
    }

    pub(super) fn wait(&mut self, time: Duration) {
        self.wait_until(self.now + time);
    }

    pub(super) fn wait_until(&mut self, time: Instant) {
        let ahead = time.saturating_duration_since(self.now);
        self.now += ahead;
        self.clock.advance_to(self.clock.elapsed() + ahead);
    }

    /// The application has nothing queued, or something again.
    pub(super) fn set_app_limited(&mut self, app_limited: bool) {
        self.app_limited = app_limited;
        self.engine.update_app_limited(app_limited);
        self.twin.update_app_limited(app_limited);
    }

    pub(super) fn careful_resume_from(
        &mut self, saved_cwnd: usize, saved_rtt: Duration, lifetime: Duration,
        claim: Duration, limited: bool,
    ) -> Checked {
        let observed = clock::wall_now();
        let state = PathState {
            saved_cwnd: saved_cwnd as u64,
            saved_rtt,
            observed,
            expires: observed + lifetime,
            limited,
            validated: false,
        };
        let jump_before = self.now + claim;
        let is_taken =
            self.engine
                .careful_resume_from(state, jump_before, self.now);
        let expected = self.oracle.given(SavedSet {
            saved_cwnd,
            saved_rtt,
            expires: self.now + lifetime,
            jump_before,
            limited,
        });

        check_eq!(is_taken, expected, "saved parameters are taken");
        self.obey(None);
        self.compare()
    }

    /// Sends one packet, if the window lets it go.
    pub(super) fn send(
        &mut self, size: usize, in_flight: bool, is_mtu_probe: bool,
    ) -> Checked {
        if self.setting.is_paced {
            let release = self.engine.get_next_release_time();
            self.wait_until(release.time(self.now).unwrap_or(self.now));
        }

        let number = self.ledger.packets.len() as u64;
        let packet = |time| sent(number, size, in_flight, is_mtu_probe, time);
        let status = HandshakeStatus::default();
        let space = Epoch::Application;
        let is_probing = self.engine.loss_probes(space) > 0;
        self.engine
            .on_packet_sent(packet(self.now), space, status, self.now, "");

        let time = match in_flight {
            true => self.engine.get_packet_send_time(self.now),
            false => self.now,
        };
        self.twin
            .on_packet_sent(packet(time), space, status, time, "");
        if is_probing && in_flight {
            self.engine.ping_sent(space);
            self.twin.ping_sent(space);
        }
        self.set_app_limited(self.app_limited);

        self.ledger.sent(Packet {
            time_sent: time,
            size,
            in_flight,
            is_mtu_probe,
            is_acked: false,
            time_lost: None,
        });
        if in_flight {
            let path = ControllerView {
                now: time,
                ..self.path()
            };
            let order = self.oracle.sent(number, is_mtu_probe, &path);
            self.obey(order);
        }
        self.compare()
    }

    pub(super) fn ack(&mut self, ranges: &RangeSet) -> Checked {
        let engine = receive(&mut self.engine, ranges, self.now);
        let rttvar = self.engine.rttvar();
        let report = self.ledger.acked(ranges, self.now, rttvar);
        check_eq!(engine.0, report.acked_bytes, "bytes acknowledged");
        check_eq!(engine.1, report.lost_bytes, "bytes lost");

        self.oracle.acknowledged(
            &report.acked,
            report.acked_bytes,
            report.rtt_sample,
        );
        let (now, app_limited) = (self.now, self.app_limited);
        self.lose(&report, |twin, holds_window| {
            // The controllers do not grow the window of a limited application.
            twin.update_app_limited(app_limited || holds_window);
            receive(twin, ranges, now);
            twin.update_app_limited(app_limited);
        });

        if let Some(largest) = report.acked.last() {
            let order = self.oracle.after_ack(*largest, &self.path());
            self.obey(order);
        }
        self.compare()
    }

    pub(super) fn fire_timer(&mut self) -> Checked {
        let Some(time) = self.engine.loss_detection_timer() else {
            return Ok(());
        };
        self.wait_until(time);

        let (now, status) = (self.now, HandshakeStatus::default());
        let lost = self.engine.on_loss_detection_timeout(status, now, "");
        let rttvar = self.engine.rttvar();
        let report = self.ledger.timed_out(now, rttvar);
        check_eq!(lost.lost_bytes, report.lost_bytes, "bytes lost");
        self.lose(&report, |twin, _| {
            twin.on_loss_detection_timeout(status, now, "");
        });
        self.compare()
    }

    pub(super) fn change_path(&mut self) -> Checked {
        let (now, space) = (self.now, Epoch::Application);
        let (_, lost_bytes) = self.engine.on_path_change(space, now, "");
        let order = self.oracle.path_changed();
        self.obey(order);

        let rttvar = self.engine.rttvar();
        let report = self.ledger.path_changed(now, rttvar);
        check_eq!(lost_bytes, report.lost_bytes, "bytes lost");
        self.lose(&report, |twin, _| {
            twin.on_path_change(space, now, "");
        });
        self.compare()
    }

    /// The twin handles an event that may have told of losses.
    fn lose(&mut self, report: &Report, event: impl FnOnce(&mut Recovery, bool)) {
        let (mut order, mut end) = (None, None);
        let mut is_persistent = false;
        if report.lost_bytes > 0 {
            self.has_lost_after_retreat |= self.is_after_retreat;
            self.is_after_retreat = false;
            order = self.oracle.congested(Trigger::PacketLoss);
            is_persistent = self.is_persistent(report);
            if is_persistent {
                end = self.oracle.persistently_congested();
            }
        }

        let was = self.twin.cwnd();
        if let Some(Order::Retreat { pipe_size, .. }) = order {
            // The controller reacts to the capacity, not to the jump.
            legacy(&mut self.twin).congestion.congestion_window =
                pipe_size.min(was);
        }
        if report.lost_bytes > 0 {
            legacy(&mut self.twin).answer_first_loss();
        }
        event(&mut self.twin, self.oracle.holds_window());
        if let Some(Order::Retreat { .. }) = order {
            let congestion = &mut legacy(&mut self.twin).congestion;
            let reacted = congestion.congestion_window;
            congestion.congestion_window = reacted.min(was);
        }
        self.has_collapsed = is_persistent && (order.is_some() || end.is_some());
        self.obey(order);
        self.obey(end);
        if is_persistent {
            // The window collapses, and afterwards the ACK lets it grow.
            let (_, ssthresh) = self.state_of(&self.twin);
            for step in &mut self.oracle.steps {
                step.state = Some((2 * MDS, ssthresh));
            }
        }
    }

    /// Whether the losses count as persistent; if RFC 9002 leaves it open, as
    /// the engine decided.
    fn is_persistent(&self, report: &Report) -> bool {
        match report.persistent {
            Persistent::No => false,
            Persistent::Yes => true,
            Persistent::Arguably => {
                let is_one = |e: &CarefulResumeEvent| {
                    e.trigger == Some(Trigger::PersistentCongestion)
                };
                self.new_events().iter().any(is_one)
            },
        }
    }

    /// The phase changes of this event.
    fn new_events(&self) -> &[CarefulResumeEvent] {
        let resume = self.engine.careful_resume().unwrap();
        resume.events.pending()
    }

    fn obey(&mut self, order: Option<Order>) {
        let ssthresh = self.new_events().last().map(|e| e.ssthresh);
        let was = self.twin.cwnd();
        let congestion = &mut legacy(&mut self.twin).congestion;

        let is_order = order.is_some();
        match order {
            None => (),
            Some(Order::Window(window)) => congestion.congestion_window = window,
            Some(Order::Retreat { window, .. }) => {
                congestion.congestion_window = window.min(was);
                // No proportional rate reduction, and nothing to undo.
                congestion.prr = Default::default();
                (congestion.cc_ops.checkpoint)(congestion);
                congestion.hystart.switch_off();
                self.is_after_retreat = true;
            },
            Some(Order::Ssthresh(most)) => {
                // How much less than that it is, the RFC leaves open.
                let ssthresh = ssthresh.unwrap_or(most).min(most);
                set_ssthresh(congestion, ssthresh, self.config);
            },
        }
        // Before slow start has ended, and nowhere else.
        legacy(&mut self.twin).set_ceiling(self.oracle.ceiling());
        // HyStart++'s samples of the jump do not count.
        let is_new = self.oracle.steps.iter().any(|s| s.new == Phase::Validating);
        if is_new && is_order {
            let min_rtt = self.twin.min_rtt();
            legacy(&mut self.twin)
                .congestion
                .hystart
                .start_over(min_rtt);
        }
        self.note_state(is_order);
    }

    /// What the twin has become by the steps since the last call is the state
    /// after them, and by an order, the state after the step that gave it.
    fn note_state(&mut self, is_order: bool) {
        let state = self.state_of(&self.twin);
        for step in &mut self.oracle.steps {
            step.state.get_or_insert(state);
        }
        if let Some(step) = self.oracle.steps.last_mut().filter(|_| is_order) {
            step.state = Some(state);
        }
    }

    /// Window and threshold, in bytes. No window is below two packets, so that
    /// a threshold there acts as any lower one.
    fn state_of(&self, recovery: &Recovery) -> (usize, usize) {
        let c = self.conditions_of(recovery);
        (c.cwnd, c.ssthresh.max(2 * MDS))
    }

    fn conditions_of(&self, recovery: &Recovery) -> Conditions {
        let Recovery::Legacy(legacy) = recovery else {
            unreachable!("Reno and CUBIC")
        };
        legacy.careful_resume_conditions(self.now)
    }

    fn path(&self) -> ControllerView {
        ControllerView {
            now: self.now,
            window: self.twin.cwnd(),
            flight_size: self.ledger.flight_size,
            app_limited: self.app_limited,
            has_left_slow_start: self
                .conditions_of(&self.twin)
                .has_left_slow_start,
        }
    }

    /// Everything that must hold after an event.
    fn compare(&mut self) -> Checked {
        self.compare_steps()?;

        let window = self.engine.cwnd();
        let resume = self.engine.careful_resume().unwrap();
        let oracle = &self.oracle;
        check_eq!(resume.phase(), oracle.phase(), "phase");
        if self.has_collapsed {
            return Ok(());
        }
        let (engine, twin) =
            (self.state_of(&self.engine), self.state_of(&self.twin));
        check_eq!(engine, twin, "congestion window and threshold");
        check!(window >= 2 * MDS, "a window of {window} bytes");
        check!(oracle.jumps <= 1, "a second jump");

        let flight_size = self.engine.bytes_in_flight();
        check_eq!(flight_size, self.ledger.flight_size, "flight size");
        check_eq!(self.engine.rtt(), self.ledger.smoothed_rtt, "smoothed RTT");

        if !matches!(oracle.phase(), Phase::Normal | Phase::Reconnaissance) {
            check_eq!(resume.stats().pipe_size, oracle.pipe_size, "pipe size");
        }

        // C6, E3. On leaving the unvalidated phase the window is set (C12,
        // C13).
        if let Some((phase, frozen)) = self.frozen {
            let is_given = phase == Phase::Unvalidated && oracle.phase() != phase;
            check!(
                window <= frozen || is_given,
                "a frozen window grew to {window}"
            );
        }
        self.frozen = oracle.holds_window().then_some((oracle.phase(), window));

        self.compare_available()
    }

    fn compare_available(&self) -> Checked {
        let available = self.engine.cwnd_available();
        let expected = self.twin.cwnd_available();
        let open = self.engine.cwnd().saturating_sub(self.ledger.flight_size);

        match (expected, self.oracle.phase()) {
            (usize::MAX, _) => check_eq!(available, usize::MAX, "probing"),
            // E8.
            (_, Phase::SafeRetreat) => check_eq!(available, open, "available"),
            _ if self.is_after_retreat => {
                check!(
                    available <= open,
                    "{available} bytes available, of {open} at most"
                );
            },
            _ if self.has_lost_after_retreat => (),
            _ => check_eq!(available, expected, "available"),
        }
        Ok(())
    }

    fn compare_steps(&mut self) -> Checked {
        let resume = self.engine.careful_resume_mut().unwrap();
        let events: Vec<_> = std::iter::from_fn(|| resume.next_event()).collect();
        let steps = std::mem::take(&mut self.oracle.steps);
        let list = |e: &CarefulResumeEvent| (e.old, e.new, e.trigger);
        let happened: Vec<_> = events.iter().map(list).collect();

        check!(
            happened.len() == steps.len(),
            "phases: the recovery has {happened:?}, expected is {steps:?}"
        );
        for (event, step) in events.iter().zip(&steps) {
            let is_right = match event.trigger {
                Some(trigger) => step.triggers.contains(&trigger),
                None => step.triggers.is_empty(),
            };
            check!(
                is_right && (event.old, event.new) == (step.old, step.new),
                "phases: the recovery has {happened:?}, expected is {steps:?}"
            );
            check_legal(event)?;
            let state = (event.congestion_window, event.ssthresh.max(2 * MDS));
            check_eq!(
                Some(state),
                step.state,
                "window and threshold in an event"
            );
            self.seen.push((event.new, event.trigger));
        }
        Ok(())
    }
}

/// The table of the qlog draft, and the triggers of our own.
fn check_legal(event: &CarefulResumeEvent) -> Checked {
    use Phase::*;
    use Trigger::*;

    let Some((old, trigger)) = event.old.zip(event.trigger) else {
        check_eq!((event.old, event.trigger), (None, None), "saved parameters");
        return Ok(());
    };
    let is_legal = match trigger {
        CongestionWindowLimited => {
            (old, event.new) == (Reconnaissance, Unvalidated)
        },
        RttNotValidated | NoSavedSet | LifetimePassed | ClaimLapsed
        | JumpNotLarger => (old, event.new) == (Reconnaissance, Normal),
        LastUnvalidatedPacketSent
        | FirstUnvalidatedPacketAcknowledged
        | RttExceeded => (old, event.new) == (Unvalidated, Validating),
        RateLimited => (old, event.new) == (Unvalidated, Normal),
        LastUnvalidatedPacketAcknowledged => {
            (old, event.new) == (Validating, Normal)
        },
        PathChanged => matches!(
            (old, event.new),
            (Unvalidated, SafeRetreat) | (Reconnaissance | Validating, Normal)
        ),
        PacketLoss | EcnCe => matches!(
            (old, event.new),
            (Unvalidated | Validating, SafeRetreat) | (Reconnaissance, Normal)
        ),
        ExitRecovery => (old, event.new) == (SafeRetreat, Normal),
        PersistentCongestion => old != Normal && event.new == Normal,
        SlowStartExit => (old, event.new) == (Reconnaissance, Normal),
        // Every packet waits for its release time.
        NotPaced => false,
        // No dry run is made, and no early jump.
        DryRun | HandshakeAcknowledged => false,
    };
    check!(
        is_legal,
        "illegal: {old:?} to {:?} by {trigger:?}",
        event.new
    );

    // E7.
    if old == SafeRetreat {
        check!(
            event.ssthresh <= (event.pipe_size / 2).max(2 * MDS),
            "ssthresh {} at exit, of a pipe size of {}",
            event.ssthresh,
            event.pipe_size
        );
    }
    Ok(())
}

fn recovery(config: &RecoveryConfig) -> Recovery {
    Recovery::new_with_config(config)
}

/// Bytes acknowledged and lost.
fn receive(
    recovery: &mut Recovery, ranges: &RangeSet, now: Instant,
) -> (usize, usize) {
    let (space, status) = (Epoch::Application, HandshakeStatus::default());
    let outcome = recovery
        .on_ack_received(ranges, 0, space, status, now, None, "")
        .unwrap();

    (outcome.acked_bytes, outcome.lost_bytes)
}

fn sent(
    number: u64, size: usize, in_flight: bool, is_pmtud_probe: bool, now: Instant,
) -> Sent {
    Sent {
        ack_eliciting: in_flight,
        in_flight,
        has_data: in_flight && !is_pmtud_probe,
        is_pmtud_probe,
        ..packet(number, size, now)
    }
}

/// The threshold has no setter: it is taken from another controller, which
/// reacts to a loss at twice that window.
fn set_ssthresh(
    congestion: &mut Congestion, ssthresh: usize, base: RecoveryConfig,
) {
    let mut donor = Congestion::from_config(&RecoveryConfig {
        cc_algorithm: CongestionControlAlgorithm::Reno,
        max_send_udp_payload_size: 1,
        ..base
    });
    donor.congestion_window = ssthresh * 2;
    let now = clock::now();
    let lost = sent(0, 1, true, false, now);
    (donor.cc_ops.congestion_event)(&mut donor, 0, 1, &lost, now);

    congestion.ssthresh = std::mem::take(&mut donor.ssthresh);
}
