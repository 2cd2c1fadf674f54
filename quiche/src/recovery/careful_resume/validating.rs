//! Validating phase: the jump is being acknowledged (RFC 9959, 3.4).

use super::jump_record::Jump;
use super::normal::Normal;
use super::state::State;
use super::state::Transition;
use super::Acknowledged;
use super::Action;
use super::Conditions;
use super::Trigger;

#[derive(Debug)]
pub(super) struct Validating {
    pub(super) jump: Jump,
}

impl Validating {
    /// RFC 9959, 3.3: what is in flight is the window.
    pub(super) fn enter(
        jump: Jump, trigger: Trigger, c: &Conditions,
    ) -> Transition {
        Transition {
            to: State::Validating(Validating { jump }),
            trigger,
            action: Action::Validate {
                window: c.flight_size,
            },
        }
    }

    /// RFC 9959, 3.4: the last unvalidated packet, or a later one, ends the
    /// phase.
    pub(super) fn after_ack(&self, acked: &Acknowledged) -> Option<Transition> {
        let is_over = self.jump.is_last_covered(acked.largest);

        is_over.then(|| {
            let trigger = Trigger::LastUnvalidatedPacketAcknowledged;
            Transition::end(Normal::Validated(self.jump), trigger)
        })
    }
}
