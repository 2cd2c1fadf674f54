//! Hooks of slow-start exits in Reno and CUBIC.
//!
//! Phase by phase of Careful Resume (RFC 9959, 4.2.1): in reconnaissance an
//! exit cancels the jump. In unvalidated SEARCH collects data and decides
//! nothing. SEARCH 4.0 keeps the data: it compares with the bytes sent, so that
//! the size of the step does not matter. SEARCH 3.x starts again after the
//! phase, as a jump is no doubling: a small one looks like saturation, a large
//! one hides it. The watch for a standing queue starts again as well, and
//! leaves slow start after a jump to `careful_resume/after_jump.rs`. After a
//! safe retreat the first slow start is over.

use super::*;
use crate::recovery::careful_resume::CarefulResume;
use crate::recovery::careful_resume::Phase;
use crate::recovery::overshoot::room::Room;
use crate::recovery::search::Ack;
use crate::recovery::search::Exit;
use crate::recovery::slow_start::rapid::Convergence;
use crate::recovery::slow_start::SearchForm;
use crate::recovery::slow_start::SlowStartEndReason;
use crate::recovery::StartupExitReason;
use crate::recovery::MINIMUM_WINDOW_PACKETS;

/// While the window drains, one packet leaves for this number of arrivals.
const DRAIN_ACKED_PER_SENT: usize = 3;

impl LegacyRecovery {
    /// Takes `bytes` in flight that were sent.
    pub(super) fn slow_start_on_sent(&mut self, bytes: usize) {
        self.slow_start.window = self.congestion.congestion_window;

        if let Some(search) = self.slow_start.search.as_mut() {
            search.on_sent(bytes);
        }
    }

    /// Limits the growth of the window, which the controller has grown from
    /// `before` on an ACK, if a queue may stand.
    fn limit_growth(&mut self, before: usize, bytes: usize, now: Instant) {
        let phase = self.careful_resume.as_ref().map(CarefulResume::phase);
        let is_limited = self
            .careful_resume
            .as_ref()
            .is_some_and(CarefulResume::limits_growth);

        // After a jump, Careful Resume limits the growth.
        if is_limited || self.slow_start.queue.is_none() {
            return;
        }

        match phase {
            // A jump is no doubling.
            Some(Phase::Unvalidated) => {
                self.slow_start.queue = Some(Box::default());
                return;
            },

            // A retreat without a congestion event has no further consequence.
            Some(Phase::SafeRetreat) => {
                self.slow_start.queue = None;
                return;
            },

            _ => (),
        }

        let ack = self.overshoot_ack(before, bytes, now);

        if let Some((watch, ack)) = self.slow_start.queue.as_mut().zip(ack) {
            watch.path.on_ack(&ack);
            let growth = watch.growth(&ack);
            let verdict = watch.doubling.on_ack(&mut watch.path, &ack, growth);
            self.apply_growth(&ack, verdict);
        }
    }

    /// Takes an ACK after the controller, before Careful Resume.
    pub(super) fn slow_start_on_ack(
        &mut self, before: usize, bytes: usize, now: Instant,
    ) {
        if self.slow_start.is_over() {
            self.look_for_room(before, bytes, now);
            return;
        }

        self.limit_growth(before, bytes, now);
        self.converge_on_ack(bytes);
        self.drain(bytes);
        self.search(bytes, now);

        if self.congestion.hystart.in_css() {
            self.slow_start.stats.conservative_since.get_or_insert(now);
        }

        if let Some(exit) = self.congestion.ssthresh.startup_exit() {
            let reason = match exit.reason {
                StartupExitReason::BandwidthPlateau => SlowStartEndReason::Search,
                StartupExitReason::PersistentQueue => SlowStartEndReason::Queue,
                StartupExitReason::ConservativeSlowStartRounds => {
                    SlowStartEndReason::HyStart
                },
                _ => SlowStartEndReason::Loss,
            };
            self.end_slow_start(reason, now);
        }

        self.slow_start.window = self.congestion.congestion_window;
    }

    /// Takes a loss before the controller. CUBIC begins congestion avoidance at
    /// a queue as if there had been congestion, and would not answer the loss
    /// of packets that were sent before (RFC 9002, 7.3.2).
    pub(super) fn slow_start_before_loss(&mut self) {
        if self.slow_start.room.is_some() {
            self.congestion.congestion_recovery_start_time = None;
        }
    }

    /// Takes a loss after the controller.
    pub(super) fn slow_start_on_loss(&mut self, lost: usize, now: Instant) {
        self.slow_start.drain = None;
        self.slow_start.room = None;
        self.begin_convergence();
        self.converge(|convergence| convergence.on_lost(lost));

        if self.congestion.ssthresh.startup_exit().is_some() {
            self.end_slow_start(SlowStartEndReason::Loss, now);
        }
    }

    /// Continues slow start once the queue at which it ended is gone.
    fn look_for_room(&mut self, before: usize, bytes: usize, now: Instant) {
        let app_limited = self.congestion.app_limited;
        let ack = self.ack_of(before, bytes, now);
        let room = self.slow_start.room.as_mut().zip(ack);
        let gone = room.and_then(|(room, ack)| room.on_ack(&ack, app_limited));

        if let Some(gone) = gone {
            self.slow_start.go_on(gone);
            let ssthresh = &mut self.congestion.ssthresh;
            ssthresh.ssthresh = usize::MAX;
            ssthresh.startup_exit = None;
            // The next congestion avoidance starts from its beginning.
            self.congestion.congestion_recovery_start_time = None;
        }
    }

