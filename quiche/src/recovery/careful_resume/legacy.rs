//! Hooks of Careful Resume in Reno and CUBIC.
//!
//! They pass on the recovery's events, and are the one place where the actions of
//! Careful Resume are applied.

use super::*;
use crate::clock;
use crate::recovery::careful_resume::adjusted_rtt;
use crate::recovery::careful_resume::warn_not_paced;
use crate::recovery::careful_resume::Acknowledged;
use crate::recovery::careful_resume::Action;
use crate::recovery::careful_resume::CarefulResume;
use crate::recovery::careful_resume::Conditions;
use crate::recovery::careful_resume::FlightLimit;
use crate::recovery::careful_resume::Phase;
use crate::recovery::careful_resume::Trigger;

/// An ACK that the controller has yet to answer.
#[derive(Clone, Copy)]
pub(super) struct PendingAck {
    acked: Acknowledged,

    /// Whether it is for the observation alone.
    is_plain: bool,

    /// Congestion window, in bytes.
    window_before: usize,

    /// Whether it proves that the application does not pace.
    is_unpaced: bool,
}

#[path = "../overshoot/hooks.rs"]
mod growth;

impl LegacyRecovery {
    /// Enables Careful Resume, and pacing, as `config` says, unless application
    /// data was sent.
    pub(super) fn enable_careful_resume(
        &mut self, config: &RecoveryConfig,
    ) -> Result<()> {
        let epoch = &self.epochs[Epoch::Application];

        if !epoch.sent_packets.is_empty() || epoch.largest_acked_packet.is_some()
        {
            return Err(Error::InvalidState);
        }

        self.careful_resume = CarefulResume::from_config(config);
        self.pacer.get_or_insert_default();

        Ok(())
    }

    pub(in crate::recovery) fn careful_resume_conditions(
        &self, now: Instant,
    ) -> Conditions {
        Conditions {
            now,
            cwnd: self.congestion.congestion_window,
            ssthresh: self.congestion.ssthresh.get(),
            flight_size: self.bytes_in_flight.get(),
            initial_window: self.initial_window(),
            max_datagram_size: self.max_datagram_size,
            rtt: self.rtt_stats.rtt(),
            min_rtt: self.rtt_stats.min_rtt(),
            window_limited: !self.congestion.app_limited,
            has_left_slow_start: self.has_left_slow_start(),
        }
    }

    pub(super) fn offer_saved(
        &mut self, saved: PathState, jump_before: Instant, now: Instant,
    ) -> bool {
        let c = self.careful_resume_conditions(now);
        let is_taken = self.careful_resume.as_mut().is_some_and(|resume| {
            resume.offer(saved, jump_before, clock::wall_now(), &c)
        });

        if is_taken {
            self.pass_on(now, CarefulResume::consider_early_jump);
        }

        is_taken
    }

    pub(super) fn observed_path(&self, now: Instant) -> Option<PathState> {
        let c = self.careful_resume_conditions(now);
        self.careful_resume
            .as_ref()?
            .path_state(&c, clock::wall_now())
    }

    /// The ceiling is no exit.
    fn has_left_slow_start(&self) -> bool {
        self.congestion.ssthresh.startup_exit().is_some()
            || self.congestion.hystart.in_css()
    }

    /// Takes a packet that is released at `now`.
    #[inline]
    pub(super) fn careful_resume_on_packet_sent(
        &mut self, pkt: &Sent, epoch: Epoch, now: Instant,
    ) {
        let Some(resume) = self.careful_resume.as_mut() else {
            return;
        };

        if epoch != Epoch::Application {
            return;
        }

        // Probes do not wait.
        let pacer = self.pacer.as_ref().filter(|_| self.pto_count == 0);

        if let Some(built) = pacer.and_then(|pacer| pacer.last_built()) {
            resume.watch_release(pkt.pkt_num, built, now);
        }

        // Most of a connection.
        if resume.is_over() {
            return;
        }

        self.careful_resume_change_on_packet_sent(pkt, now);
    }

    #[inline(never)]
    fn careful_resume_change_on_packet_sent(&mut self, pkt: &Sent, now: Instant) {
        if !pkt.in_flight {
            return;
        }

        let c = self.careful_resume_conditions(now);

        if let Some(resume) = self.careful_resume.as_mut() {
            let is_probe = pkt.is_pmtud_probe;
            let action = resume.on_packet_sent(pkt.pkt_num, is_probe, &c);
            self.apply(action);
        }
    }

