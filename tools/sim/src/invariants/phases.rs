//! Phase changes allowed for each trigger: the table of the qlog draft
//! (draft-ietf-tsvwg-careful-resume-qlog-02), and the triggers that the engine
//! adds to it.

use quiche::careful_resume::CarefulResumeEvent;
use quiche::careful_resume::Phase;
use quiche::careful_resume::Trigger;

use super::rule::check;
use super::rule::Rule;
use super::rule::Violation;

/// The phases of one connection so far.
#[derive(Debug)]
pub struct PhaseRule {
    phase: Phase,
    given: bool,
    jumped: bool,
}

impl Default for PhaseRule {
    fn default() -> Self {
        Self { phase: Phase::Reconnaissance, given: false, jumped: false }
    }
}

impl PhaseRule {
    /// # Errors
    ///
    /// A change that is not in the table, that does not start from the phase
    /// before, or a second jump.
    pub fn on_event(&mut self, event: &CarefulResumeEvent) -> Result<(), Violation> {
        let step = || {
            let from = event.old.map(Phase::name);
            format!("{from:?} to {} by {:?}", event.new.name(), event.trigger.map(Trigger::name))
        };
        let (Some(old), Some(trigger)) = (event.old, event.trigger) else {
            // Saved parameters were given, once.
            let right = event.old.is_none()
                && event.trigger.is_none()
                && event.new == Phase::Reconnaissance
                && self.phase == Phase::Reconnaissance
                && !std::mem::replace(&mut self.given, true);
            return check(right, Rule::PhaseOrder, step);
        };
        check(old == self.phase, Rule::PhaseOrder, || {
            format!("{}, after {}", step(), self.phase.name())
        })?;
        check(is_in_table(old, event.new, trigger), Rule::PhaseOrder, step)?;
        if event.new == Phase::Unvalidated {
            check(self.given, Rule::PhaseOrder, || format!("{} without saved parameters", step()))?;
            let again = std::mem::replace(&mut self.jumped, true);
            check(!again, Rule::OneJump, || "a second jump".to_owned())?;
        }
        self.phase = event.new;
        Ok(())
    }
}

fn is_in_table(old: Phase, new: Phase, trigger: Trigger) -> bool {
    use Phase::*;
    match trigger {
        Trigger::CongestionWindowLimited => (old, new) == (Reconnaissance, Unvalidated),
        Trigger::RttNotValidated
        | Trigger::NoSavedSet
        | Trigger::LifetimePassed
        | Trigger::ClaimLapsed
        | Trigger::JumpNotLarger
        | Trigger::SlowStartExit => (old, new) == (Reconnaissance, Normal),
        Trigger::LastUnvalidatedPacketSent
        | Trigger::FirstUnvalidatedPacketAcknowledged
        | Trigger::RttExceeded => (old, new) == (Unvalidated, Validating),
        Trigger::RateLimited => (old, new) == (Unvalidated, Normal),
        Trigger::LastUnvalidatedPacketAcknowledged => (old, new) == (Validating, Normal),
        Trigger::PathChanged => {
            matches!(
                (old, new),
                (Unvalidated, SafeRetreat | Normal) | (Reconnaissance | Validating, Normal)
            )
        }
        Trigger::PacketLoss | Trigger::EcnCe => {
            matches!((old, new), (Unvalidated | Validating, SafeRetreat) | (Reconnaissance, Normal))
        }
        Trigger::ExitRecovery => (old, new) == (SafeRetreat, Normal),
        Trigger::PersistentCongestion => old != Normal && new == Normal,
        // Every sender of the simulator waits for release times.
        Trigger::NotPaced => false,
        // The simulator makes no dry run, and no early jump.
        Trigger::DryRun | Trigger::HandshakeAcknowledged => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::resume::tests::event;
    use super::*;
    use Phase::*;

    type Step = (Option<Phase>, Phase, Option<Trigger>);

    const GIVEN: Step = (None, Reconnaissance, None);
    const JUMP: Step = (Some(Reconnaissance), Unvalidated, Some(Trigger::CongestionWindowLimited));
    const FULL: Step = (Some(Unvalidated), Validating, Some(Trigger::LastUnvalidatedPacketSent));
    const LOSS: Step = (Some(Validating), SafeRetreat, Some(Trigger::PacketLoss));
    const EXIT: Step = (Some(SafeRetreat), Normal, Some(Trigger::ExitRecovery));

    fn broken(steps: &[Step]) -> Option<Rule> {
        let mut rule = PhaseRule::default();
        steps
            .iter()
            .find_map(|&(old, new, trigger)| rule.on_event(&event(old, new, trigger)).err())
            .map(|violation| violation.rule)
    }

    #[test]
    fn phases_of_the_rfc_are_right() {
        assert_eq!(broken(&[GIVEN, JUMP, FULL, LOSS, EXIT]), None);
        let quiet = (Some(Reconnaissance), Normal, Some(Trigger::NoSavedSet));
        assert_eq!(broken(&[quiet]), None);
    }

    #[test]
    fn other_phase_changes_are_violations() {
        let grown = (Some(Unvalidated), SafeRetreat, Some(Trigger::ExitRecovery));
        let again = (Some(Normal), Unvalidated, Some(Trigger::CongestionWindowLimited));
        for steps in [
            &[JUMP][..],
            &[GIVEN, GIVEN],
            &[GIVEN, FULL],
            &[GIVEN, JUMP, LOSS],
            &[GIVEN, JUMP, grown],
            &[GIVEN, JUMP, FULL, LOSS, EXIT, again],
        ] {
            assert_eq!(broken(steps), Some(Rule::PhaseOrder), "{steps:?}");
        }
    }

    #[test]
    fn second_jump_is_a_violation() {
        let mut rule = PhaseRule { given: true, jumped: true, ..Default::default() };
        let (old, new, trigger) = JUMP;
        let seen = rule.on_event(&event(old, new, trigger)).unwrap_err();
        assert_eq!(seen.rule, Rule::OneJump);
    }
}
