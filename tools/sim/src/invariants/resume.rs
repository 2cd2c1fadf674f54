//! Rules of one connection's Careful Resume.

use std::time::Duration;

use quiche::careful_resume::CarefulResumeEvent;
use quiche::careful_resume::Phase;
use quiche::slow_start::SlowStartStats;

use super::pacing::PacingRule;
use super::pacing::PROBE_PACKETS;
use super::phases::PhaseRule;
use super::pipe::PipeRule;
use super::rule::check;
use super::rule::Rule;
use super::rule::Violation;
use super::window;
use super::window::WindowRule;

/// View of a connection after an event.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    pub now: Duration,
    pub phase: Phase,
    /// Congestion window, in bytes.
    pub window: usize,
    pub pipe_size: usize,
    pub jump_cwnd: Option<usize>,
    /// Of the connection: the current one is not less.
    pub min_rtt: Duration,
    pub slow_start: SlowStartStats,
    /// In all.
    pub sent_bytes: u64,
    /// Of `sent_bytes`, at the client.
    pub arrived_bytes: u64,
    /// In all.
    pub probe_timeouts: usize,
}

/// The rules of one connection.
#[derive(Debug)]
pub struct ResumeRules {
    packet_bytes: usize,
    max_jump: usize,
    /// Whether timers of the sender are late.
    is_late: bool,
    /// Saved window that it was given for the jump.
    saved_cwnd: Option<u64>,
    /// Before the last event.
    window_before: usize,
    /// After the last event, if it left the connection in unvalidated.
    unvalidated: Option<SlowStartStats>,
    windows: WindowRule,
    phases: PhaseRule,
    pipe: Option<PipeRule>,
    pacing: Option<PacingRule>,
}

impl ResumeRules {
    /// Creates the rules of a connection with packets of `packet_bytes`, and the operator's limit.
    pub fn new(packet_bytes: usize, max_jump: usize) -> Self {
        Self {
            packet_bytes,
            max_jump,
            is_late: false,
            saved_cwnd: None,
            window_before: usize::MAX,
            unvalidated: None,
            windows: WindowRule::new(packet_bytes),
            phases: PhaseRule::default(),
            pipe: None,
            pacing: None,
        }
    }

    /// Lets a sender whose timers are late catch up.
    pub fn late(self, is_late: bool) -> Self {
        Self { is_late, ..self }
    }

    /// Notes that the connection was given saved parameters.
    pub fn on_given(&mut self, saved_cwnd: u64) {
        self.saved_cwnd = Some(saved_cwnd);
    }

    /// Checks a change of phase.
    ///
    /// # Errors
    ///
    /// A rule was broken.
    pub fn on_event(&mut self, event: &CarefulResumeEvent) -> Result<(), Violation> {
        self.phases.on_event(event)?;
        if event.new == Phase::SafeRetreat {
            self.windows.on_retreat(event.congestion_window, event.pipe_size)?;
        }
        if event.old == Some(Phase::SafeRetreat) {
            let window = event.congestion_window;
            self.windows.on_retreat_end(window, event.ssthresh, event.pipe_size)?;
        }
        if event.new == Phase::Unvalidated {
            let saved_cwnd = self.saved_cwnd.unwrap_or(0);
            window::check_jump(event.congestion_window, saved_cwnd, self.max_jump)?;
        }
        Ok(())
    }

    /// Checks the state after each event, until Careful Resume is over.
    ///
    /// # Errors
    ///
    /// A rule was broken.
    pub fn on_state(&mut self, seen: &Observation) -> Result<(), Violation> {
        self.windows.on_state(seen.phase, seen.window, seen.jump_cwnd)?;
        self.check_unvalidated(seen)?;
        if seen.phase == Phase::SafeRetreat {
            self.windows.on_retreat(seen.window, seen.pipe_size)?;
        }
        if let Some(jump_cwnd) = seen.jump_cwnd {
            window::check_jump(jump_cwnd, self.saved_cwnd.unwrap_or(0), self.max_jump)?;
            self.on_jumped(jump_cwnd, seen)?;
        }
        self.window_before = seen.window;
        Ok(())
    }

    fn check_unvalidated(&mut self, seen: &Observation) -> Result<(), Violation> {
        let now = Some(seen.slow_start).filter(|_| seen.phase == Phase::Unvalidated);
        let before = std::mem::replace(&mut self.unvalidated, now);
        let changed = before.zip(now).is_some_and(|(before, now)| before != now);
        check(!changed, Rule::UnvalidatedExit, || format!("{now:?} after {before:?}"))
    }

    fn on_jumped(&mut self, jump_cwnd: usize, seen: &Observation) -> Result<(), Violation> {
        match &mut self.pipe {
            // One event may have jumped and ended the phase again: then it is
            // not the pipe size of the jump any more.
            None if seen.phase != Phase::Unvalidated => (),
            None => {
                let window = self.window_before;
                let probes = seen.probe_timeouts * PROBE_PACKETS * self.packet_bytes;
                self.pipe = Some(PipeRule::new(seen.pipe_size, window, probes, seen.sent_bytes)?);
            }
            Some(_) if seen.phase == Phase::Normal => (),
            Some(pipe) => pipe.on_state(seen.pipe_size, seen.sent_bytes, seen.arrived_bytes)?,
        }
        if seen.phase != Phase::Unvalidated {
            self.pacing = None;
            return Ok(());
        }
        let (packet_bytes, timeouts) = (self.packet_bytes, seen.probe_timeouts);
        let is_late = self.is_late;
        self.pacing
            .get_or_insert_with(|| {
                let rule =
                    PacingRule::new(jump_cwnd, seen.min_rtt, packet_bytes, timeouts, seen.now);
                if is_late {
                    rule.late()
                } else {
                    rule
                }
            })
            .on_probe_timeouts(timeouts);
        Ok(())
    }

