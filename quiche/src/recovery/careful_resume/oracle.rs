//! Oracle for tests: a second model of Careful Resume, written from the
//! requirements of RFC 9959 and the choices in FORK.md, not from the engine.
//!
//! It has what the RFC adds to a controller: the phase, the pipe size, when the
//! window is set, when it must not grow, and why a phase ends. The window of
//! normal operation, packets and RTTs are its input. If the RFC allows several
//! reasons, any of them is right.

use super::*;
use std::collections::BTreeSet;

/// The path and its controller, after an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct ControllerView {
    pub(super) now: Instant,
    /// The window that the controller alone would have, in bytes.
    pub(super) window: usize,
    /// Bytes in flight.
    pub(super) flight_size: usize,
    pub(super) app_limited: bool,
    /// Slow start is over, or in its conservative form.
    pub(super) has_left_slow_start: bool,
}

/// Order to the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Set the window, in bytes.
    Window(usize),

    /// At most half of the pipe size, at once.
    Retreat { pipe_size: usize, window: usize },

    /// Set the slow-start threshold to at most this number of bytes.
    Ssthresh(usize),
}

/// A change of phase, and every reason that would be right.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) old: Option<Phase>,
    pub(super) new: Phase,
    pub(super) triggers: Vec<Trigger>,
    /// The controller's window and threshold after it, in bytes.
    pub(super) state: Option<(usize, usize)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SavedSet {
    /// In bytes.
    pub(super) saved_cwnd: usize,
    pub(super) saved_rtt: Duration,
    /// The Lifetime has passed then.
    pub(super) expires: Instant,
    /// The claim is good before then.
    pub(super) jump_before: Instant,
    /// Something other than the path limited the observation.
    pub(super) limited: bool,
}

#[derive(Clone, Copy, Debug)]
struct OracleJump {
    window: usize,
    since: Instant,
    rtt: Duration,
}

#[derive(Debug)]
pub(super) struct Oracle {
    phase: Phase,
    mds: usize,
    initial_window: usize,
    max_jump: usize,
    has_ceiling: bool,

    saved: Option<SavedSet>,
    min_rtt: Option<Duration>,
    /// Samples of reconnaissance.
    rtts: Vec<Duration>,
    is_initial_data_sent: bool,
    initial_unacked: BTreeSet<u64>,
    /// The first packet that filled the window once those were acknowledged.
    refilled: Option<u64>,

    pub(super) pipe_size: usize,
    jump: Option<OracleJump>,
    pub(super) first_unvalidated: Option<u64>,
    pub(super) last_unvalidated: Option<u64>,
    last_sent: Option<u64>,

    /// Steps that the test has not compared yet.
    pub(super) steps: Vec<Step>,
    pub(super) jumps: usize,
    /// Whether neither a rate limit nor another path intervened.
    is_trusted: bool,
}

