//! Normal phase: Careful Resume is over (RFC 9959, 3.6).

use super::jump_record::Jump;

/// How it ended.
#[derive(Debug)]
pub(super) enum Normal {
    /// The connection did not jump.
    NoJump,

    /// Neither congestion nor the last ACK of the jump decided it: it was not
    /// used, or the path changed.
    Undecided(Jump),

    /// The path took the jump.
    Validated(Jump),

    /// The path did not take the jump.
    Retreated {
        jump: Jump,

        /// No congestion was answered since.
        is_last_reduction: bool,
    },
}

impl Normal {
    pub(super) fn jump(&self) -> Option<&Jump> {
        match self {
            Normal::NoJump => None,
            Normal::Undecided(jump)
            | Normal::Validated(jump)
            | Normal::Retreated { jump, .. } => Some(jump),
        }
    }
}