    /// Checks the window, in bytes, when Careful Resume is over.
    ///
    /// # Errors
    ///
    /// It is below the floor.
    pub fn on_window(&self, window: usize) -> Result<(), Violation> {
        self.windows.on_window(window)
    }

    /// Checks a packet that was made in the unvalidated phase.
    ///
    /// # Errors
    ///
    /// It leaves too early.
    pub fn on_sent(&mut self, bytes: usize, now: Duration) -> Result<(), Violation> {
        self.pacing.as_mut().map_or(Ok(()), |pacing| pacing.on_sent(bytes, now))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use quiche::careful_resume::Trigger;

    pub fn event(old: Option<Phase>, new: Phase, trigger: Option<Trigger>) -> CarefulResumeEvent {
        CarefulResumeEvent {
            time: quiche::clock::now(),
            old,
            new,
            trigger,
            pipe_size: 13_500,
            congestion_window: 100_000,
            ssthresh: usize::MAX,
            first_unvalidated_packet: None,
            last_unvalidated_packet: None,
            restored: None,
        }
    }

    const SEEN: Observation = Observation {
        now: Duration::from_millis(100),
        phase: Phase::Reconnaissance,
        window: 13_500,
        pipe_size: 0,
        jump_cwnd: None,
        min_rtt: Duration::from_millis(100),
        slow_start: SlowStartStats { conservative_since: None, end: None },
        sent_bytes: 15_000,
        arrived_bytes: 15_000,
        probe_timeouts: 0,
    };

    const JUMPED: Observation = Observation {
        phase: Phase::Unvalidated,
        window: 100_000,
        pipe_size: 13_500,
        jump_cwnd: Some(100_000),
        ..SEEN
    };

    /// Returns a connection that jumped to half of what was saved.
    fn jumped() -> ResumeRules {
        let mut rules = ResumeRules::new(1350, 1 << 20);
        rules.on_given(200_000);
        let given = event(None, Phase::Reconnaissance, None);
        let why = Some(Trigger::CongestionWindowLimited);
        let jump = event(Some(Phase::Reconnaissance), Phase::Unvalidated, why);
        rules.on_event(&given).unwrap();
        rules.on_state(&SEEN).unwrap();
        rules.on_event(&jump).unwrap();
        rules.on_state(&JUMPED).unwrap();
        rules
    }

    #[test]
    fn rules_check_every_observation() {
        for (seen, rule) in [
            (Observation { window: 100_001, ..JUMPED }, Rule::UnvalidatedWindow),
            (Observation { jump_cwnd: Some(120_000), ..JUMPED }, Rule::JumpBound),
            (Observation { pipe_size: 13_499, ..JUMPED }, Rule::PipeSize),
            (Observation { window: 1350, ..JUMPED }, Rule::WindowFloor),
            (Observation { phase: Phase::SafeRetreat, ..JUMPED }, Rule::RetreatWindow),
        ] {
            assert_eq!(jumped().on_state(&seen).unwrap_err().rule, rule);
        }
    }

    #[test]
    fn slow_start_does_not_end_in_unvalidated() {
        let conservative_since = Some(quiche::clock::now());
        let slow_start = SlowStartStats { conservative_since, end: None };
        let seen = Observation { slow_start, ..JUMPED };
        assert_eq!(jumped().on_state(&seen).unwrap_err().rule, Rule::UnvalidatedExit);
        let later = Observation { phase: Phase::Validating, ..seen };
        assert_eq!(jumped().on_state(&later), Ok(()));
    }

    #[test]
    fn jump_is_compared_with_saved_parameters() {
        let mut rules = ResumeRules::new(1350, 1 << 20);
        rules.on_given(199_999);
        let why = Some(Trigger::CongestionWindowLimited);
        rules.on_event(&event(None, Phase::Reconnaissance, None)).unwrap();
        let jump = event(Some(Phase::Reconnaissance), Phase::Unvalidated, why);
        assert_eq!(rules.on_event(&jump).unwrap_err().rule, Rule::JumpBound);
    }

    #[test]
    fn packets_are_paced_while_unvalidated_only() {
        let mut rules = jumped();
        let burst = |rules: &mut ResumeRules| {
            (0..9).find_map(|_| rules.on_sent(1350, SEEN.now).err()).map(|v| v.rule)
        };
        assert_eq!(burst(&mut rules), Some(Rule::Pacing));
        rules.on_state(&Observation { phase: Phase::Validating, ..JUMPED }).unwrap();
        assert_eq!(burst(&mut rules), None);
    }

    #[test]
    fn retreat_is_compared_with_the_pipe() {
        let loss = Some(Trigger::PacketLoss);
        let retreat = event(Some(Phase::Unvalidated), Phase::SafeRetreat, loss);
        assert_eq!(jumped().on_event(&retreat).unwrap_err().rule, Rule::RetreatWindow);

        let mut rules = jumped();
        let right = CarefulResumeEvent { congestion_window: 6750, ..retreat };
        rules.on_event(&right).unwrap();
        let why = Some(Trigger::ExitRecovery);
        let exit = event(Some(Phase::SafeRetreat), Phase::Normal, why);
        assert_eq!(rules.on_event(&exit).unwrap_err().rule, Rule::RetreatThreshold);
    }
}
