//! Summary of Careful Resume on one connection, for logs and metrics.

use std::time::SystemTime;

use ab_test::Arm;
use quiche::careful_resume::CarefulResumeEvent;
use quiche::careful_resume::Phase;
use quiche::careful_resume::Trigger;
use quiche::path_state::PathState;

use crate::quic::INITIAL_WINDOW_BYTES;
use crate::resume::own_state::Source;

/// State of Careful Resume on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumeSummary {
    pub phase: Phase,

    /// Saved parameters that the connection was given.
    pub saved: Option<PathState>,

    /// Where they come from, once they are claimed.
    pub source: Option<Source>,

    /// Whether the client asked for a connection that does not jump.
    pub declined: bool,

    /// Trigger of the current phase.
    pub trigger: Option<Trigger>,

    /// Window of the jump, in bytes.
    pub jump_bytes: Option<usize>,

    /// Pipe size when the jump's last packet was acknowledged without congestion, in bytes.
    pub validated_bytes: Option<usize>,

    /// Whether congestion followed the jump.
    pub retreated: bool,

    /// Largest window that the connection may jump to, in bytes.
    pub max_jump: u32,

    /// Arm of the client, if there is a control group.
    pub arm: Option<Arm>,

    /// When the connection jumped, or would have if it had been allowed to.
    pub could_jump_at: Option<SystemTime>,
}

impl ResumeSummary {
    /// Returns the summary of a new connection.
    pub fn new(max_jump: u32, arm: Option<Arm>) -> Self {
        Self {
            phase: Phase::Reconnaissance,
            saved: None,
            source: None,
            declined: false,
            trigger: None,
            jump_bytes: None,
            validated_bytes: None,
            retreated: false,
            max_jump,
            arm,
            could_jump_at: None,
        }
    }

    /// Returns whether there are saved parameters that the connection has neither used nor refused.
    pub fn has_unused_parameters(&self) -> bool {
        self.saved.is_some() && self.phase == Phase::Reconnaissance
    }

    /// Returns whether the connection has jumped.
    pub fn has_jumped(&self) -> bool {
        self.jump_bytes.is_some()
    }

    /// Returns the arm, if the connection belongs to the comparison: it has jumped, or could have.
    pub fn compared_arm(&self) -> Option<Arm> {
        self.arm.filter(|_| self.could_jump_at.is_some())
    }

    /// Returns whether the connection jumped, or could have, after a request that began then.
    pub fn could_jump_since(&self, request: SystemTime) -> bool {
        self.could_jump_at.is_some_and(|at| at >= request)
    }

    /// Handles a change of phase.
    pub fn on_event(&mut self, event: &CarefulResumeEvent, wall_now: SystemTime) {
        (self.phase, self.trigger) = (event.new, event.trigger);
        self.saved = event.restored.or(self.saved);
        if event.trigger == Some(Trigger::LastUnvalidatedPacketAcknowledged) {
            self.validated_bytes = Some(event.pipe_size);
        }
        if event.new == Phase::Unvalidated || event.trigger == Some(Trigger::DryRun) {
            self.could_jump_at = Some(wall_now);
        }
        match event.new {
            Phase::Unvalidated => self.jump_bytes = Some(event.congestion_window),
            Phase::SafeRetreat => self.retreated = true,
            Phase::Reconnaissance | Phase::Validating | Phase::Normal => (),
        }
    }
}

/// Estimates how many round trips more slow start, which doubles, would have taken to deliver
/// initial window and jump: what the path carried by the end of the second.
pub fn round_trips_saved(pipe_size: usize) -> f64 {
    let windows = pipe_size as f64 / INITIAL_WINDOW_BYTES as f64;
    ((windows + 2.0).log2() - 2.0).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Slow start: 1, 2, 4 and 8 windows in four round trips, a jump to 14 in two.
    #[test]
    fn round_trips_saved_compares_with_doubling() {
        let windows = |count: usize| count * INITIAL_WINDOW_BYTES as usize;
        for (pipe_size, expected) in [(14, 2.0), (2, 0.0), (0, 0.0), (30, 3.0)] {
            assert_eq!(round_trips_saved(windows(pipe_size)), expected, "{pipe_size}");
        }
    }
}