    /// Ends Rapid Start at the first loss.
    fn begin_convergence(&mut self) {
        let is_loss = self.congestion.ssthresh.startup_exit().is_some();
        let phase = self.careful_resume.as_ref().map(CarefulResume::phase);
        // Careful Resume answers the loss of a jump.
        let is_jump =
            !matches!(phase, None | Some(Phase::Reconnaissance | Phase::Normal));

        if !self.slow_start.is_rapid() || is_jump || !is_loss {
            return;
        }
        let sent = self.epochs[Epoch::Application].sent_packets.back();
        let last_packet = sent.map_or(0, |pkt| pkt.pkt_num);
        let after = self.congestion.ssthresh.get();
        let convergence =
            Convergence::new(self.slow_start.window, after, last_packet);

        // Persistent congestion may have left less.
        if self.congestion.congestion_window == after {
            self.congestion.congestion_window = convergence.window();
            self.slow_start.convergence = Some(convergence);
        }
    }

    /// Sets the window to what `event` makes of it, if that is less.
    fn converge(&mut self, event: impl FnOnce(&mut Convergence)) {
        let Some(convergence) = self.slow_start.convergence.as_mut() else {
            return;
        };
        event(convergence);

        let least = MINIMUM_WINDOW_PACKETS * self.max_datagram_size;
        let window = convergence.window().max(least);
        let congestion = &mut self.congestion;
        congestion.congestion_window = congestion.congestion_window.min(window);
        congestion.ssthresh.ssthresh = congestion.congestion_window;
        // Nothing beyond the window may leave.
        congestion.prr.snd_cnt = 0;
    }

    fn converge_on_ack(&mut self, bytes: usize) {
        let epoch = &self.epochs[Epoch::Application];
        let largest_acked = epoch.largest_acked_packet.unwrap_or(0);
        self.converge(|convergence| convergence.on_acked(bytes));

        let convergence = self.slow_start.convergence;
        if let Some(last) = convergence.filter(|c| c.is_over(largest_acked)) {
            self.slow_start.convergence = None;
            self.congestion.set_cubic_plateau(last.plateau());
        }
    }

    fn end_slow_start(&mut self, reason: SlowStartEndReason, now: Instant) {
        let ssthresh = self.congestion.ssthresh.get();

        if self.slow_start.on_end(reason, ssthresh, now) {
            if reason == SlowStartEndReason::Queue {
                let is_known = self
                    .careful_resume
                    .as_ref()
                    .is_some_and(CarefulResume::has_jumped);
                self.slow_start.room = Some(Box::new(Room::new(is_known)));
            }

            if let Some(resume) = self.careful_resume.as_mut() {
                resume.on_slow_start_exit();
            }
        }
    }

    fn search(&mut self, bytes: usize, now: Instant) {
        let phase = self.careful_resume.as_ref().map(CarefulResume::phase);
        let is_slow_start =
            self.congestion.congestion_window < self.congestion.ssthresh.get();
        let Some(search) = self.slow_start.search.as_mut() else {
            return;
        };

        // There is no RTT sample yet.
        if self.rtt_stats.min_rtt().is_none() {
            return;
        }

        let evaluation = search.on_ack(&Ack {
            now,
            rtt: self.rtt_stats.latest_rtt,
            bytes,
            limited: self.congestion.app_limited,
        });

        match phase {
            Some(Phase::Unvalidated) => {
                if search.config().form == SearchForm::DeliveredOnly {
                    search.forget();
                }
            },

            // A retreat without a congestion event has no further consequence.
            Some(Phase::SafeRetreat) => self.slow_start.search = None,

            _ if is_slow_start => {
                let is_exit = evaluation.is_some_and(|e| e.is_exit);
                #[cfg(feature = "qlog")]
                self.slow_start.keep_for_log(evaluation);

                if is_exit {
                    self.leave_slow_start();
                }
            },

            _ => (),
        }
    }

    /// Ends slow start after SEARCH has found saturation.
    fn leave_slow_start(&mut self) {
        let Some(search) = self.slow_start.search.take() else {
            return;
        };
        let window = self.congestion.congestion_window;
        let initial_window = self.initial_window();

        let ssthresh = match search.exit(window, initial_window) {
            Exit::Cut(cut) => {
                self.congestion.congestion_window = cut.min(window);
                cut
            },

            // The window beyond the bytes in flight is of no use.
            Exit::Drain(target) => {
                let in_flight = self.bytes_in_flight.get();
                let window = window.min(in_flight.max(target));
                self.congestion.congestion_window = window;
                self.slow_start.drain = (window > target).then_some(target);
                target
            },
        };

        let reason = StartupExitReason::BandwidthPlateau;
        let exit = StartupExit::new(ssthresh, None, reason);
        self.congestion.ssthresh.ssthresh = ssthresh;
        self.congestion.ssthresh.startup_exit = Some(exit);
    }

    /// Drains the window after `bytes` have arrived: a part of them may be
    /// replaced.
    fn drain(&mut self, bytes: usize) {
        let Some(target) = self.slow_start.drain else {
            return;
        };
        let arrived = bytes - bytes / DRAIN_ACKED_PER_SENT;
        let window = &mut self.congestion.congestion_window;

        *window = window.saturating_sub(arrived).max(target);

        // The controller has seen none of this: congestion avoidance begins
        // with the next ACK, and the window at that time is CUBIC's plateau.
        if *window == target {
            self.slow_start.drain = None;
        }
    }
}

#[cfg(test)]
#[path = "hooks_tests.rs"]
mod tests;
