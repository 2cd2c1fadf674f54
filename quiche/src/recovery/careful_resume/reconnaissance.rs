//! Reconnaissance phase: the initial window, and the decision to jump (RFC
//! 9959, 3.2).

use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use super::current_rtt::CurrentRtt;
use super::jump_decision;
use super::jump_record::Jump;
use super::normal::Normal;
use super::state::Transition;
use super::unvalidated::Unvalidated;
use super::CarefulResumeConfig;
use super::Conditions;
use super::Trigger;
use crate::path_state::PathState;

/// Saved parameters, and how long this connection may jump with them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Saved {
    pub(super) state: PathState,
    pub(super) jump_before: Instant,
    pub(super) expires: Instant,
}

impl Saved {
    fn new(
        state: PathState, jump_before: Instant, wall_now: SystemTime,
        now: Instant,
    ) -> Self {
        let left = state.expires.duration_since(wall_now).unwrap_or_default();
        let expires = if state.is_expired(wall_now) {
            now
        } else {
            now.checked_add(left).unwrap_or(jump_before)
        };

        Saved {
            state,
            jump_before,
            expires,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Reconnaissance {
    saved: Option<Saved>,

    /// The saved parameters are for the decision alone.
    is_dry_run: bool,

    pub(super) current_rtt: CurrentRtt,

    /// The packet that filled the initial window.
    pub(super) initial_end: Option<u64>,

    /// An ACK of the handshake had come before that packet was sent.
    is_handshake_acked: bool,

    /// The packets up to that one that are not acknowledged yet, in order.
    initial_unacked: Vec<u64>,

    /// The next packet will fill the initial window.
    is_initial_end_next: bool,

    /// The first packet after all of that was acknowledged that filled the window
    /// again.
    refilled: Option<u64>,

    largest_sent: u64,
}

impl Reconnaissance {
    pub(super) fn saved(&self) -> Option<PathState> {
        let saved = self.saved.filter(|_| !self.is_dry_run);
        saved.map(|saved| saved.state)
    }

    /// Takes saved parameters. Returns false if it has some already.
    pub(super) fn offer(
        &mut self, state: PathState, jump_before: Instant, wall_now: SystemTime,
        now: Instant,
    ) -> bool {
        if self.saved().is_some() {
            return false;
        }

        self.saved = Some(Saved::new(state, jump_before, wall_now, now));
        self.is_dry_run = false;

        true
    }

    /// Takes saved parameters for the decision alone, unless it has some to jump
    /// with.
    pub(super) fn offer_dry_run(
        &mut self, state: PathState, jump_before: Instant, wall_now: SystemTime,
        now: Instant,
    ) {
        if self.saved().is_none() {
            self.saved = Some(Saved::new(state, jump_before, wall_now, now));
            self.is_dry_run = true;
        }
    }

    /// Whether the peer should not delay the ACK of the next packet, which may
    /// bring the jump. Saved parameters may still be given.
    pub(super) fn needs_prompt_ack(&self) -> bool {
        self.is_initial_end_next
    }

    pub(super) fn on_packet_sent(
        &mut self, pkt_num: u64, is_mtu_probe: bool, c: &Conditions,
    ) {
        self.largest_sent = self.largest_sent.max(pkt_num);
        self.is_initial_end_next = false;

        if self.initial_end.is_some() {
            let left = c.cwnd.saturating_sub(c.flight_size);

            if self.initial_unacked.is_empty() && left < c.max_datagram_size {
                self.refilled.get_or_insert(pkt_num);
            }

            return;
        }

        // A probe of the MTU may be lost without congestion.
        if !is_mtu_probe {
            self.initial_unacked.push(pkt_num);
        }

        let left = c.initial_window.saturating_sub(c.flight_size);

        if left < c.max_datagram_size {
            self.initial_end = Some(pkt_num);
            self.is_handshake_acked = c.min_rtt.is_some();
        } else {
            self.is_initial_end_next = left < 2 * c.max_datagram_size;
        }
    }

    pub(super) fn on_rtt_sample(&mut self, rtt: Duration) {
        self.current_rtt.on_sample(rtt);
    }

    pub(super) fn on_acked(&mut self, pkt_nums: impl Iterator<Item = u64>) {
        // A connection that sends little but ACKs stays in reconnaissance: most
        // of what is acknowledged was not in flight, and lies before what is.
        let Some(first) = self.initial_unacked.first().copied() else {
            return;
        };

        for pkt_num in pkt_nums.filter(|pkt_num| *pkt_num >= first) {
            if let Ok(i) = self.initial_unacked.binary_search(&pkt_num) {
                self.initial_unacked.remove(i);
            }
        }
    }

    /// Takes an ACK whose largest newly acknowledged packet is `largest`.
    pub(super) fn after_ack(
        &self, largest: u64, config: &CarefulResumeConfig, c: &Conditions,
    ) -> Option<Transition> {
        // RFC 9959, 4.2.1: a longer RTT, or less delivered than was sent, is a
        // hint that even this little queues.
        if c.has_left_slow_start {
            return Some(self.leave(Trigger::SlowStartExit));
        }

        self.consider_jump(largest, config, c)
    }

    /// Ends Careful Resume without a jump.
    pub(super) fn leave(&self, trigger: Trigger) -> Transition {
        Transition::end(Normal::NoJump, trigger)
    }

    /// RFC 9959, 3.2: when an ACK covers the initial data, and more is waiting
    /// than the window lets go.
    fn consider_jump(
        &self, largest: u64, config: &CarefulResumeConfig, c: &Conditions,
    ) -> Option<Transition> {
        if self.initial_end.is_none() || !self.initial_unacked.is_empty() {
            return None;
        }

        // A small document needs no saved parameters, but what the peer asks for
        // next may. Without them, it is a download that fills the window again.
        let Some(saved) = self.saved else {
            let is_download = self.refilled.is_some_and(|end| largest >= end);
            return is_download.then(|| self.leave(Trigger::NoSavedSet));
        };

        let min_rtt = c.min_rtt.filter(|_| c.window_limited)?;
        let jump =
            jump_decision::jump_cwnd(config, &saved, min_rtt, c.cwnd, c.now);

        Some(match jump {
            Ok(_) if self.is_dry_run => self.leave(Trigger::DryRun),
            Ok(jump_cwnd) => {
                let trigger = Trigger::CongestionWindowLimited;
                self.jump(trigger, saved.state, jump_cwnd, c)
            },
            Err(trigger) => self.leave(trigger),
        })
    }

    /// The experiment `early_jump`: when the initial window is sent and nothing
    /// of it acknowledged, and more is waiting. If it is a response to early
    /// data, it was sent before the handshake's ACKs, and all ACKs come together.
    /// A dry run waits, since parameters to jump with may follow.
    pub(super) fn consider_early_jump(
        &self, config: &CarefulResumeConfig, c: &Conditions,
    ) -> Option<Transition> {
        let saved = self.saved.as_ref()?;
        let is_due = self.is_handshake_acked
            && !self.is_dry_run
            && self.current_rtt.get().is_none()
            && c.window_limited
            && !c.has_left_slow_start;
        let min_rtt = c.min_rtt.filter(|_| is_due)?;
        let jump_cwnd = jump_decision::early_jump_cwnd(
            config, saved, min_rtt, c.cwnd, c.now,
        )?;

        Some(self.jump(Trigger::HandshakeAcknowledged, saved.state, jump_cwnd, c))
    }

    fn jump(
        &self, trigger: Trigger, saved: PathState, cwnd: usize, c: &Conditions,
    ) -> Transition {
        let jump = Jump {
            saved,
            cwnd,
            // RFC 9959, 3.3: PipeSize starts from flight_size, not from CWND.
            pipe_size: c.flight_size,
            first_unvalidated: None,
            last_unvalidated: None,
            largest_sent: self.largest_sent,
        };
        let rtt = self.current_rtt.get().unwrap_or(c.rtt);

        Unvalidated::enter(jump, trigger, rtt, c)
    }
}