    /// Returns whether the packets of an ACK prove that the application does not
    /// pace.
    fn watch_delivery(&mut self, ack_delay: u64, now: Instant) -> bool {
        let largest = self.newly_acked.last().map(|pkt| pkt.pkt_num);

        let Some((resume, largest)) = self.careful_resume.as_mut().zip(largest)
        else {
            return false;
        };

        if !resume.awaits_delivery(largest) {
            return false;
        }

        let ack_delay =
            Duration::from_micros(ack_delay).min(self.rtt_stats.max_ack_delay);
        let pkt_nums = self.newly_acked.iter().map(|pkt| pkt.pkt_num);
        resume.watch_delivery(pkt_nums, ack_delay, now)
    }

    /// Passes an event on, and applies the action.
    fn pass_on(
        &mut self, now: Instant,
        event: impl FnOnce(&mut CarefulResume, &Conditions) -> Action,
    ) {
        let c = self.careful_resume_conditions(now);

        if let Some(resume) = self.careful_resume.as_mut() {
            let action = event(resume, &c);
            self.apply(action);
        }
    }

    fn careful_resume_on_not_paced(&mut self, now: Instant) {
        self.pass_on(now, CarefulResume::on_not_paced);

        warn_not_paced();
    }

    /// Takes an ACK before the controller, which consumes it. Returns what
    /// [`careful_resume_after_ack()`] needs.
    ///
    /// [`careful_resume_after_ack()`]: LegacyRecovery::careful_resume_after_ack
    #[inline]
    pub(super) fn careful_resume_on_acked(
        &mut self, epoch: Epoch, bytes: usize, ack_delay: u64, now: Instant,
    ) -> Option<PendingAck> {
        if epoch != Epoch::Application {
            return None;
        }

        let resume = self.careful_resume.as_ref()?;
        let largest = self.newly_acked.last()?;
        let acked = Acknowledged {
            bytes,
            largest: largest.pkt_num,
            rtt: largest.rtt,
        };
        // Most ACKs of a connection that does not jump.
        let is_plain = resume.is_over_without_jump()
            && !resume.awaits_delivery(acked.largest);

        Some(PendingAck {
            acked,
            is_plain,
            window_before: self.congestion.congestion_window,
            is_unpaced: !is_plain && self.examine_ack(bytes, ack_delay, now),
        })
    }

    /// Passes an ACK to the phase and to the watchdog. Returns whether it proves
    /// that the application does not pace.
    #[inline(never)]
    fn examine_ack(
        &mut self, bytes: usize, ack_delay: u64, now: Instant,
    ) -> bool {
        if self.careful_resume_phase() != Phase::Normal {
            self.careful_resume_change_on_acked(bytes, ack_delay);
        }

        self.watch_delivery(ack_delay, now)
    }

    fn careful_resume_change_on_acked(&mut self, bytes: usize, ack_delay: u64) {
        let newly_acked = &self.newly_acked;
        let largest_acked = self.epochs[Epoch::Application].largest_acked_packet;
        let min_rtt = *self.rtt_stats.min_rtt;
        let ack_delay =
            Duration::from_micros(ack_delay).min(self.rtt_stats.max_ack_delay);
        // RFC 9002, 5.1.
        let sample = newly_acked
            .last()
            .filter(|pkt| bytes > 0 && largest_acked == Some(pkt.pkt_num))
            .map(|pkt| adjusted_rtt(pkt.rtt, ack_delay, min_rtt));

        let Some(resume) = self.careful_resume.as_mut() else {
            return;
        };

        if let Some(rtt) = sample {
            resume.on_rtt_sample(rtt);
        }

        resume.on_acked(newly_acked.iter().map(|pkt| pkt.pkt_num), bytes);
    }

    #[inline]
    pub(super) fn careful_resume_after_ack(
        &mut self, pending: Option<PendingAck>, now: Instant,
    ) {
        let Some(pending) = pending else {
            return;
        };

        if pending.is_plain {
            self.observe(&pending.acked, now);
        } else {
            // A copy, lest every ACK is written to memory for the call.
            let pending = pending;
            self.careful_resume_change(&pending, now);
        }
    }

