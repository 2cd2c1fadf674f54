//! Summary of Careful Resume on one connection, for logs and metrics.

use quiche::careful_resume::CarefulResumeEvent;
use quiche::careful_resume::Phase;
use quiche::careful_resume::Trigger;

/// State of Careful Resume on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumeSummary {
    pub phase: Phase,

    /// Whether the connection was given saved parameters.
    pub offered: bool,

    /// Trigger of the current phase.
    pub trigger: Option<Trigger>,

    /// Window of the jump, in bytes.
    pub jump_bytes: Option<usize>,

    /// Whether congestion followed the jump.
    pub retreated: bool,

    /// Largest window that the connection may jump to, in bytes.
    pub max_jump: u32,
}

impl ResumeSummary {
    /// Returns the summary of a new connection.
    pub fn new(max_jump: u32) -> Self {
        Self {
            phase: Phase::Reconnaissance,
            offered: false,
            trigger: None,
            jump_bytes: None,
            retreated: false,
            max_jump,
        }
    }

    /// Returns whether there are saved parameters that the connection has neither used nor refused.
    pub fn has_unused_parameters(&self) -> bool {
        self.offered && self.phase == Phase::Reconnaissance
    }

    /// Handles a change of phase.
    pub fn on_event(&mut self, event: &CarefulResumeEvent) {
        (self.phase, self.trigger) = (event.new, event.trigger);
        self.offered |= event.restored.is_some();
        match event.new {
            Phase::Unvalidated => self.jump_bytes = Some(event.congestion_window),
            Phase::SafeRetreat => self.retreated = true,
            Phase::Reconnaissance | Phase::Validating | Phase::Normal => (),
        }
    }
}
