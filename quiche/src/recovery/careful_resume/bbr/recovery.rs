//! Hooks of Careful Resume in BBR's recovery (RFC 9959, appendix C).
//!
//! They pass on the recovery's events, and are the one place where the actions of
//! Careful Resume are applied; `legacy` does the same for Reno and CUBIC.

use super::*;
use crate::clock;
use crate::packet::Epoch;
use crate::path_state::PathState;
use crate::recovery::careful_resume::adjusted_rtt;
use crate::recovery::careful_resume::warn_not_paced;
use crate::recovery::careful_resume::Acknowledged;
use crate::recovery::careful_resume::Action;
use crate::recovery::careful_resume::CarefulResume;
use crate::recovery::careful_resume::Conditions;
use crate::recovery::careful_resume::FlightLimit;
use crate::recovery::careful_resume::Phase;
use crate::recovery::careful_resume::Trigger;
use crate::recovery::gcongestion::CongestionControl;

/// A packet of the application data space that was built.
pub(super) struct BuiltPacket {
    pkt_num: u64,
    is_probe: bool,
    release: Instant,
}

/// An ACK that BBR has yet to answer.
pub(super) struct PendingBbrAck {
    acked: Acknowledged,

    /// Whether it proves that the application does not pace.
    is_unpaced: bool,
}

impl GRecovery {
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
        self.pacer.enable();

