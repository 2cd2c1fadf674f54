//! Reasons for a Retry and for a refusal, as metrics and CONNECTION_CLOSE name them.

use quiche::WireErrorCode;

use crate::admission::connection_limits::Limit;

/// Why a client has to validate its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryReason {
    /// Many handshakes are under way in the worker.
    Handshakes,

    /// Many connections are of unvalidated addresses, or many handshakes begin.
    Limit(Limit),
}

/// Why a client is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Draining,

    /// Its token, perhaps of a Retry packet, is invalid.
    Token,
    Limit(Limit),
}

impl RetryReason {
    /// All reasons.
    pub const ALL: [Self; 4] = [
        Self::Handshakes,
        Self::Limit(Limit::Connections),
        Self::Limit(Limit::Subnet),
        Self::Limit(Limit::Rate),
    ];

    /// Returns its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Handshakes => "handshakes",
            Self::Limit(limit) => limit.name(),
        }
    }
}

impl Refusal {
    /// All reasons.
    pub const ALL: [Self; 5] = [
        Self::Draining,
        Self::Token,
        Self::Limit(Limit::Connections),
        Self::Limit(Limit::Subnet),
        Self::Limit(Limit::Rate),
    ];

    /// Returns its name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Draining => "draining",
            Self::Token => "token",
            Self::Limit(limit) => limit.name(),
        }
    }

    /// Returns the error code for the client (RFC 9000, 20.1).
    pub fn code(self) -> u64 {
        match self {
            Self::Token => WireErrorCode::InvalidToken as u64,
            Self::Draining | Self::Limit(_) => WireErrorCode::ConnectionRefused as u64,
        }
    }
}