    #[inline(never)]
    fn careful_resume_change(&mut self, pending: &PendingAck, now: Instant) {
        let acked = &pending.acked;

        self.limit_growth_after_jump(pending.window_before, acked.bytes, now);

        if pending.is_unpaced {
            self.careful_resume_on_not_paced(now);
        }

        self.observe(acked, now);

        if self.careful_resume_phase() != Phase::Normal {
            self.careful_resume_change_after_ack(acked, now);
        }

        self.suppress_rate_reduction();
    }

    #[inline]
    fn observe(&mut self, acked: &Acknowledged, now: Instant) {
        let Some(resume) = self.careful_resume.as_mut() else {
            return;
        };

        let cwnd = self.congestion.congestion_window;
        let is_slow_start = cwnd < self.congestion.ssthresh.get();
        // RFC 9959, 4.1: in slow start the window is not yet the path's limit.
        let limit = match self.congestion.app_limited {
            true => FlightLimit::Application,
            false if is_slow_start => FlightLimit::Growth,
            false => FlightLimit::Path,
        };
        resume.observe(acked, self.rtt_stats.min_rtt(), limit, now);
    }

    /// Lets packets leave as ACKs of the initial window release them, without
    /// pacing: the path has spread these ACKs already, and bursts may be as
    /// long as the initial window (RFC 9002, 7.7). At the jump they are all in
    /// flight, and count in the pipe size (RFC 9959, 3.3). On a path with other
    /// flows it costs packets, and without a jump it is of no use.
    fn clock_by_acks(&mut self) {
        let burst = self.initial_window();

        if let Some(pacer) = self.pacer.as_mut() {
            pacer.allow_burst(burst);
        }
    }

    /// Limits the growth after a jump (RFC 9959, 3.4): the controller has grown
    /// its window from `before`.
    fn limit_growth_after_jump(
        &mut self, before: usize, bytes: usize, now: Instant,
    ) {
        if !self
            .careful_resume
            .as_ref()
            .is_some_and(CarefulResume::limits_growth)
        {
            return;
        }

        let ack = self.overshoot_ack(before, bytes, now);
        let soft_growth = self
            .careful_resume
            .as_mut()
            .and_then(CarefulResume::soft_growth);

        if let Some((soft_growth, ack)) = soft_growth.zip(ack) {
            let verdict = soft_growth.on_ack(&ack);
            self.apply_growth(&ack, verdict);
        }
    }

    fn careful_resume_change_after_ack(
        &mut self, acked: &Acknowledged, now: Instant,
    ) {
        let c = self.careful_resume_conditions(now);

        if let Some(resume) = self.careful_resume.as_mut() {
            let action = resume.after_ack(acked, &c);
            self.apply(action);
        }

        if self
            .careful_resume
            .as_ref()
            .is_some_and(CarefulResume::may_jump)
        {
            self.clock_by_acks();
        }
    }

    /// Turns proportional rate reduction off after a retreat (RFC 9959, 4.5):
    /// it is immediate, also for packets that were sent before and are
    /// acknowledged later.
    fn suppress_rate_reduction(&mut self) {
        let resume = self.careful_resume.as_ref();

        if resume.is_some_and(CarefulResume::last_reduction_was_retreat) {
            self.congestion.prr = Default::default();
        }
    }

    /// Tells Careful Resume and the controller of a loss.
    pub(super) fn on_congestion_event(
        &mut self, lost_bytes: usize, largest_lost: &Sent, now: Instant,
    ) {
        self.answer_congestion(
            Trigger::PacketLoss,
            lost_bytes,
            largest_lost,
            now,
        );
    }

