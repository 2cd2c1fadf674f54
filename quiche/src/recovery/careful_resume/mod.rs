//! Careful Resume (RFC 9959): a sender with saved parameters of a path jumps to
//! half of the saved capacity, checks that the path takes the jump, and
//! retreats if not.
//!
//! [`CarefulResume`] is a pure state machine: an event and the [`Conditions`]
//! on the path go in, one [`Action`] comes out, which the recovery applies in
//! one place. It performs no I/O, reads no clock, and knows neither Reno nor
//! CUBIC. A file for each phase has the phase's data and what ends it.
//! [`path_state`] keeps saved parameters; `pacing` sets the release times of
//! packets.
//!
//! Packets must leave at their release times (RFC 9959, 3.3): an application
//! that enables Careful Resume asks [`get_next_release_time()`] before each
//! [`send()`], or delays packets to [`SendInfo.at`]. Otherwise the whole jump
//! leaves as a burst.
//!
//! [`path_state`]: crate::path_state
//! [`get_next_release_time()`]: crate::Connection::get_next_release_time
//! [`send()`]: crate::Connection::send
//! [`SendInfo.at`]: crate::SendInfo::at

mod after_jump;
mod config;
mod connection;
mod current_rtt;
mod delivery;
mod events;
mod growth_limit;
mod jump_decision;
mod jump_record;
mod normal;
mod observer;
mod pacing_watch;
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
pub(crate) use self::current_rtt::adjusted_rtt;
use self::events::EventLog;
use self::growth_limit::GrowthLimit;
use self::normal::Normal;
pub(crate) use self::observer::Acknowledged;
pub(crate) use self::observer::FlightLimit;
use self::observer::Observer;
pub(crate) use self::pacing_watch::warn_not_paced;
use self::pacing_watch::PacingWatch;
pub use self::phase::CarefulResumeEvent;
pub use self::phase::CarefulResumeStats;
pub use self::phase::Phase;
pub use self::phase::SendLimit;
pub use self::phase::Trigger;
use self::safe_retreat::SafeRetreat;
use self::state::State;
use self::state::Transition;
use self::unvalidated::Unvalidated;
use self::validating::Validating;
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
    /// The smoothed RTT.
    pub(crate) rtt: Duration,
    /// The minimum RTT of the last five minutes; None before the first sample.
    pub(crate) min_rtt: Option<Duration>,
    /// Whether the congestion window, not the application, limits the sender.
    pub(crate) window_limited: bool,
    /// Whether slow start is over, or in its conservative form.
    pub(crate) has_left_slow_start: bool,
}

/// Order to the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing.
    Keep,

    /// Set the window, in bytes, for the jump; restart pacing.
    Jump { window: usize },

    /// Set the window, in bytes.
    SetWindow { window: usize },

    /// Set the window, in bytes; restart the detection of slow start's end.
    Validate { window: usize },

    /// Reduce at once: react to congestion as if the window had been
    /// `pipe_size`, and then have `window` at most, both in bytes.
    Retreat { pipe_size: usize, window: usize },

    /// Set the slow-start threshold, in bytes.
    EndRetreat { ssthresh: usize },
}