        Ok(())
    }

    fn careful_resume_conditions(&self, now: Instant) -> Conditions {
        let bbr = self.pacer.sender();

        Conditions {
            now,
            cwnd: self.cwnd(),
            ssthresh: bbr.startup_window(),
            flight_size: self.bytes_in_flight.get(),
            initial_window: bbr.initial_window(),
            max_datagram_size: self.max_datagram_size,
            rtt: self.rtt_stats.rtt(),
            min_rtt: self.rtt_stats.min_rtt(),
            window_limited: !self.app_limited,
            has_left_slow_start: bbr.has_left_startup(),
        }
    }

    fn careful_resume_phase(&self) -> Phase {
        let resume = self.careful_resume.as_ref();
        resume.map_or(Phase::Normal, CarefulResume::phase)
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

    /// Takes a packet before the pacer. Returns what
    /// [`careful_resume_on_packet_sent()`] needs.
    ///
    /// [`careful_resume_on_packet_sent()`]: GRecovery::careful_resume_on_packet_sent
    pub(super) fn careful_resume_built(
        &mut self, pkt: &Sent, epoch: Epoch, now: Instant,
    ) -> Option<BuiltPacket> {
        let is_taken = self.careful_resume.is_some()
            && epoch == Epoch::Application
            && pkt.in_flight;

        if !is_taken {
            return None;
        }

        let built = BuiltPacket {
            pkt_num: pkt.pkt_num,
            is_probe: pkt.is_pmtud_probe,
            release: self.get_packet_send_time(now),
        };
        self.burst_initial_window(pkt.size);

        Some(built)
    }

    /// Lets the packet after this one, of `size` bytes, leave at once while what
    /// is in flight is within the initial window (RFC 9002, 7.7), so that it is
    /// acknowledged as early (RFC 9959, 3.2).
    fn burst_initial_window(&mut self, size: usize) {
        let flight = self.bytes_in_flight.get() + size;
        let initial_window = self.pacer.sender().initial_window();

        if self.careful_resume_phase() == Phase::Reconnaissance
            && flight < initial_window
        {
            self.pacer.allow_burst();
        }
    }

    /// Takes a packet that was built, which is in flight now.
    pub(super) fn careful_resume_on_packet_sent(
        &mut self, built: Option<BuiltPacket>, now: Instant,
    ) {
        let Some(BuiltPacket {
            pkt_num,
            is_probe,
            release,
        }) = built
        else {
            return;
        };

        self.app_limited = self.bytes_in_flight.get() < self.cwnd();

        let c = self.careful_resume_conditions(now);
        // Probes do not wait.
        let is_watched = self.pto_count == 0;

        let Some(resume) = self.careful_resume.as_mut() else {
            return;
        };

        if is_watched {
            resume.watch_release(pkt_num, now, release);
        }

        if resume.phase() != Phase::Normal {
            let action = resume.on_packet_sent(pkt_num, is_probe, &c);
            self.apply(action);
        }
    }

    /// Takes an ACK before loss detection, and before BBR. Returns what
    /// [`careful_resume_after_ack()`] needs.
    ///
    /// [`careful_resume_after_ack()`]: GRecovery::careful_resume_after_ack
    pub(super) fn careful_resume_on_acked(
        &mut self, epoch: Epoch, bytes: usize, ack_delay: u64, now: Instant,
    ) -> Option<PendingBbrAck> {
        let resume = self.careful_resume.as_mut()?;
        let largest = self.newly_acked.last()?;

        if epoch != Epoch::Application {
            return None;
        }

        let acked = Acknowledged {
            bytes,
            largest: largest.pkt_num,
            rtt: now.saturating_duration_since(largest.time_sent),
        };
        let ack_delay =
            Duration::from_micros(ack_delay).min(self.rtt_stats.max_ack_delay);
        let pkt_nums = || self.newly_acked.iter().map(|pkt| pkt.pkt_num);

        if resume.phase() != Phase::Normal {
            let largest_acked = self.epochs[epoch].largest_acked_packet;

            // RFC 9002, 5.1.
            if bytes > 0 && largest_acked == Some(acked.largest) {
                let min_rtt = *self.rtt_stats.min_rtt;
                resume.on_rtt_sample(adjusted_rtt(acked.rtt, ack_delay, min_rtt));
            }

            resume.on_acked(pkt_nums(), bytes);
        }

        let is_unpaced = resume.awaits_delivery(acked.largest)
            && resume.watch_delivery(pkt_nums(), ack_delay, now);

        Some(PendingBbrAck { acked, is_unpaced })
    }

    /// Takes lost packets, so many, before BBR.
    pub(super) fn careful_resume_on_lost(
        &mut self, packets: usize, now: Instant,
    ) {
        if packets > 0 {
            self.careful_resume_on_congestion(Trigger::PacketLoss, now);
        }
    }

    pub(super) fn careful_resume_on_congestion(
        &mut self, trigger: Trigger, now: Instant,
    ) {
        self.pass_on(now, |resume, c| resume.on_congestion(trigger, c));
    }

    /// Takes an ACK after BBR.
    pub(super) fn careful_resume_after_ack(
        &mut self, pending: Option<PendingBbrAck>, now: Instant,
    ) {
        let Some(PendingBbrAck { acked, is_unpaced }) = pending else {
            return;
        };

        if is_unpaced {
            self.careful_resume_on_not_paced(now);
        }

        // RFC 9959, 4.1: in Startup the window is not yet the path's limit.
        let limit = match self.app_limited {
            true => FlightLimit::Application,
            false if !self.pacer.sender().has_left_startup() => {
                FlightLimit::Growth
            },
            false => FlightLimit::Path,
        };
        let min_rtt = self.rtt_stats.min_rtt();

        if let Some(resume) = self.careful_resume.as_mut() {
            resume.observe(&acked, min_rtt, limit, now);
        }

        if self.careful_resume_phase() != Phase::Normal {
            self.careful_resume_change_after_ack(&acked, now);
        }
    }

    fn careful_resume_change_after_ack(
        &mut self, acked: &Acknowledged, now: Instant,
    ) {
        let mut c = self.careful_resume_conditions(now);

        // RFC 9959, C.1: the larger of the rates. A jump at less than the
        // nominal one is none.
        if self.careful_resume_phase() == Phase::Reconnaissance {
            c.cwnd = c.cwnd.max(self.pacer.sender().nominal_window());
        }

        if let Some(resume) = self.careful_resume.as_mut() {
            let action = resume.after_ack(acked, &c);
            self.apply(action);
        }
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

    pub(super) fn careful_resume_on_path_change(&mut self, now: Instant) {
        self.pass_on(now, CarefulResume::on_path_change);
    }

    pub(super) fn careful_resume_on_new_port(&mut self, now: Instant) {
        self.pass_on(now, CarefulResume::on_rebinding);
    }

    fn apply(&mut self, action: Action) {
        let Some(resume) = self.careful_resume.as_mut() else {
            return;
        };
        let bbr = self.pacer.sender_mut();

        match action {
            Action::Keep => (),

            Action::Jump { window } => {
                // RFC 9959, 3.3 and 4.3.2: jump_cwnd over the current RTT.
                let (rate, catch_up) =
                    resume.pace().map_or_else(Default::default, |pace| {
                        (pace.rate, pace.catch_up)
                    });
                let rate = Bandwidth::from_bytes_per_second(rate);
                bbr.jump(window, rate, catch_up);
                self.pacer.restart();
            },

            Action::SetWindow { window } => bbr.set_window(window),
            Action::Validate { window } => bbr.validate(window),
            Action::Retreat { window, .. } => bbr.retreat(window),
            Action::EndRetreat { ssthresh } => bbr.end_retreat(ssthresh),
        }

        let bbr = self.pacer.sender_mut();

        if resume.phase() == Phase::Normal {
            bbr.end_careful_resume();
        }

        if let Some(ceiling) = resume.ceiling() {
            bbr.limit_startup(ceiling);
        }

        resume.settle(bbr.get_congestion_window(), bbr.startup_window());
    }
}

#[cfg(all(test, feature = "internal"))]
#[path = "recovery_tests.rs"]
mod tests;
