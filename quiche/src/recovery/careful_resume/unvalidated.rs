//! Unvalidated phase: the window has jumped (RFC 9959, 3.3).

use std::time::Duration;
use std::time::Instant;

use super::jump_decision;
use super::jump_record::Jump;
use super::normal::Normal;
use super::safe_retreat::SafeRetreat;
use super::state::State;
use super::state::Transition;
use super::validating::Validating;
use super::Acknowledged;
use super::Action;
use super::Conditions;
use super::Trigger;
use crate::recovery::pacing::Pace;

/// The share of a jump that may leave in one batch.
const BATCH_DIVISOR: usize = 128;

/// By how much any eighth of an RTT may exceed its share of a jump: a quarter of
/// that, or two packets. What a late sender does not catch up with is lost to
/// the jump, and twice as much to the round trip that it clocks.
const EXCESS_DIVISOR: usize = 32;
const EXCESS_PACKETS: usize = 2;

#[derive(Debug)]
pub(super) struct Unvalidated {
    pub(super) jump: Jump,
    since: Instant,

    /// The current RTT at the jump.
    rtt: Duration,

    /// Bytes that may leave at one time.
    batch: usize,

    max_datagram_size: usize,
}

impl Unvalidated {
    /// Jumps; `rtt` is the current RTT.
    pub(super) fn enter(
        jump: Jump, trigger: Trigger, rtt: Duration, c: &Conditions,
    ) -> Transition {
        let phase = Unvalidated {
            jump,
            since: c.now,
            rtt,
            batch: (jump.cwnd / BATCH_DIVISOR)
                .min(c.initial_window)
                .max(c.max_datagram_size),
            max_datagram_size: c.max_datagram_size,
        };

        Transition {
            to: State::Unvalidated(phase),
            trigger,
            action: Action::Jump { window: jump.cwnd },
        }
    }

    /// Returns the pace of the phase.
    ///
    /// RFC 9959, 3.3 and 4.3.2: jump_cwnd over the current RTT, without gain.
    pub(super) fn pace(&self) -> Pace {
        let cwnd = self.jump.cwnd;
        let pace = Pace::new(cwnd, self.rtt, 1.0, self.max_datagram_size);

        // In any period the bytes that leave exceed their share by a batch, and
        // by what a late sender catches up.
        let excess =
            (cwnd / EXCESS_DIVISOR).max(EXCESS_PACKETS * self.max_datagram_size);

        Pace {
            batch: self.batch,
            catch_up: pace.duration(excess - self.batch),
            ..pace
        }
    }

    pub(super) fn on_packet_sent(
        &mut self, pkt_num: u64, c: &Conditions,
    ) -> Option<Transition> {
        self.jump.on_packet_sent(pkt_num);
        self.jump.first_unvalidated.get_or_insert(pkt_num);
        self.jump.last_unvalidated = Some(pkt_num);

        // RFC 9959, 3.3: in bytes, flight_size has reached CWND when less than
        // a full packet of it remains.
        if c.flight_size + c.max_datagram_size > c.cwnd {
            return Some(self.leave(Trigger::LastUnvalidatedPacketSent, c));
        }

        self.check_time(c)
    }

    pub(super) fn after_ack(
        &self, acked: &Acknowledged, c: &Conditions,
    ) -> Option<Transition> {
        if self.is_another_path(c) {
            return Some(SafeRetreat::enter(self.jump, Trigger::PathChanged, c));
        }

        // RFC 9959, 3.3: the first unvalidated packet, or a later one.
        if self.jump.is_first_covered(acked.largest) {
            let trigger = Trigger::FirstUnvalidatedPacketAcknowledged;
            return Some(self.leave(trigger, c));
        }

        self.check_time(c)
    }

    /// RFC 9959, 3.3: the RTT tells that the jump goes into another path.
    fn is_another_path(&self, c: &Conditions) -> bool {
        let saved_rtt = self.jump.saved.saved_rtt;
        c.min_rtt
            .is_some_and(|rtt| !jump_decision::rtt_is_plausible(rtt, saved_rtt))
    }

    /// RFC 9959, 3.3: no longer than one RTT.
    fn check_time(&self, c: &Conditions) -> Option<Transition> {
        let is_over = c.now.saturating_duration_since(self.since) > self.rtt;
        is_over.then(|| self.leave(Trigger::RttExceeded, c))
    }

    fn leave(&self, trigger: Trigger, c: &Conditions) -> Transition {
        let (flight_size, pipe_size) = (c.flight_size, self.jump.pipe_size);

        // RFC 9959, 3.3: the jump was not used.
        if flight_size < c.initial_window || flight_size <= pipe_size {
            return self.end(Trigger::RateLimited, c);
        }

        Validating::enter(self.jump, trigger, c)
    }

    /// Ends Careful Resume before the jump was used. Without congestion the
    /// window does not fall below the initial one.
    pub(super) fn end(&self, trigger: Trigger, c: &Conditions) -> Transition {
        let window = self.jump.pipe_size.max(c.initial_window);

        Transition {
            to: State::Normal(Normal::Undecided(self.jump)),
            trigger,
            action: Action::SetWindow { window },
        }
    }
}