/// State machine of Careful Resume on one path.
#[derive(Debug)]
pub(crate) struct CarefulResume {
    config: CarefulResumeConfig,
    state: State,
    growth_limit: GrowthLimit,
    observer: Observer,
    pacing_watch: PacingWatch,
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
            pacing_watch: PacingWatch::default(),
            events: EventLog::default(),
        }
    }

    /// Keeps the saved parameters that `former` was given, on a path whose
    /// recovery is replaced before anything is in flight.
    fn inherit(&mut self, former: CarefulResume) {
        self.state = former.state;
        self.events = former.events;
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state.phase()
    }

    /// Whether the phase is [`Phase::Normal`], in which packets that are sent or
    /// acknowledged change nothing.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Normal(_))
    }

    /// Whether it is over without a jump: then nothing limits the growth of the
    /// window, and no retreat has reduced it.
    #[inline]
    pub(crate) fn is_over_without_jump(&self) -> bool {
        matches!(self.state, State::Normal(Normal::NoJump))
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

    /// Jumps before the initial window is acknowledged, if the configuration
    /// says so. Call it when saved parameters were taken.
    pub(crate) fn consider_early_jump(&mut self, c: &Conditions) -> Action {
        let State::Reconnaissance(phase) = &self.state else {
            return Action::Keep;
        };
        let transition = phase.consider_early_jump(&self.config, c);

        self.change_phase(transition, c)
    }

    /// Takes saved parameters for the decision alone, which ends reconnaissance
    /// by [`Trigger::DryRun`] instead of a jump. False after reconnaissance.
    pub(crate) fn offer_dry_run(
        &mut self, saved: PathState, jump_before: Instant, wall_now: SystemTime,
        now: Instant,
    ) -> bool {
        let State::Reconnaissance(phase) = &mut self.state else {
            return false;
        };
        phase.offer_dry_run(saved, jump_before, wall_now, now);

        true
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

    /// Returns what limits the growth of a window that has jumped; None before
    /// the jump is validated, in whole or in part.
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

    /// Whether the window has jumped, and nothing was sent since.
    pub(crate) fn has_just_jumped(&self) -> bool {
        match &self.state {
            State::Unvalidated(phase) => phase.jump.first_unvalidated.is_none(),
            _ => false,
        }
    }

    /// Whether the connection has jumped, however that ended.
    #[allow(dead_code)] // until the patch of slow-start exits
    pub(crate) fn has_jumped(&self) -> bool {
        self.state.jump().is_some()
    }

    /// Returns the last packet that was sent before the safe retreat, if there
    /// was one.
    #[allow(dead_code)] // until the patch of marks
    pub(crate) fn last_before_retreat(&self) -> Option<u64> {
        let jump = self.state.jump().filter(|_| self.state.has_retreated());
        jump.map(|jump| jump.largest_sent)
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

    /// Notes that the controller has reduced its window by itself. In safe
    /// retreat that is still part of the retreat.
    pub(crate) fn on_reduced(&mut self) {
        if let State::Normal(Normal::Retreated {
            is_last_reduction, ..
        }) = &mut self.state
        {
            *is_last_reduction = false;
        }
    }

    /// Gives new events the controller's state after its answer, in bytes.
    pub(crate) fn settle(&mut self, cwnd: usize, ssthresh: usize) {
        self.events.settle(cwnd, ssthresh);
    }

    /// Does so again for all events of `now`.
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

    /// Whether the ACK of the next packet may bring the jump, so that the peer
    /// should not delay it.
    pub(crate) fn needs_prompt_ack(&self) -> bool {
        match &self.state {
            State::Reconnaissance(phase) => phase.needs_prompt_ack(),
            _ => false,
        }
    }

    /// Takes a packet of the application data space that was sent; `c` counts
    /// it as in flight.
    pub(crate) fn on_packet_sent(
        &mut self, pkt_num: u64, is_mtu_probe: bool, c: &Conditions,
    ) -> Action {
        let transition = match &mut self.state {
            State::Reconnaissance(phase) => {
                phase.on_packet_sent(pkt_num, is_mtu_probe, c);
                phase.consider_early_jump(&self.config, c)
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

    /// Takes an RTT sample of application data packets, without the peer's
    /// delay.
    pub(crate) fn on_rtt_sample(&mut self, rtt: Duration) {
        if let State::Reconnaissance(phase) = &mut self.state {
            phase.on_rtt_sample(rtt);
        }
    }

    /// Takes newly acknowledged packets, of which `bytes` were in flight. Call
    /// it before loss detection, which needs the latest pipe size (RFC 9959,
    /// 3.3 to 3.5).
    pub(crate) fn on_acked(
        &mut self, pkt_nums: impl Iterator<Item = u64>, bytes: usize,
    ) {
        match &mut self.state {
            State::Reconnaissance(phase) => phase.on_acked(pkt_nums),
            State::Unvalidated(phase) => phase.jump.on_acked(bytes),
            State::Validating(phase) => phase.jump.on_acked(bytes),
            State::SafeRetreat(phase) => phase.jump.on_acked(bytes),
            State::Normal(_) => (),
        }
    }

    /// Observes the path by an ACK, in every phase. Call it before
    /// `after_ack()`. `min_rtt` is the minimum RTT of the last five minutes;
    /// `limit` is what limits the bytes in flight.
    #[inline]
    pub(crate) fn observe(
        &mut self, acked: &Acknowledged, min_rtt: Option<Duration>,
        limit: FlightLimit, now: Instant,
    ) {
        // RFC 9959, 4.1: at the ceiling, an earlier connection has set the
        // window.
        let limit = match self.growth_limit {
            GrowthLimit::Ceiling(_) => limit.max(FlightLimit::Growth),
            _ => limit,
        };

        if let Some(min_rtt) = min_rtt {
            self.observer.on_ack(acked, min_rtt, limit, now);
        }
    }

    /// Takes the end of slow start by a sign of the path's capacity.
    pub(crate) fn on_slow_start_exit(&mut self) {
        self.growth_limit = GrowthLimit::None;
        self.observer.on_congestion();
    }

    /// Takes an ACK after the controller; its bytes are no longer in flight.
    pub(crate) fn after_ack(
        &mut self, acked: &Acknowledged, c: &Conditions,
    ) -> Action {
        let transition = match &self.state {
            State::Reconnaissance(phase) => {
                phase.after_ack(acked.largest, &self.config, c)
            },
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

    /// Takes congestion that was detected, by `trigger`. Call it before the
    /// controller.
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

    /// Ends Careful Resume on persistent congestion (RFC 9959, 3.6). Call it
    /// after `on_congestion()`, which has made a retreat of a jump.
    pub(crate) fn on_persistent_congestion(&mut self, c: &Conditions) -> Action {
        let trigger = Trigger::PersistentCongestion;

        let transition = match &self.state {
            State::Normal(_) => None,
            State::SafeRetreat(phase) => Some(phase.leave(trigger)),
            state => Some(state.end(trigger)),
        };

        self.change_phase(transition, c)
    }

    /// Takes the times at which a paced packet was built and is released.
    #[inline]
    pub(crate) fn watch_release(
        &mut self, pkt_num: u64, built: Instant, release: Instant,
    ) {
        self.pacing_watch.on_packet_sent(pkt_num, built, release);
    }

    /// Returns whether `watch_delivery()` is to be called for an ACK of packets
    /// up to `largest`.
    #[inline]
    pub(crate) fn awaits_delivery(&self, largest: u64) -> bool {
        self.pacing_watch.awaits(largest)
    }

    /// Takes newly acknowledged packets, and the peer's delay. Returns whether
    /// they prove that the application does not pace: call `on_not_paced()` then.
    #[inline]
    pub(crate) fn watch_delivery(
        &mut self, pkt_nums: impl Iterator<Item = u64>, ack_delay: Duration,
        now: Instant,
    ) -> bool {
        self.pacing_watch.on_acked(pkt_nums, ack_delay, now)
    }

    /// Takes the proof that the application does not pace: it must not jump
    /// (RFC 9959, 3.3). A jump ends as if the path had not taken it, so that the
    /// application deletes the saved parameters.
    pub(crate) fn on_not_paced(&mut self, c: &Conditions) -> Action {
        let trigger = Trigger::NotPaced;

        let transition = match &self.state {
            State::Reconnaissance(phase) => Some(phase.leave(trigger)),

            State::Unvalidated(Unvalidated { jump, .. })
            | State::Validating(Validating { jump }) => {
                Some(SafeRetreat::enter(*jump, trigger, c))
            },

            State::SafeRetreat(_) | State::Normal(_) => {
                self.push_event(Some(self.phase()), Some(trigger), None, c);
                None
            },
        };

        self.change_phase(transition, c)
    }

    /// Takes a change of the path that the local stack reports.
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

    /// Takes a change of the peer's port alone: a NAT's new binding, on the
    /// same network (RFC 9000, 9.4). Nothing speaks against the saved
    /// parameters, but packets from now on have a window of their own.
    pub(crate) fn on_rebinding(&mut self, c: &Conditions) -> Action {
        match &self.state {
            State::Unvalidated(phase) => {
                let transition = phase.end(Trigger::PathChanged, c);
                self.change_phase(Some(transition), c)
            },
            _ => self.on_path_change(c),
        }
    }

    /// Returns what is worth saving at `wall_now`.
    pub(crate) fn path_state(
        &self, c: &Conditions, wall_now: SystemTime,
    ) -> Option<PathState> {
        let observed = self.observer.observed()?;
        let saved_rtt = c.min_rtt?;
        let saved_cwnd = observed.cwnd(saved_rtt);

        // RFC 9959, 3.5: no later flow uses the parameters of a retreat.
        if self.state.has_retreated() {
            return None;
        }

        // The RTT, and what was delivered within it, are not the path's.
        if self.pacing_watch.is_unpaced() {
            return None;
        }

        // RFC 9959, 3.1: a small capacity need not be saved.
        let windows_min = self.config.min_initial_windows;
        if saved_cwnd < windows_min.saturating_mul(c.initial_window) {
            return None;
        }

        let saved_cwnd_max = self.config.max_jump.saturating_mul(2);

        Some(PathState {
            saved_cwnd: saved_cwnd.min(saved_cwnd_max) as u64,
            saved_rtt,
            observed: wall_now,
            expires: wall_now.checked_add(self.config.lifetime)?,
            // RFC 9959, 4.1: a capacity that max_jump caps is not the path's
            // limit.
            limited: observed.limited || saved_cwnd > saved_cwnd_max,
            validated: self.state.is_validated(),
        })
    }

    /// Returns the next change of phase that the application has not taken.
    pub(crate) fn next_event(&mut self) -> Option<CarefulResumeEvent> {
        self.events.take_next()
    }

    /// Returns the changes of phase since the last call, for a log.
    #[cfg(feature = "qlog")]
    pub(crate) fn events_to_log(&mut self) -> &[CarefulResumeEvent] {
        self.events.take_unlogged()
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

    /// Changes what lasts beyond a phase, for the next one.
    fn prepare(&mut self, to: &State, c: &Conditions) {
        match to {
            State::Unvalidated(phase) => {
                self.growth_limit =
                    GrowthLimit::new(&self.config, &phase.jump.saved, c.min_rtt);
            },

            State::SafeRetreat(_) => self.growth_limit = GrowthLimit::None,

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
#[cfg(test)]
mod early_jump_tests;
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
