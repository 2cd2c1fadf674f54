//! Careful Resume (RFC 9959): a sender that remembers a path jumps to half the
//! capacity it saw there, checks that the path took it, and retreats if not.
//!
//! [`CarefulResume`] owns the phase. It is a pure state machine: an event and the
//! [`Conditions`] on the path go in, one [`Action`] comes out, which the
//! recovery applies in one place. It performs no I/O, reads no clock, and
//! knows neither Reno nor CUBIC. Where parameter sets are kept is the business
//! of [`path_state`]; the release times of packets, of `pacing`.
//!
//! Packets must leave at their release times (RFC 9959, 3.3): an application
//! that enables Careful Resume asks [`get_next_release_time()`] before each
//! [`send()`], or delays packets to [`SendInfo.at`]. One that does neither
//! bursts the whole jump into the path.
//!
//! [`path_state`]: crate::path_state
//! [`get_next_release_time()`]: crate::Connection::get_next_release_time
//! [`send()`]: crate::Connection::send
//! [`SendInfo.at`]: crate::SendInfo::at

mod admit;
mod after_jump;
mod config;
mod connection;
mod current_rtt;
mod delivery;
mod events;
mod growth_limit;
mod jump;
mod normal;
mod observer;
mod phase;
mod reconnaissance;
mod safe_retreat;
mod state;
mod unvalidated;
mod validating;

use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

pub(crate) use self::after_jump::SoftGrowth;
pub use self::config::AfterJump;
pub use self::config::CarefulResumeConfig;
pub use self::config::UnknownAfterJump;
use self::events::EventLog;
use self::growth_limit::GrowthLimit;
use self::normal::Normal;
pub(crate) use self::observer::Acknowledged;
pub(crate) use self::observer::FlightLimit;
use self::observer::Observer;
pub use self::phase::CarefulResumeEvent;
pub use self::phase::CarefulResumeStats;
pub use self::phase::Phase;
pub use self::phase::SendLimit;
pub use self::phase::Trigger;
use self::safe_retreat::SafeRetreat;
use self::state::State;
use self::state::Transition;
use crate::path_state::PathState;
use crate::recovery::pacing::Pace;
use crate::recovery::RecoveryConfig;

/// The state of the path and its controller when an event happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions {
    pub(crate) now: Instant,
    /// Congestion window, in bytes.
    pub(crate) cwnd: usize,
    /// Slow-start threshold, in bytes.
    pub(crate) ssthresh: usize,
    /// Bytes in flight, after the event.
    pub(crate) flight_size: usize,
    /// Initial window, in bytes.
    pub(crate) initial_window: usize,
    pub(crate) max_datagram_size: usize,
    /// The RTT, smoothed.
    pub(crate) rtt: Duration,
    /// The minimum RTT of the last five minutes; None before the first sample.
    pub(crate) min_rtt: Option<Duration>,
    /// The congestion window, not the application, holds data back.
    pub(crate) window_limited: bool,
    /// Slow start is over, or in its conservative form.
    pub(crate) has_left_slow_start: bool,
}

/// What the controller must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing.
    Keep,

    /// Set the window, in bytes, for the jump; pacing starts afresh.
    Jump { window: usize },

    /// Set the window, in bytes.
    SetWindow { window: usize },

    /// Set the window, in bytes; what ends slow start looks at the path anew.
    Validate { window: usize },

    /// Reduce at once: the controller reacts as if its window had been
    /// `pipe_size`, and then has `window` at most, in bytes.
    Retreat { pipe_size: usize, window: usize },

    /// Set the slow-start threshold, in bytes.
    EndRetreat { ssthresh: usize },
}

/// The state machine of one path's Careful Resume.
#[derive(Debug)]
pub(crate) struct CarefulResume {
    config: CarefulResumeConfig,
    state: State,
    growth_limit: GrowthLimit,
    observer: Observer,
    events: EventLog,
}

impl CarefulResume {
    pub(crate) fn from_config(config: &RecoveryConfig) -> Option<Self> {
        config.careful_resume.map(Self::new)
    }

