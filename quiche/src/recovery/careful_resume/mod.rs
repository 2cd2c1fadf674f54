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
mod observer;
mod phase;

use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

pub(crate) use self::after_jump::SoftGrowth;
pub use self::config::AfterJump;
pub use self::config::CarefulResumeConfig;
pub use self::config::UnknownAfterJump;
use self::current_rtt::CurrentRtt;
pub(crate) use self::observer::Acknowledged;
pub(crate) use self::observer::FlightLimit;
use self::observer::Observer;
pub use self::phase::CarefulResumeEvent;
pub use self::phase::CarefulResumeStats;
pub use self::phase::Phase;
pub use self::phase::SendLimit;
pub use self::phase::Trigger;
use crate::path_state::PathState;
use crate::recovery::pacing::Pace;
use crate::recovery::RecoveryConfig;

/// The share of a jump that may leave in one batch.
const UNVALIDATED_BATCH_DIVISOR: usize = 128;

/// By how much any eighth of an RTT may exceed its share of a jump: a tenth of
/// that, or two packets.
const UNVALIDATED_EXCESS_DIVISOR: usize = 80;
const UNVALIDATED_EXCESS_PACKETS: usize = 2;

/// BETA of RFC 9959, 3.5.
const SSTHRESH_DIVISOR: usize = 2;

/// The floor of the congestion window (RFC 9002, 7.2).
const MIN_WINDOW_PACKETS: usize = 2;

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

#[derive(Clone, Copy, Debug)]
struct Saved {
    state: PathState,
    jump_before: Instant,
    expires: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Jump {
    cwnd: usize,
    since: Instant,
    rtt: Duration,
    batch: usize,
    max_datagram_size: usize,
}

/// The state machine of one path's Careful Resume.
#[derive(Debug)]
pub(crate) struct CarefulResume {
    config: CarefulResumeConfig,
    phase: Phase,
    saved: Option<Saved>,
    jump: Option<Jump>,
    pipe_size: usize,
    current_rtt: CurrentRtt,
    // In bytes, while it is in force.
    ceiling: Option<usize>,
    // The congestion window before the latest ACK, in bytes.
    window_before: usize,
    // From a jump until slow start ends.
    soft_growth: Option<Box<SoftGrowth>>,

    // The packet that filled the initial window, and those up to it that are
    // not acknowledged yet, in order.
    initial_end: Option<u64>,
    initial_unacked: Vec<u64>,
    // The next packet will fill the initial window.
    is_initial_end_next: bool,

    first_unvalidated: Option<u64>,
    last_unvalidated: Option<u64>,
    largest_sent: u64,

    observer: Observer,
    // The path took this connection's jump.
    validated: bool,
    // It did not.
    has_retreated: bool,
    // It did not, and no congestion was answered since.
    last_reduction_was_retreat: bool,

    // As many as there are phases, at most; how many of them have the state
    // after the controller's answer; the cursors of its two readers.
    events: Vec<CarefulResumeEvent>,
    settled: usize,
    drained: usize,
    #[cfg(feature = "qlog")]
    logged: usize,
}

impl CarefulResume {
    pub(crate) fn from_config(config: &RecoveryConfig) -> Option<Self> {
        config.careful_resume.map(Self::new)
    }

