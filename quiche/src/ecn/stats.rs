//! Marks that a connection has seen, and the state of its path.

use std::iter::Sum;
use std::ops::Add;

/// Numbers of packets, by the codepoint with which they arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// With ECT(0).
    pub ect0: u64,

    /// With ECT(1).
    pub ect1: u64,

    /// With CE.
    pub ce: u64,
}

impl Add for Marks {
    type Output = Marks;

    fn add(self, other: Marks) -> Marks {
        Marks {
            ect0: self.ect0.saturating_add(other.ect0),
            ect1: self.ect1.saturating_add(other.ect1),
            ce: self.ce.saturating_add(other.ce),
        }
    }
}

impl Sum for Marks {
    fn sum<I: Iterator<Item = Marks>>(marks: I) -> Marks {
        marks.fold(Marks::default(), Marks::add)
    }
}

/// State of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnState {
    /// The first packets are marked.
    Testing,

    /// Packets are not marked, as none of the marked ones is acknowledged yet.
    Unknown,

    /// The path does not carry marks.
    Failed,

    /// All packets are marked.
    Capable,
}

impl EcnState {
    /// All states.
    pub const ALL: [EcnState; 4] = [
        EcnState::Testing,
        EcnState::Unknown,
        EcnState::Failed,
        EcnState::Capable,
    ];

    /// Returns the name, as in qlog.
    pub fn name(self) -> &'static str {
        match self {
            EcnState::Testing => "testing",
            EcnState::Unknown => "unknown",
            EcnState::Failed => "failed",
            EcnState::Capable => "capable",
        }
    }
}

/// Marks that a connection has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnStats {
    /// State of the active path. None: the connection does not mark.
    pub state: Option<EcnState>,

    /// Packets sent with ECT(0) or ECT(1).
    pub sent: u64,

    /// Marks of received packets.
    pub received: Marks,

    /// Marks of sent packets that the peer reports.
    pub reported: Marks,
}
