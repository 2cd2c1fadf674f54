//! Reasons for a Retry and for a refusal, as metrics and clients are told them.

use quiche::WireErrorCode;

use crate::admission::connection_limits::Bound;

/// Why a client has to prove its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// Many handshakes are under way in the worker.
    Handshakes,

    /// Many of those that are there have not proven theirs, or many come.
    Bound(Bound),
}

/// Why a client is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Draining,

    /// Its token is bad, and may be of a Retry packet.
    Token,
    Bound(Bound),
}

impl Doubt {
    /// How metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Handshakes => "handshakes",
            Self::Bound(bound) => bound.name(),
        }
    }
}

impl Refusal {
    /// How metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::Token => "token",
            Self::Bound(bound) => bound.name(),
        }
    }

    /// The code that the client is told (RFC 9000, 20.1).
    pub fn code(self) -> u64 {
        match self {
            Self::Token => WireErrorCode::InvalidToken as u64,
            Self::Draining | Self::Bound(_) => WireErrorCode::ConnectionRefused as u64,
        }
    }
}
