//! Careful Resume on one connection, as logs and metrics tell of it.

use quiche::careful_resume::CarefulResumeEvent;
use quiche::careful_resume::Phase;
use quiche::careful_resume::Trigger;

/// The story of one connection, as far as it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumeSummary {
    pub phase: Phase,

    /// The connection was given a saved set.
    pub offered: bool,

    /// Why the phase began.
    pub trigger: Option<Trigger>,

    /// The window that was jumped to.
    pub jump_bytes: Option<usize>,

    /// The path did not take the jump.
    pub retreated: bool,

    /// The largest window that it may jump to.
    pub max_jump: u32,
}

impl ResumeSummary {
    /// Of a connection that begins, and may jump so far.
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

    /// There is a saved set, and nothing has been decided of it.
    pub fn has_unused_set(&self) -> bool {
        self.offered && self.phase == Phase::Reconnaissance
    }

    /// The phase has changed.
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
