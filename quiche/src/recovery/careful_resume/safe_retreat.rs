//! Safe Retreat phase: the window after congestion in a jump (RFC 9959, 3.5).

use super::jump_record::Jump;
use super::normal::Normal;
use super::state::State;
use super::state::Transition;
use super::Acknowledged;
use super::Action;
use super::Conditions;
use super::Trigger;

/// BETA of RFC 9959, 3.5.
const SSTHRESH_DIVISOR: usize = 2;

/// The floor of the congestion window (RFC 9002, 7.2).
const MIN_WINDOW_PACKETS: usize = 2;

#[derive(Debug)]
pub(super) struct SafeRetreat {
    pub(super) jump: Jump,
}

impl SafeRetreat {
    pub(super) fn enter(
        mut jump: Jump, trigger: Trigger, c: &Conditions,
    ) -> Transition {
        // RFC 9959, 3.5: at most PipeSize / 2, with QUIC's floor of two
        // packets.
        let window = (jump.pipe_size / 2)
            .max(MIN_WINDOW_PACKETS * c.max_datagram_size)
            .min(c.cwnd);
        let pipe_size = jump.pipe_size;

        // If nothing was sent in the unvalidated phase, what was sent before
        // ends the retreat.
        jump.last_unvalidated.get_or_insert(jump.largest_sent);

        Transition {
            to: State::SafeRetreat(SafeRetreat { jump }),
            trigger,
            action: Action::Retreat { pipe_size, window },
        }
    }

    pub(super) fn after_ack(&self, acked: &Acknowledged) -> Option<Transition> {
        let is_over = self.jump.is_last_covered(acked.largest);
        is_over.then(|| self.leave(Trigger::ExitRecovery))
    }

    pub(super) fn leave(&self, trigger: Trigger) -> Transition {
        // RFC 9959, 3.5: the latest PipeSize x BETA.
        let ssthresh = self.jump.pipe_size / SSTHRESH_DIVISOR;
        let outcome = Normal::Retreated {
            jump: self.jump,
            is_last_reduction: true,
        };

        Transition {
            to: State::Normal(outcome),
            trigger,
            action: Action::EndRetreat { ssthresh },
        }
    }
}