    pub(in crate::recovery) fn new(config: CarefulResumeConfig) -> Self {
        CarefulResume {
            config,
            state: State::Reconnaissance(Default::default()),
            growth_limit: GrowthLimit::None,
            observer: Observer::default(),
            events: EventLog::default(),
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state.phase()
    }

    pub(crate) fn stats(&self) -> CarefulResumeStats {
        let jump = self.state.jump();

        CarefulResumeStats {
            phase: self.phase(),
            pipe_size: jump.map_or(0, |jump| jump.pipe_size),
            jump_cwnd: jump.map(|jump| jump.cwnd),
        }
    }

    /// Takes saved parameters. Returns false when they come too late.
    pub(crate) fn offer(
        &mut self, saved: PathState, jump_before: Instant, wall_now: SystemTime,
        c: &Conditions,
    ) -> bool {
        let State::Reconnaissance(phase) = &mut self.state else {
            return false;
        };
        let is_taken = phase.offer(saved, jump_before, wall_now, c.now);

        if is_taken {
            self.push_event(None, None, Some(saved), c);
            self.settle(c.cwnd, c.ssthresh);
        }

        is_taken
    }

    /// Whether a jump may still follow, with saved parameters that are there.
    pub(crate) fn may_jump(&self) -> bool {
        match &self.state {
            State::Reconnaissance(phase) => phase.saved().is_some(),
            _ => false,
        }
    }

    /// Whether the window must not grow now: not in unvalidated (RFC 9959,
    /// 3.3), and not in safe retreat (RFC 9959, 3.5).
    pub(crate) fn holds_window(&self) -> bool {
        matches!(self.state, State::Unvalidated(_) | State::SafeRetreat(_))
    }

    /// Returns where slow start ends until the path shows more of its capacity,
    /// in bytes.
    pub(crate) fn ceiling(&self) -> Option<usize> {
        self.growth_limit.ceiling()
    }

    /// Returns what limits the growth of a window that has jumped; None before the
    /// jump is validated, in whole or in part.
    pub(crate) fn soft_growth(&mut self) -> Option<&mut SoftGrowth> {
        match self.state {
            State::Validating(_) | State::Normal(_) => {
                self.growth_limit.soft_mut()
            },
            _ => None,
        }
    }

    /// Whether the growth of the window is, or will be, limited after a jump.
    pub(crate) fn limits_growth(&self) -> bool {
        self.growth_limit.soft().is_some()
    }

    /// Whether the connection has jumped, however that ended.
    pub(crate) fn has_jumped(&self) -> bool {
        self.state.jump().is_some()
    }

    /// Whether the window was reduced last by the safe retreat.
    pub(crate) fn last_reduction_was_retreat(&self) -> bool {
        match &self.state {
            State::SafeRetreat(_) => true,
            State::Normal(Normal::Retreated {
                is_last_reduction, ..
            }) => *is_last_reduction,
            _ => false,
        }
    }

    /// The controller has reduced its window by itself. In safe retreat that
    /// is still part of the retreat.
    pub(crate) fn on_reduced(&mut self) {
        if let State::Normal(Normal::Retreated {
            is_last_reduction, ..
        }) = &mut self.state
        {
            *is_last_reduction = false;
        }
    }

    /// The controller has answered what happened, and the action: an event tells
    /// the state after that.
    pub(crate) fn settle(&mut self, cwnd: usize, ssthresh: usize) {
        self.events.settle(cwnd, ssthresh);
    }

    /// What happened `now` has changed more since.
    pub(crate) fn settle_again(
        &mut self, cwnd: usize, ssthresh: usize, now: Instant,
    ) {
        self.events.settle_again(cwnd, ssthresh, now);
    }

    /// Returns the pace that the unvalidated phase demands.
    pub(crate) fn pace(&self) -> Option<Pace> {
        match &self.state {
            State::Unvalidated(phase) => Some(phase.pace()),
            _ => None,
        }
    }

    /// Whether the ACK of the next packet may bring the jump: the peer should
    /// not hold it back.
    pub(crate) fn needs_prompt_ack(&self) -> bool {
        match &self.state {
            State::Reconnaissance(phase) => phase.needs_prompt_ack(),
            _ => false,
        }
    }

    /// A packet of the application's data space is in flight; `c` counts it.
    pub(crate) fn on_packet_sent(
        &mut self, pkt_num: u64, is_mtu_probe: bool, c: &Conditions,
    ) -> Action {
        let transition = match &mut self.state {
            State::Reconnaissance(phase) => {
                phase.on_packet_sent(pkt_num, is_mtu_probe, c);
                None
            },
            State::Unvalidated(phase) => phase.on_packet_sent(pkt_num, c),
            State::Validating(phase) => {
                phase.jump.on_packet_sent(pkt_num);
                None
            },
            State::SafeRetreat(_) | State::Normal(_) => None,
        };

        self.change_phase(transition, c)
    }

    /// An RTT sample of the application's packets, without the peer's delay.
    pub(crate) fn on_rtt_sample(&mut self, rtt: Duration) {
        if let State::Reconnaissance(phase) = &mut self.state {
            phase.on_rtt_sample(rtt);
        }
    }

    /// These packets were acknowledged; `bytes` of them were in flight. To be
    /// called before losses are looked for, so that the pipe size is the latest
    /// when one is found (RFC 9959, 3.3 to 3.5).
    pub(crate) fn on_acked(
        &mut self, pkt_nums: impl Iterator<Item = u64>, bytes: usize,
    ) {
        match &mut self.state {
            State::Reconnaissance(phase) => {
                pkt_nums.for_each(|pkt_num| phase.on_acked(pkt_num))
            },
            State::Unvalidated(phase) => phase.jump.on_acked(bytes),
            State::Validating(phase) => phase.jump.on_acked(bytes),
            State::SafeRetreat(phase) => phase.jump.on_acked(bytes),
            State::Normal(_) => (),
        }
    }

    /// What the ACK tells of the path, in every phase. To be called before
    /// `after_ack()`. `min_rtt` is the minimum RTT of the last five minutes;
    /// `limit` is what decides how much is in flight.
    #[inline]
    pub(crate) fn observe(
        &mut self, acked: &Acknowledged, min_rtt: Option<Duration>,
        limit: FlightLimit, now: Instant,
    ) {
        // RFC 9959, 4.1: at the ceiling the window is that of the connection
        // before.
        let limit = match self.growth_limit {
            GrowthLimit::Ceiling(_) => limit.max(FlightLimit::Growth),
            _ => limit,
        };

        if let Some(min_rtt) = min_rtt {
            self.observer.on_ack(acked, min_rtt, limit, now);
        }
    }

    /// Slow start ended because the path showed its capacity.
    pub(crate) fn on_slow_start_exit(&mut self) {
        self.growth_limit = GrowthLimit::None;
        self.observer.on_congestion();
    }

    /// The ACK is processed, and its bytes are no longer in flight.
    pub(crate) fn after_ack(
        &mut self, acked: &Acknowledged, c: &Conditions,
    ) -> Action {
        let transition = match &self.state {
            State::Reconnaissance(phase) => phase.after_ack(&self.config, c),
            State::Unvalidated(phase) => phase.after_ack(acked, c),
            State::SafeRetreat(phase) => phase.after_ack(acked),
            State::Validating(_) | State::Normal(_) => None,
        };
        let action = self.change_phase(transition, c);

        // One ACK may begin the validating phase, and end it.
        if let State::Validating(phase) = &self.state {
            let transition = phase.after_ack(acked);
            self.change_phase(transition, c);
        }

        action
    }

    /// Congestion was detected: `trigger` tells how. To be called before the
    /// controller answers it.
    pub(crate) fn on_congestion(
        &mut self, trigger: Trigger, c: &Conditions,
    ) -> Action {
        self.growth_limit = GrowthLimit::None;

        let transition = match &self.state {
            // RFC 9959, 3.2: leave Careful Resume; the controller answers.
            State::Reconnaissance(phase) => {
                self.observer.on_congestion();
                Some(phase.leave(trigger))
            },

            // RFC 9959, 3.3 and 3.4: even though the lost packet may have been
            // sent before the jump.
            State::Unvalidated(phase) => {
                Some(SafeRetreat::enter(phase.jump, trigger, c))
            },
            State::Validating(phase) => {
                Some(SafeRetreat::enter(phase.jump, trigger, c))
            },

            State::SafeRetreat(_) => None,

            State::Normal(_) => {
                self.observer.on_congestion();
                None
            },
        };

        self.change_phase(transition, c)
    }

    /// RFC 9959, 3.6: persistent congestion ends Careful Resume. To be called
    /// after `on_congestion()`, which made a retreat of a jump.
    pub(crate) fn on_persistent_congestion(&mut self, c: &Conditions) -> Action {
        let trigger = Trigger::PersistentCongestion;

        let transition = match &self.state {
            State::Normal(_) => None,
            State::SafeRetreat(phase) => Some(phase.leave(trigger)),
            state => Some(state.end(trigger)),
        };

        self.change_phase(transition, c)
    }

    /// The local stack uses another path from now on.
    pub(crate) fn on_path_change(&mut self, c: &Conditions) -> Action {
        self.growth_limit = GrowthLimit::None;

        let trigger = Trigger::PathChanged;

        let transition = match &self.state {
            State::Reconnaissance(_) | State::Validating(_) => {
                Some(self.state.end(trigger))
            },

            // RFC 9959, 3.3.
            State::Unvalidated(phase) => {
                Some(SafeRetreat::enter(phase.jump, trigger, c))
            },

            State::SafeRetreat(_) | State::Normal(_) => None,
        };

        self.change_phase(transition, c)
    }

    /// The peer's port alone has changed: it is behind a NAT, and the network is
    /// the same (RFC 9000, 9.4). Nothing speaks against the saved parameters, but
    /// what is sent from now on has a window of its own.
    pub(crate) fn on_rebinding(&mut self, c: &Conditions) -> Action {
        match &self.state {
            State::Unvalidated(phase) => {
                let transition = phase.end(Trigger::PathChanged, c);
                self.change_phase(Some(transition), c)
            },
            _ => self.on_path_change(c),
        }
    }

    /// Returns what is worth saving now, seen at `wall_now`.
    pub(crate) fn path_state(
        &self, c: &Conditions, wall_now: SystemTime,
    ) -> Option<PathState> {
        let observed = self.observer.observed()?;
        let saved_rtt = c.min_rtt?;
        let saved_cwnd = observed.cwnd(saved_rtt);

        // RFC 9959, 3.5: no later flow uses what this one failed with.
        if self.state.has_retreated() {
            return None;
        }

        // RFC 9959, 3.1: a small one may be left unsaved.
        if saved_cwnd < self.config.min_initial_windows * c.initial_window {
            return None;
        }

        let saved_cwnd_max = 2 * self.config.max_jump;

        Some(PathState {
            saved_cwnd: saved_cwnd.min(saved_cwnd_max) as u64,
            saved_rtt,
            observed: wall_now,
            expires: wall_now.checked_add(self.config.lifetime)?,
            // RFC 9959, 4.1: what max_jump makes of it is not the path's limit.
            limited: observed.limited || saved_cwnd > saved_cwnd_max,
            validated: self.state.is_validated(),
        })
    }

    /// Returns the next change of phase that the application was not told of.
    pub(crate) fn next_event(&mut self) -> Option<CarefulResumeEvent> {
        self.events.take_next()
    }

    /// Returns the changes of phase since the last call, for a log.
    #[cfg(feature = "qlog")]
    pub(crate) fn events_to_log(&mut self) -> &[CarefulResumeEvent] {
        self.events.to_log()
    }

    fn change_phase(
        &mut self, transition: Option<Transition>, c: &Conditions,
    ) -> Action {
        let Some(Transition {
            to,
            trigger,
            action,
        }) = transition
        else {
            return Action::Keep;
        };

        self.prepare(&to, c);

        let from = std::mem::replace(&mut self.state, to);
        let (old, trigger) = (Some(from.phase()), Some(trigger));
        self.push_event(old, trigger, from.saved(), c);

        action
    }

    /// Does what the next phase needs of what is beside the phases.
    fn prepare(&mut self, to: &State, c: &Conditions) {
        match to {
            State::Unvalidated(phase) => {
                self.growth_limit =
                    GrowthLimit::new(&self.config, &phase.jump.saved, c.min_rtt);
            },

            State::SafeRetreat(_) => self.growth_limit.drop_soft(),

            State::Normal(Normal::Undecided(_)) => {
                self.growth_limit.drop_ceiling()
            },

            State::Normal(Normal::Validated(_)) => {
                self.observer.on_jump_validated()
            },

            _ => (),
        }
    }

    fn push_event(
        &mut self, old: Option<Phase>, trigger: Option<Trigger>,
        restored: Option<PathState>, c: &Conditions,
    ) {
        let jump = self.state.jump();

        self.events.push(CarefulResumeEvent {
            time: c.now,
            old,
            new: self.state.phase(),
            trigger,
            pipe_size: jump.map_or(0, |jump| jump.pipe_size),
            congestion_window: c.cwnd,
            ssthresh: c.ssthresh,
            first_unvalidated_packet: jump.and_then(|j| j.first_unvalidated),
            last_unvalidated_packet: jump.and_then(|j| j.last_unvalidated),
            restored,
        });
    }
}

#[cfg(test)]
mod conformance_tests;
#[cfg(all(test, feature = "internal"))]
mod oracle;
#[cfg(all(test, feature = "internal"))]
mod property_ledger;
#[cfg(all(test, feature = "internal"))]
mod property_run;
#[cfg(all(test, feature = "internal"))]
mod property_tests;
#[cfg(test)]
pub(crate) mod test_sender;
#[cfg(test)]
mod tests;
