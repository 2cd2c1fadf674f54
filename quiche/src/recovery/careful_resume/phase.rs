//! Phases of Careful Resume (RFC 9959, 3.2 to 3.5), the triggers that end them,
//! and the event of a change.

use std::time::Instant;

use crate::path_state::PathState;

/// A phase of Careful Resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The normal initial window probes the path.
    Reconnaissance,

    /// The window has jumped; no packet of the jump is acknowledged yet.
    Unvalidated,

    /// The jump is being acknowledged.
    Validating,

    /// The path did not take the jump.
    SafeRetreat,

    /// Careful Resume is over, or was never enabled.
    Normal,
}

impl Phase {
    /// Returns the name in qlog.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Reconnaissance => "reconnaissance",
            Phase::Unvalidated => "unvalidated",
            Phase::Validating => "validating",
            Phase::SafeRetreat => "safe_retreat",
            Phase::Normal => "normal",
        }
    }
}

/// Why a phase ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The initial data is acknowledged, and the window limits the sender.
    CongestionWindowLimited,

    /// The RTT differs too much from the saved one.
    RttNotValidated,

    /// The window of the jump is used up.
    LastUnvalidatedPacketSent,

    /// A packet sent in the unvalidated phase was acknowledged.
    FirstUnvalidatedPacketAcknowledged,

    /// The unvalidated phase lasted longer than one RTT.
    RttExceeded,

    /// The application used less of the jump than the path had carried before.
    RateLimited,

    /// Everything sent in the unvalidated phase was acknowledged.
    LastUnvalidatedPacketAcknowledged,

    /// The local stack reported another path.
    PathChanged,

    /// A packet was lost.
    PacketLoss,

    /// The network marked a packet.
    EcnCe,

    /// The last packet of the unvalidated phase, or a later one, was
    /// acknowledged.
    ExitRecovery,

    /// No saved parameters were given before the initial data was acknowledged,
    /// and the window limited the sender again (implementation-defined).
    NoSavedSet,

    /// The Lifetime of the saved parameters passed (implementation-defined).
    LifetimePassed,

    /// The claim on the saved parameters ran out before the jump: another
    /// connection may use them (implementation-defined).
    ClaimLapsed,

    /// The window had already grown to the jump (implementation-defined).
    JumpNotLarger,

    /// Persistent congestion (RFC 9002, 7.6; implementation-defined).
    PersistentCongestion,

    /// HyStart++ or SEARCH found a queue, or slow start was over, before the
    /// jump (implementation-defined).
    SlowStartExit,

    /// The application does not pace: packets left long before their release
    /// times (RFC 9959, 3.3; implementation-defined). In Safe Retreat and in
    /// Normal the phase stays the same.
    NotPaced,

    /// The connection would have jumped, but had its saved parameters for a
    /// dry run (implementation-defined).
    DryRun,

    /// The handshake is acknowledged and the initial window sent, with
    /// [`early_jump`] (implementation-defined).
    ///
    /// [`early_jump`]: crate::careful_resume::CarefulResumeConfig::early_jump
    HandshakeAcknowledged,
}

impl Trigger {
    /// Returns the name in qlog.
    pub fn name(self) -> &'static str {
        match self {
            Trigger::CongestionWindowLimited => "congestion_window_limited",
            Trigger::RttNotValidated => "rtt_not_validated",
            Trigger::LastUnvalidatedPacketSent => "last_unvalidated_packet_sent",
            Trigger::FirstUnvalidatedPacketAcknowledged => {
                "first_unvalidated_packet_acknowledged"
            },
            Trigger::RttExceeded => "rtt_exceeded",
            Trigger::RateLimited => "rate_limited",
            Trigger::LastUnvalidatedPacketAcknowledged => {
                "last_unvalidated_packet_acknowledged"
            },
            Trigger::PathChanged => "path_changed",
            Trigger::PacketLoss => "packet_loss",
            Trigger::EcnCe => "ECN_CE",
            Trigger::ExitRecovery => "exit_recovery",
            Trigger::NoSavedSet => "no_saved_set",
            Trigger::LifetimePassed => "lifetime_passed",
            Trigger::ClaimLapsed => "claim_lapsed",
            Trigger::JumpNotLarger => "jump_not_larger",
            Trigger::PersistentCongestion => "persistent_congestion",
            Trigger::SlowStartExit => "slow_start_exit",
            Trigger::NotPaced => "not_paced",
            Trigger::DryRun => "dry_run",
            Trigger::HandshakeAcknowledged => "handshake_acknowledged",
        }
    }
}

/// State of Careful Resume on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarefulResumeStats {
    /// The phase.
    pub phase: Phase,

    /// Pipe size: bytes the path is known to have carried in one RTT. 0 before
    /// a jump.
    pub pipe_size: usize,

    /// The window that was jumped to, in bytes; None without a jump.
    pub jump_cwnd: Option<usize>,
}

/// Limit of a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendLimit {
    /// The congestion window is full.
    CongestionWindow,

    /// Flow control of a stream or of the connection.
    FlowControl,

    /// The application has no more to send, or waits for a release time.
    Application,
}

/// A change of phase, with the state after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarefulResumeEvent {
    /// When it happened.
    pub time: Instant,

    /// The phase before; None if saved parameters were given.
    pub old: Option<Phase>,

    /// The phase after.
    pub new: Phase,

    /// The trigger; None if saved parameters were given.
    pub trigger: Option<Trigger>,

    /// Pipe size: bytes the path is known to have carried in one RTT.
    pub pipe_size: usize,

    /// Congestion window, in bytes.
    pub congestion_window: usize,

    /// Slow-start threshold, in bytes; `usize::MAX` before it is known.
    pub ssthresh: usize,

    /// The number of the first packet sent in the unvalidated phase.
    pub first_unvalidated_packet: Option<u64>,

    /// The number of the last packet sent in the unvalidated phase.
    pub last_unvalidated_packet: Option<u64>,

    /// The saved parameters that the connection was given.
    pub restored: Option<PathState>,
}
