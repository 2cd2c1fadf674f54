//! Reasons for a Retry and for a refusal, as metrics and clients are told them.

use quiche::WireErrorCode;

use crate::admission::connection_limits::Limit;

/// Why a client has to prove its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryReason {
    /// Many handshakes are under way in the worker.
    Handshakes,

    /// Many of those that are there have not proven theirs, or many come.
    Limit(Limit),
}

/// Why a client is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Draining,

    /// Its token is bad, and may be of a Retry packet.
    Token,
    Limit(Limit),
}

impl RetryReason {
    /// How metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Handshakes => "handshakes",
            Self::Limit(limit) => limit.name(),
        }
    }
}

impl Refusal {
    /// How metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::Token => "token",
            Self::Limit(limit) => limit.name(),
        }
    }

    /// The code that the client is told (RFC 9000, 20.1).
    pub fn code(self) -> u64 {
        match self {
            Self::Token => WireErrorCode::InvalidToken as u64,
            Self::Draining | Self::Limit(_) => WireErrorCode::ConnectionRefused as u64,
        }
    }
}