impl Oracle {
    /// Lengths in bytes.
    pub(super) fn new(
        mds: usize, initial_window: usize, max_jump: usize, has_ceiling: bool,
    ) -> Self {
        Oracle {
            phase: Phase::Reconnaissance,
            mds,
            initial_window,
            max_jump,
            has_ceiling,
            saved: None,
            min_rtt: None,
            rtts: vec![],
            is_initial_data_sent: false,
            initial_unacked: BTreeSet::new(),
            refilled: None,
            pipe_size: 0,
            jump: None,
            first_unvalidated: None,
            last_unvalidated: None,
            last_sent: None,
            steps: Vec::new(),
            jumps: 0,
            is_trusted: true,
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// C6 and E3: ACKs do not grow the window.
    pub(super) fn holds_window(&self) -> bool {
        matches!(self.phase, Phase::Unvalidated | Phase::SafeRetreat)
    }

    /// Returns where slow start ends, in bytes, unless something else ends it:
    /// at the
    /// capacity that was seen, from the jump on, while nothing says that the
    /// set does not fit the path. What is saved is at most twice max_jump.
    pub(super) fn ceiling(&self) -> Option<usize> {
        let saved = self.saved?;
        let tells_capacity =
            !saved.limited && saved.saved_cwnd < 2 * self.max_jump;
        let is_in_force = self.has_ceiling && self.jumps > 0 && self.is_trusted;

        (tells_capacity && is_in_force).then_some(saved.saved_cwnd)
    }

    /// A connection uses its saved parameters before reconnaissance is over.
    pub(super) fn given(&mut self, saved: SavedSet) -> bool {
        if self.phase != Phase::Reconnaissance || self.saved.is_some() {
            return false;
        }

        self.saved = Some(saved);
        self.steps.push(Step {
            old: None,
            new: Phase::Reconnaissance,
            triggers: vec![],
            state: None,
        });
        true
    }

    pub(super) fn sent(
        &mut self, number: u64, is_mtu_probe: bool, path: &ControllerView,
    ) -> Option<Order> {
        self.last_sent = Some(number);

        // B8: the initial data end with the packet after which the initial
        // window has no room for a full one. A probe of the MTU is not data.
        if !self.is_initial_data_sent {
            let is_full = path.flight_size + self.mds > self.initial_window;
            self.is_initial_data_sent = is_full;
            if !is_mtu_probe {
                self.initial_unacked.insert(number);
            }
        } else if self.initial_unacked.is_empty() && self.refilled.is_none() {
            let is_full = path.flight_size + self.mds > path.window;
            self.refilled = is_full.then_some(number);
        }

        let jump = self.jump.filter(|_| self.phase == Phase::Unvalidated)?;
        self.first_unvalidated.get_or_insert(number);
        self.last_unvalidated = Some(number);

        // C9 and C11.
        let mut triggers = vec![];
        if path.flight_size + self.mds > jump.window {
            triggers.push(Trigger::LastUnvalidatedPacketSent);
        }
        if self.jump_is_older_than_an_rtt(path.now) {
            triggers.push(Trigger::RttExceeded);
        }
        self.leave_unvalidated(triggers, path)
    }

    /// An ACK newly acknowledges these packets; losses are not looked for yet.
    pub(super) fn acknowledged(
        &mut self, packets: &[u64], bytes: usize, sample: Option<Duration>,
    ) {
        if self.phase == Phase::Reconnaissance {
            self.rtts.extend(sample);
        }
        for number in packets {
            self.initial_unacked.remove(number);
        }
        if let Some(rtt) = sample {
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
        }

        // C6, D1, E5.
        if !matches!(self.phase, Phase::Reconnaissance | Phase::Normal) {
            self.pipe_size += bytes;
        }
    }

    /// Packets were lost.
    pub(super) fn congested(&mut self, trigger: Trigger) -> Option<Order> {
        match self.phase {
            // B2: normal congestion control answers.
            Phase::Reconnaissance => {
                self.step(Phase::Normal, vec![trigger]);
                None
            },
            // C8, D3.
            Phase::Unvalidated | Phase::Validating => {
                Some(self.retreat(vec![trigger]))
            },
            Phase::SafeRetreat | Phase::Normal => None,
        }
    }

    /// F1.
    pub(super) fn persistently_congested(&mut self) -> Option<Order> {
        let was = self.phase;
        if was != Phase::Normal {
            self.step(Phase::Normal, vec![Trigger::PersistentCongestion]);
        }

        // E7: on leaving, whichever way.
        (was == Phase::SafeRetreat).then(|| self.end_of_retreat())
    }

    /// B4, C7. The RFC is silent about the validating phase: it ends as well.
    pub(super) fn path_changed(&mut self) -> Option<Order> {
        self.is_trusted &= self.jumps == 0;

        match self.phase {
            Phase::Reconnaissance | Phase::Validating => {
                self.step(Phase::Normal, vec![Trigger::PathChanged]);
                None
            },
            Phase::Unvalidated => Some(self.retreat(vec![Trigger::PathChanged])),
            _ => None,
        }
    }

    /// The ACK whose largest newly acknowledged packet is `largest` has been
    /// dealt with otherwise.
    pub(super) fn after_ack(
        &mut self, largest: u64, path: &ControllerView,
    ) -> Option<Order> {
        match self.phase {
            Phase::Reconnaissance => {
                self.after_ack_in_reconnaissance(largest, path)
            },
            Phase::Unvalidated => self.after_ack_in_unvalidated(largest, path),
            Phase::Validating => {
                // D4.
                if self.covers_last_unvalidated(largest) {
                    self.step(
                        Phase::Normal,
                        vec![Trigger::LastUnvalidatedPacketAcknowledged],
                    );
                }
                None
            },
            // E6, E7.
            Phase::SafeRetreat => {
                if !self.covers_last_unvalidated(largest) {
                    return None;
                }
                self.step(Phase::Normal, vec![Trigger::ExitRecovery]);
                Some(self.end_of_retreat())
            },
            Phase::Normal => None,
        }
    }

    fn after_ack_in_reconnaissance(
        &mut self, largest: u64, path: &ControllerView,
    ) -> Option<Order> {
        // B12.
        if path.has_left_slow_start {
            self.step(Phase::Normal, vec![Trigger::SlowStartExit]);
            return None;
        }

        // B8.
        if !self.is_initial_data_sent || !self.initial_unacked.is_empty() {
            return None;
        }

        // B4: for a download, which fills the window beyond the initial data.
        let Some(saved) = self.saved else {
            if self.refilled.is_some_and(|number| number <= largest) {
                self.step(Phase::Normal, vec![Trigger::NoSavedSet]);
            }
            return None;
        };

        // B9, and B6 needs an RTT.
        if path.app_limited || self.min_rtt.is_none() {
            return None;
        }

        // C2.
        let half = saved.saved_cwnd / 2;
        let window = self.beside_queue(half, saved.saved_rtt).min(self.max_jump);
        let refusals = self.refusals(&saved, window, path);
        if !refusals.is_empty() {
            self.step(Phase::Normal, refusals);
            return None;
        }

        // C1.
        self.pipe_size = path.flight_size;
        self.jumps += 1;
        self.jump = Some(OracleJump {
            window,
            since: path.now,
            rtt: self.current_rtt(),
        });
        self.step(Phase::Unvalidated, vec![Trigger::CongestionWindowLimited]);
        Some(Order::Window(window))
    }

    /// An RTT that is longer by a part, a 32nd or more, takes that part of the
    /// jump, three quarters at most.
    fn beside_queue(&self, window: usize, saved_rtt: Duration) -> usize {
        let min_rtt = self.min_rtt.unwrap_or(saved_rtt);
        let all = saved_rtt.as_nanos();
        let longer = min_rtt.as_nanos().saturating_sub(all);
        let left = match longer < all / 32 {
            true => all,
            false => (all - longer.min(all)).max(all / 4),
        };
        (window as u128 * left / all) as usize
    }

    /// C3, C4: the minimum of the last eight samples.
    fn current_rtt(&self) -> Duration {
        let latest = self.rtts.iter().rev().take(8);
        *latest.min().expect("B6 needs one")
    }

    /// Every reason not to jump.
    fn refusals(
        &self, saved: &SavedSet, window: usize, path: &ControllerView,
    ) -> Vec<Trigger> {
        let mut refusals = vec![];

        // B3.
        if path.now >= saved.jump_before {
            refusals.push(Trigger::ClaimLapsed);
        }
        // B5.
        if path.now >= saved.expires {
            refusals.push(Trigger::LifetimePassed);
        }
        // B6, B7, B10.
        let is_longer =
            self.min_rtt.is_some_and(|min| min > saved.saved_rtt * 10);
        if is_longer || self.rtt_is_half_or_less(saved) {
            refusals.push(Trigger::RttNotValidated);
        }
        if window <= path.window {
            refusals.push(Trigger::JumpNotLarger);
        }
        refusals
    }

    fn after_ack_in_unvalidated(
        &mut self, largest: u64, path: &ControllerView,
    ) -> Option<Order> {
        // C7.
        if self
            .saved
            .is_some_and(|saved| self.rtt_is_half_or_less(&saved))
        {
            return Some(self.retreat(vec![Trigger::PathChanged]));
        }

        // C10, C11.
        let mut triggers = vec![];
        if self.first_unvalidated.is_some_and(|first| largest >= first) {
            triggers.push(Trigger::FirstUnvalidatedPacketAcknowledged);
        }
        if self.jump_is_older_than_an_rtt(path.now) {
            triggers.push(Trigger::RttExceeded);
        }
        let order = self.leave_unvalidated(triggers, path);

        // D4: this very ACK may cover the last one, too.
        if self.phase == Phase::Validating {
            self.after_ack(largest, path);
        }
        order
    }

    /// C12 and C13.
    fn leave_unvalidated(
        &mut self, triggers: Vec<Trigger>, path: &ControllerView,
    ) -> Option<Order> {
        if triggers.is_empty() {
            return None;
        }

        let flight_size = path.flight_size;
        if flight_size < self.initial_window || flight_size <= self.pipe_size {
            self.is_trusted = false;
            self.step(Phase::Normal, vec![Trigger::RateLimited]);
            return Some(Order::Window(self.pipe_size.max(self.initial_window)));
        }

        self.step(Phase::Validating, triggers);
        Some(Order::Window(flight_size))
    }

    /// E2.
    fn retreat(&mut self, triggers: Vec<Trigger>) -> Order {
        self.last_unvalidated = self.last_unvalidated.or(self.last_sent);
        self.is_trusted = false;
        self.step(Phase::SafeRetreat, triggers);

        Order::Retreat {
            pipe_size: self.pipe_size,
            window: (self.pipe_size / 2).max(2 * self.mds),
        }
    }

    /// E7. No window is below two packets, so that a threshold there acts as
    /// any lower one.
    fn end_of_retreat(&self) -> Order {
        Order::Ssthresh((self.pipe_size / 2).max(2 * self.mds))
    }

    fn covers_last_unvalidated(&self, largest: u64) -> bool {
        self.last_unvalidated.is_some_and(|last| largest >= last)
    }

    fn rtt_is_half_or_less(&self, saved: &SavedSet) -> bool {
        self.min_rtt.is_some_and(|min| min * 2 <= saved.saved_rtt)
    }

    fn jump_is_older_than_an_rtt(&self, now: Instant) -> bool {
        self.jump.is_some_and(|jump| now > jump.since + jump.rtt)
    }

    fn step(&mut self, new: Phase, triggers: Vec<Trigger>) {
        self.steps.push(Step {
            old: Some(self.phase),
            new,
            triggers,
            state: None,
        });
        self.phase = new;
    }
}
