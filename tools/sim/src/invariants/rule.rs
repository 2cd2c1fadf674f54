//! Rules by name, and violations of them.

use std::fmt;

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The congestion window holds two packets at least (RFC 9002, 7.2).
    WindowFloor,
    /// A jump is to half of saved_cwnd at most, and to max_jump (RFC 9959, 3.3).
    JumpBound,
    /// In unvalidated the window is jump_cwnd at most and does not grow
    /// (RFC 9959, 3.3).
    UnvalidatedWindow,
    /// In unvalidated slow start neither ends nor becomes conservative.
    UnvalidatedExit,
    /// A retreat leaves at most half of the pipe size (RFC 9959, 3.5).
    RetreatWindow,
    /// In safe retreat the window does not grow (RFC 9959, 3.5).
    RetreatGrowth,
    /// ssthresh after a retreat is at most half of the pipe size (RFC 9959, 3.5).
    RetreatThreshold,
    /// In unvalidated packets leave at jump_cwnd per RTT (RFC 9959, 3.3).
    Pacing,
    /// The pipe size is what was in flight and then acknowledged (RFC 9959,
    /// 3.3 to 3.5).
    PipeSize,
    /// Phases follow each other as the RFC has it.
    PhaseOrder,
    /// A connection jumps once at most.
    OneJump,
    /// One connection at a time claims saved parameters (RFC 9959, 3.2).
    OneClaim,
    /// Only who holds the claim jumps (RFC 9959, 3.2).
    ClaimedJump,
    /// After a retreat, nobody uses the same parameters again (RFC 9959, 3.5).
    Forgotten,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WindowFloor => "the window holds two packets at least",
            Self::JumpBound => "a jump is to half of saved_cwnd at most, and to max_jump",
            Self::UnvalidatedWindow => "the window stays at jump_cwnd or below in unvalidated",
            Self::UnvalidatedExit => "slow start does not end in unvalidated",
            Self::RetreatWindow => "a retreat leaves half of the pipe size at most",
            Self::RetreatGrowth => "the window does not grow in safe retreat",
            Self::RetreatThreshold => "ssthresh after a retreat is half of the pipe size at most",
            Self::Pacing => "unvalidated packets leave at jump_cwnd per RTT",
            Self::PipeSize => "the pipe size is what was in flight and then acknowledged",
            Self::PhaseOrder => "phases follow each other as RFC 9959 has it",
            Self::OneJump => "a connection jumps once at most",
            Self::OneClaim => "saved parameters are claimed by one connection at a time",
            Self::ClaimedJump => "only the holder of the claim jumps",
            Self::Forgotten => "what a connection has retreated with is not used again",
        })
    }
}

/// A rule was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub rule: Rule,
    /// Description of the event.
    pub seen: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "violated: {}: {}", self.rule, self.seen)
    }
}

impl std::error::Error for Violation {}

/// Returns a violation of `rule` unless it `holds`.
pub fn check(holds: bool, rule: Rule, seen: impl FnOnce() -> String) -> Result<(), Violation> {
    match holds {
        true => Ok(()),
        false => Err(Violation { rule, seen: seen() }),
    }
}