    pub(in crate::recovery) fn new(config: CarefulResumeConfig) -> Self {
        CarefulResume {
            config,
            phase: Phase::Reconnaissance,
            saved: None,
            jump: None,
            pipe_size: 0,
            current_rtt: CurrentRtt::default(),
            ceiling: None,
            window_before: 0,
            soft_growth: None,
            initial_end: None,
            initial_unacked: Vec::new(),
            is_initial_end_next: false,
            first_unvalidated: None,
            last_unvalidated: None,
            largest_sent: 0,
            observer: Observer::default(),
            validated: false,
            has_retreated: false,
            last_reduction_was_retreat: false,
            events: Vec::new(),
            settled: 0,
            drained: 0,
            #[cfg(feature = "qlog")]
            logged: 0,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) fn stats(&self) -> CarefulResumeStats {
        CarefulResumeStats {
            phase: self.phase,
            pipe_size: self.pipe_size,
            jump_cwnd: self.jump.map(|jump| jump.cwnd),
        }
    }

    /// Gives the machine a saved set. False when it comes too late.
    pub(crate) fn offer(
        &mut self, state: PathState, jump_before: Instant, wall_now: SystemTime,
        c: &Conditions,
    ) -> bool {
        if self.phase != Phase::Reconnaissance || self.saved.is_some() {
            return false;
        }

        let left = state.expires.duration_since(wall_now).unwrap_or_default();
        let expires = if state.is_expired(wall_now) {
            c.now
        } else {
            c.now.checked_add(left).unwrap_or(jump_before)
        };

        self.saved = Some(Saved {
            state,
            jump_before,
            expires,
        });
        self.push_event(None, None, c);
        self.settle(c.cwnd, c.ssthresh);

        true
    }

    /// Whether a saved set is there that a jump may still go by.
    pub(crate) fn may_jump(&self) -> bool {
        self.phase == Phase::Reconnaissance && self.saved.is_some()
    }

    /// Whether the window must not grow now: not in unvalidated (RFC 9959,
    /// 3.3), and not in safe retreat (RFC 9959, 3.5).
    pub(crate) fn holds_window(&self) -> bool {
        matches!(self.phase, Phase::Unvalidated | Phase::SafeRetreat)
    }

    /// Where slow start ends until the path shows more of its capacity, in
    /// bytes.
    pub(crate) fn ceiling(&self) -> Option<usize> {
        self.ceiling
    }

    /// An ACK comes while the window is so many bytes.
    pub(crate) fn note_window(&mut self, cwnd: usize) {
        self.window_before = cwnd;
    }

    /// The congestion window before the latest ACK, in bytes.
    pub(crate) fn window_before(&self) -> usize {
        self.window_before
    }

    /// What limits the growth of a window that has jumped; not before the jump
    /// is validated, in whole or in part.
    pub(crate) fn soft_growth(&mut self) -> Option<&mut SoftGrowth> {
        let grows = matches!(self.phase, Phase::Validating | Phase::Normal);
        self.soft_growth.as_deref_mut().filter(|_| grows)
    }

    /// Whether the growth of the window is, or will be, limited after a jump.
    pub(crate) fn has_jumped(&self) -> bool {
        self.soft_growth.is_some()
    }

    /// Whether it has jumped, whatever came of that.
    pub(crate) fn is_after_jump(&self) -> bool {
        self.jump.is_some()
    }

    /// Whether the window was reduced last by the safe retreat.
    pub(crate) fn last_reduction_was_retreat(&self) -> bool {
        self.last_reduction_was_retreat
    }

    /// The controller has reduced its window by itself. In safe retreat that
    /// is still part of the retreat.
    pub(crate) fn on_reduced(&mut self) {
        self.last_reduction_was_retreat &= self.phase == Phase::SafeRetreat;
    }

    /// The controller has done what it does on what happened, and what it was
    /// told to: an event tells the state after that.
    pub(crate) fn settle(&mut self, cwnd: usize, ssthresh: usize) {
        for event in &mut self.events[self.settled..] {
            event.congestion_window = cwnd;
            event.ssthresh = ssthresh;
        }

        self.settled = self.events.len();
    }

    /// What happened `now` has changed more since.
    pub(crate) fn settle_again(
        &mut self, cwnd: usize, ssthresh: usize, now: Instant,
    ) {
        let first = self.events.partition_point(|event| event.time < now);
        self.settled = self.settled.min(first);
        self.settle(cwnd, ssthresh);
    }

    /// The pace that the unvalidated phase demands.
    ///
    /// RFC 9959, 3.3 and 4.3.2: jump_cwnd over the current RTT, without gain.
    pub(crate) fn pace(&self) -> Option<Pace> {
        let jump = self.jump.filter(|_| self.phase == Phase::Unvalidated)?;
        let pace = Pace::new(jump.cwnd, jump.rtt, 1.0, jump.max_datagram_size);

        // What leaves in any period exceeds its share by a batch, and by what
        // a late sender catches up with.
        let excess = (jump.cwnd / UNVALIDATED_EXCESS_DIVISOR)
            .max(UNVALIDATED_EXCESS_PACKETS * jump.max_datagram_size);

        Some(Pace {
            batch: jump.batch,
            catch_up: pace.duration(excess - jump.batch),
            ..pace
        })
    }

    /// A packet of the application's data space is in flight; `c` counts it.
    pub(crate) fn on_packet_sent(
        &mut self, pkt_num: u64, is_mtu_probe: bool, c: &Conditions,
    ) -> Action {
        self.largest_sent = self.largest_sent.max(pkt_num);
        self.is_initial_end_next = false;

        match self.phase {
            Phase::Reconnaissance if self.initial_end.is_none() => {
                // A probe of the MTU may be lost without congestion.
                if !is_mtu_probe {
                    self.initial_unacked.push(pkt_num);
                }

                let left = c.initial_window.saturating_sub(c.flight_size);

                if left < c.max_datagram_size {
                    self.initial_end = Some(pkt_num);
                } else {
                    self.is_initial_end_next = left < 2 * c.max_datagram_size;
                }

                Action::Keep
            },

            Phase::Unvalidated => {
                self.first_unvalidated.get_or_insert(pkt_num);
                self.last_unvalidated = Some(pkt_num);

                // RFC 9959, 3.3: in bytes, flight_size has reached CWND when
                // less than a full packet of it remains.
                if c.flight_size + c.max_datagram_size > c.cwnd {
                    let trigger = Trigger::LastUnvalidatedPacketSent;
                    return self.leave_unvalidated(trigger, c);
                }

                self.check_time(c)
            },

            _ => Action::Keep,
        }
    }

    /// Whether the ACK of the next packet may bring the jump: the peer should
    /// not hold it back. A saved set may still come.
    pub(crate) fn needs_prompt_ack(&self) -> bool {
        self.is_initial_end_next
    }

    /// An RTT sample of the application's packets, without the peer's delay.
    pub(crate) fn on_rtt_sample(&mut self, rtt: Duration) {
        if self.phase == Phase::Reconnaissance {
            self.current_rtt.on_sample(rtt);
        }
    }

    /// These packets were acknowledged; `bytes` of them were in flight. To be
    /// called before losses are looked for, so that the pipe size is the latest
    /// when one is found (RFC 9959, 3.3 to 3.5).
    pub(crate) fn on_acked(
        &mut self, pkt_nums: impl Iterator<Item = u64>, bytes: usize,
    ) {
        match self.phase {
            Phase::Reconnaissance => {
                pkt_nums.for_each(|pkt_num| self.on_initial_acked(pkt_num))
            },

            Phase::Unvalidated | Phase::Validating | Phase::SafeRetreat => {
                self.pipe_size += bytes
            },

            Phase::Normal => (),
        }
    }

    fn on_initial_acked(&mut self, pkt_num: u64) {
        // One that sends little but ACKs stays in reconnaissance: most of what
        // is acknowledged was not in flight, and lies before what is.
        if self
            .initial_unacked
            .first()
            .is_none_or(|first| pkt_num < *first)
        {
            return;
        }

        if let Ok(i) = self.initial_unacked.binary_search(&pkt_num) {
            self.initial_unacked.remove(i);
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
        let limit = match self.ceiling {
            Some(_) => limit.max(FlightLimit::Growth),
            None => limit,
        };

        if let Some(min_rtt) = min_rtt {
            self.observer.on_ack(acked, min_rtt, limit, now);
        }
    }

    /// Slow start ended because the path showed its capacity.
    pub(crate) fn on_slow_start_exit(&mut self) {
        self.ceiling = None;
        self.soft_growth = None;
        self.observer.on_congestion();
    }

    /// The ACK is processed, and its bytes are no longer in flight.
    pub(crate) fn after_ack(
        &mut self, acked: &Acknowledged, c: &Conditions,
    ) -> Action {
        if self.phase == Phase::Unvalidated && self.is_another_path(c) {
            return self.retreat(Trigger::PathChanged, c);
        }

        let covers = |pkt_num: Option<u64>| {
            pkt_num.is_some_and(|pkt_num| acked.largest >= pkt_num)
        };

        let action = match self.phase {
            // RFC 9959, 4.2.1: a longer RTT, or less delivered than was sent,
            // is a hint that even this little queues.
            Phase::Reconnaissance if c.has_left_slow_start => {
                self.change_phase(Phase::Normal, Trigger::SlowStartExit, c);
                Action::Keep
            },

            Phase::Reconnaissance => self.consider_jump(c),

            // RFC 9959, 3.3: the first unvalidated packet, or a later one.
            Phase::Unvalidated if covers(self.first_unvalidated) => {
                let trigger = Trigger::FirstUnvalidatedPacketAcknowledged;
                self.leave_unvalidated(trigger, c)
            },

            Phase::Unvalidated => self.check_time(c),

            Phase::SafeRetreat if covers(self.last_unvalidated) => {
                self.leave_retreat(Trigger::ExitRecovery, c)
            },

            _ => Action::Keep,
        };

        // RFC 9959, 3.4: the last unvalidated packet, or a later one; perhaps
        // by the same ACK.
        if self.phase == Phase::Validating && covers(self.last_unvalidated) {
            self.validated = true;
            self.observer.on_jump_validated();
            let trigger = Trigger::LastUnvalidatedPacketAcknowledged;
            self.change_phase(Phase::Normal, trigger, c);
        }

        action
    }

    /// Congestion was detected: `trigger` tells how. To be called before the
    /// controller answers it.
    pub(crate) fn on_congestion(
        &mut self, trigger: Trigger, c: &Conditions,
    ) -> Action {
        self.ceiling = None;
        self.soft_growth = None;

        match self.phase {
            // RFC 9959, 3.2: leave Careful Resume; the controller answers.
            Phase::Reconnaissance => {
                self.observer.on_congestion();
                self.change_phase(Phase::Normal, trigger, c);
                Action::Keep
            },

            // RFC 9959, 3.3 and 3.4: even though the lost packet may have been
            // sent before the jump.
            Phase::Unvalidated | Phase::Validating => self.retreat(trigger, c),

            Phase::SafeRetreat => Action::Keep,

            Phase::Normal => {
                self.observer.on_congestion();
                Action::Keep
            },
        }
    }

    /// RFC 9959, 3.6: persistent congestion ends Careful Resume. To be called
    /// after `on_congestion()`, which made a retreat of a jump.
    pub(crate) fn on_persistent_congestion(&mut self, c: &Conditions) -> Action {
        let trigger = Trigger::PersistentCongestion;

        match self.phase {
            Phase::Normal => Action::Keep,
            Phase::SafeRetreat => self.leave_retreat(trigger, c),
            _ => {
                self.change_phase(Phase::Normal, trigger, c);
                Action::Keep
            },
        }
    }

    /// The local stack uses another path from now on.
    pub(crate) fn on_path_change(&mut self, c: &Conditions) -> Action {
        self.ceiling = None;
        self.soft_growth = None;

        match self.phase {
            Phase::Reconnaissance | Phase::Validating => {
                self.change_phase(Phase::Normal, Trigger::PathChanged, c);
                Action::Keep
            },

            // RFC 9959, 3.3.
            Phase::Unvalidated => self.retreat(Trigger::PathChanged, c),

            Phase::SafeRetreat | Phase::Normal => Action::Keep,
        }
    }

    /// The peer's port alone has changed: it is behind a NAT, and the network is
    /// the same (RFC 9000, 9.4). Nothing speaks against the saved set, but what
    /// is sent from now on has a window of its own.
    pub(crate) fn on_rebinding(&mut self, c: &Conditions) -> Action {
        match self.phase {
            Phase::Unvalidated => self.end_jump(Trigger::PathChanged, c),
            _ => self.on_path_change(c),
        }
    }

    /// What is worth saving now, seen at `wall_now`.
    pub(crate) fn path_state(
        &self, c: &Conditions, wall_now: SystemTime,
    ) -> Option<PathState> {
        let observed = self.observer.observed()?;
        let saved_rtt = c.min_rtt?;
        let saved_cwnd = observed.cwnd(saved_rtt);

        // RFC 9959, 3.5: no later flow uses what this one failed with.
        if self.has_retreated {
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
            validated: self.validated,
        })
    }

    /// The next change of phase that the application was not told of.
    pub(crate) fn next_event(&mut self) -> Option<CarefulResumeEvent> {
        let event = self.events.get(self.drained).copied()?;
        self.drained += 1;
        Some(event)
    }

    /// The changes of phase since the last call, for a log.
    #[cfg(feature = "qlog")]
    pub(crate) fn events_to_log(&mut self) -> &[CarefulResumeEvent] {
        let from = std::mem::replace(&mut self.logged, self.events.len());
        &self.events[from..]
    }

    /// RFC 9959, 3.2: when an ACK covers the initial data, and more is waiting
    /// than the window lets go.
    fn consider_jump(&mut self, c: &Conditions) -> Action {
        if self.initial_end.is_none() || !self.initial_unacked.is_empty() {
            return Action::Keep;
        }

        let Some(saved) = self.saved else {
            self.change_phase(Phase::Normal, Trigger::NoSavedSet, c);
            return Action::Keep;
        };

        let Some(min_rtt) = c.min_rtt.filter(|_| c.window_limited) else {
            return Action::Keep;
        };

        let jump = admit::jump_cwnd(&self.config, &saved, min_rtt, c.cwnd, c.now);

        match jump {
            Ok(jump_cwnd) => self.jump(jump_cwnd, c),
            Err(trigger) => {
                self.change_phase(Phase::Normal, trigger, c);
                Action::Keep
            },
        }
    }

    fn jump(&mut self, jump_cwnd: usize, c: &Conditions) -> Action {
        // RFC 9959, 3.3: PipeSize starts from flight_size, not from CWND.
        self.pipe_size = c.flight_size;

        self.jump = Some(Jump {
            cwnd: jump_cwnd,
            since: c.now,
            rtt: self.current_rtt.get().unwrap_or(c.rtt),
            batch: (jump_cwnd / UNVALIDATED_BATCH_DIVISOR)
                .min(c.initial_window)
                .max(c.max_datagram_size),
            max_datagram_size: c.max_datagram_size,
        });
        self.limit_growth(c);

        self.change_phase(
            Phase::Unvalidated,
            Trigger::CongestionWindowLimited,
            c,
        );

        Action::Jump { window: jump_cwnd }
    }

    /// RFC 9959, 3.4 leaves the growth to the controller.
    fn limit_growth(&mut self, c: &Conditions) {
        let Some(saved) = self.saved.map(|saved| saved.state) else {
            return;
        };

        match self.config.after_jump {
            AfterJump::Soft => {
                let min_rtt = c.min_rtt.unwrap_or(saved.saved_rtt);
                let known = admit::beside_queue(
                    saved.saved_cwnd,
                    min_rtt,
                    saved.saved_rtt,
                );
                // RFC 9959, 4.1: what limited a set was not the path, which
                // may hold more; one that has become longer does.
                let is_limit = admit::is_path_limited(&self.config, &saved)
                    && !admit::is_longer(&saved, min_rtt);
                let soft_growth = SoftGrowth::new(known, is_limit);
                self.soft_growth = Some(Box::new(soft_growth));
            },

            AfterJump::Ceiling => {
                self.ceiling = admit::ceiling(&self.config, &saved);
            },

            AfterJump::None => (),
        }
    }

    /// RFC 9959, 3.3: the RTT tells that the jump goes into another path.
    fn is_another_path(&self, c: &Conditions) -> bool {
        let rtts = self.saved.zip(c.min_rtt);

        rtts.is_some_and(|(saved, min_rtt)| {
            !admit::rtt_is_plausible(min_rtt, saved.state.saved_rtt)
        })
    }

    /// RFC 9959, 3.3: no longer than one RTT.
    fn check_time(&mut self, c: &Conditions) -> Action {
        match self.jump {
            Some(jump)
                if c.now.saturating_duration_since(jump.since) > jump.rtt =>
            {
                self.leave_unvalidated(Trigger::RttExceeded, c)
            },

            _ => Action::Keep,
        }
    }

    fn leave_unvalidated(&mut self, trigger: Trigger, c: &Conditions) -> Action {
        // RFC 9959, 3.3: the jump was not used. Without congestion the window
        // does not fall below the initial one.
        if c.flight_size < c.initial_window || c.flight_size <= self.pipe_size {
            return self.end_jump(Trigger::RateLimited, c);
        }

        // RFC 9959, 3.3: otherwise what is in flight is the window.
        self.change_phase(Phase::Validating, trigger, c);

        Action::Validate {
            window: c.flight_size,
        }
    }

    /// The jump is over before it was used.
    fn end_jump(&mut self, trigger: Trigger, c: &Conditions) -> Action {
        let window = self.pipe_size.max(c.initial_window);
        self.ceiling = None;
        self.change_phase(Phase::Normal, trigger, c);

        Action::SetWindow { window }
    }

    fn retreat(&mut self, trigger: Trigger, c: &Conditions) -> Action {
        // RFC 9959, 3.5: at most PipeSize / 2, with QUIC's floor of two
        // packets.
        let window = (self.pipe_size / 2)
            .max(MIN_WINDOW_PACKETS * c.max_datagram_size)
            .min(c.cwnd);

        // Nothing was sent yet in the unvalidated phase: what was sent before
        // ends the retreat.
        self.last_unvalidated.get_or_insert(self.largest_sent);
        self.soft_growth = None;
        self.change_phase(Phase::SafeRetreat, trigger, c);
        self.has_retreated = true;
        self.last_reduction_was_retreat = true;

        Action::Retreat {
            pipe_size: self.pipe_size,
            window,
        }
    }

    fn leave_retreat(&mut self, trigger: Trigger, c: &Conditions) -> Action {
        // RFC 9959, 3.5: the latest PipeSize x BETA.
        let ssthresh = self.pipe_size / SSTHRESH_DIVISOR;

        self.change_phase(Phase::Normal, trigger, c);

        Action::EndRetreat { ssthresh }
    }

    fn change_phase(&mut self, new: Phase, trigger: Trigger, c: &Conditions) {
        let old = std::mem::replace(&mut self.phase, new);
        self.push_event(Some(old), Some(trigger), c);
    }

    fn push_event(
        &mut self, old: Option<Phase>, trigger: Option<Trigger>, c: &Conditions,
    ) {
        self.events.push(CarefulResumeEvent {
            time: c.now,
            old,
            new: self.phase,
            trigger,
            pipe_size: self.pipe_size,
            congestion_window: c.cwnd,
            ssthresh: c.ssthresh,
            first_unvalidated_packet: self.first_unvalidated,
            last_unvalidated_packet: self.last_unvalidated,
            restored: self.saved.map(|saved| saved.state),
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