    /// Tells Careful Resume and the controller of congestion that a packet met:
    /// the largest one that is lost, or that an ACK with marks acknowledges.
    pub(super) fn answer_congestion(
        &mut self, trigger: Trigger, lost_bytes: usize, largest: &Sent,
        now: Instant,
    ) {
        let c = self.careful_resume_conditions(now);
        let action = self
            .careful_resume
            .as_mut()
            .map_or(Action::Keep, |resume| resume.on_congestion(trigger, &c));

        // The window of a jump says nothing about the path: the controller
        // remembers the pipe size of this event (as CUBIC's plateau).
        if let Action::Retreat { pipe_size, .. } = action {
            self.congestion.congestion_window =
                pipe_size.min(self.congestion.congestion_window);
        }

        let is_new = !self.congestion.in_congestion_recovery(largest.time_sent);

        (self.congestion.cc_ops.congestion_event)(
            &mut self.congestion,
            self.bytes_in_flight.get(),
            lost_bytes,
            largest,
            now,
        );

        match self.careful_resume.as_mut() {
            Some(resume) if is_new && action == Action::Keep => {
                resume.on_reduced()
            },
            _ => (),
        }

        self.apply(action);
    }

    /// Ends Careful Resume, after the controller has collapsed its window.
    pub(super) fn careful_resume_on_persistent_congestion(
        &mut self, now: Instant,
    ) {
        self.pass_on(now, CarefulResume::on_persistent_congestion);

        if let Some(resume) = self.careful_resume.as_mut() {
            let ssthresh = self.congestion.ssthresh.get();
            resume.settle_again(self.congestion.congestion_window, ssthresh, now);
        }
    }

    pub(super) fn careful_resume_on_path_change(&mut self, now: Instant) {
        self.pass_on(now, CarefulResume::on_path_change);
    }

    pub(super) fn careful_resume_on_new_port(&mut self, now: Instant) {
        self.pass_on(now, CarefulResume::on_rebinding);
    }

    fn careful_resume_phase(&self) -> Phase {
        let resume = self.careful_resume.as_ref();
        resume.map_or(Phase::Normal, CarefulResume::phase)
    }

    /// Whether every packet is paced now, without a burst (RFC 9959, 3.3).
    pub(super) fn careful_resume_paces(&self) -> bool {
        let resume = self.careful_resume.as_ref();
        resume.is_some_and(|r| r.pace().is_some())
    }

    /// Whether the controller must not grow its window on this ACK.
    pub(super) fn careful_resume_holds_window(&self) -> bool {
        let resume = self.careful_resume.as_ref();
        resume.is_some_and(CarefulResume::holds_window)
    }

    /// Applies an action after the controller's own answer.
    fn apply(&mut self, action: Action) {
        match action {
            Action::Keep => (),

            Action::Jump { window } => {
                self.congestion.congestion_window = window;

                if let Some(pacer) = self.pacer.as_mut() {
                    pacer.restart();
                }
            },

            Action::SetWindow { window } => {
                self.congestion.congestion_window = window
            },

            Action::Validate { window } => {
                self.congestion.congestion_window = window;
                self.congestion.hystart.start_over(self.rtt_stats.min_rtt());
            },

            Action::Retreat { window, .. } => {
                let window = window.min(self.congestion.congestion_window);
                self.congestion.congestion_window = window;
                self.congestion.hystart.switch_off();
                self.congestion.prr = Default::default();

                // A spurious loss must not bring the jump back.
                (self.congestion.cc_ops.checkpoint)(&mut self.congestion);
            },

            Action::EndRetreat { ssthresh } => {
                self.congestion.ssthresh.update(ssthresh, false)
            },
        }

        let ceiling = self
            .careful_resume
            .as_ref()
            .and_then(CarefulResume::ceiling);
        self.set_ceiling(ceiling);

        if let Some(resume) = self.careful_resume.as_mut() {
            let ssthresh = self.congestion.ssthresh.get();
            resume.settle(self.congestion.congestion_window, ssthresh);
        }
    }

    /// Makes CUBIC answer the first loss: it begins congestion avoidance at the
    /// ceiling as if there had been congestion, and would ignore the loss of
    /// packets that were sent before.
    pub(in crate::recovery) fn answer_first_loss(&mut self) {
        if self.congestion.ssthresh.startup_exit().is_none() {
            self.congestion.congestion_recovery_start_time = None;
        }
    }

    /// Sets the threshold of slow start to the ceiling, in bytes, unless slow
    /// start has ended. Statistics do not count it as an exit.
    pub(in crate::recovery) fn set_ceiling(&mut self, ceiling: Option<usize>) {
        let ssthresh = &mut self.congestion.ssthresh;

        if ssthresh.startup_exit.is_none() {
            ssthresh.ssthresh = ceiling.unwrap_or(usize::MAX);
        }
    }
}
