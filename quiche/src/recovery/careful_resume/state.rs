//! Phase of the state machine, with the data that only it needs.

use super::jump_record::Jump;
use super::normal::Normal;
use super::reconnaissance::Reconnaissance;
use super::safe_retreat::SafeRetreat;
use super::unvalidated::Unvalidated;
use super::validating::Validating;
use super::Action;
use super::Phase;
use super::Trigger;
use crate::path_state::PathState;

#[derive(Debug)]
pub(super) enum State {
    Reconnaissance(Reconnaissance),
    Unvalidated(Unvalidated),
    Validating(Validating),
    SafeRetreat(SafeRetreat),
    Normal(Normal),
}

impl State {
    pub(super) fn phase(&self) -> Phase {
        match self {
            State::Reconnaissance(_) => Phase::Reconnaissance,
            State::Unvalidated(_) => Phase::Unvalidated,
            State::Validating(_) => Phase::Validating,
            State::SafeRetreat(_) => Phase::SafeRetreat,
            State::Normal(_) => Phase::Normal,
        }
    }

    /// Returns the jump, if there was one.
    pub(super) fn jump(&self) -> Option<&Jump> {
        match self {
            State::Reconnaissance(_) => None,
            State::Unvalidated(phase) => Some(&phase.jump),
            State::Validating(phase) => Some(&phase.jump),
            State::SafeRetreat(phase) => Some(&phase.jump),
            State::Normal(phase) => phase.jump(),
        }
    }

    /// Whether the path did not take the jump.
    pub(super) fn has_retreated(&self) -> bool {
        matches!(
            self,
            State::SafeRetreat(_) | State::Normal(Normal::Retreated { .. })
        )
    }

    /// Whether the path took the jump.
    pub(super) fn is_validated(&self) -> bool {
        matches!(self, State::Normal(Normal::Validated(_)))
    }

    /// Ends Careful Resume where nothing has decided about the jump.
    pub(super) fn end(&self, trigger: Trigger) -> Transition {
        let outcome = match self.jump() {
            Some(jump) => Normal::Undecided(*jump),
            None => Normal::NoJump,
        };

        Transition::end(outcome, trigger)
    }

    /// Returns the saved parameters that the connection was given. A connection
    /// that ended without a jump has no more use for them.
    pub(super) fn saved(&self) -> Option<PathState> {
        match self {
            State::Reconnaissance(phase) => phase.saved(),
            _ => self.jump().map(|jump| jump.saved),
        }
    }
}

/// A change of phase.
#[derive(Debug)]
pub(super) struct Transition {
    pub(super) to: State,
    pub(super) trigger: Trigger,
    pub(super) action: Action,
}

impl Transition {
    /// Ends Careful Resume; the controller keeps its window.
    pub(super) fn end(outcome: Normal, trigger: Trigger) -> Self {
        Transition {
            to: State::Normal(outcome),
            trigger,
            action: Action::Keep,
        }
    }
}
