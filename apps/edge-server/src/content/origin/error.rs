//! Outcomes of requests at origins, and how many there were.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

/// Number of outcomes.
const OUTCOMES: usize = OriginOutcome::NAMES.len();

/// Requests of all hosts, by outcome, since the process began.
static OUTCOME_COUNTS: [AtomicU64; OUTCOMES] = [const { AtomicU64::new(0) }; OUTCOMES];

/// Reason why there is no response of an origin.
#[derive(Clone, Debug)]
pub enum OriginError {
    /// No connection can be opened.
    Unreachable(String),

    /// A connection, or a response, does not come in time.
    Timeout,

    /// The origin ends the connection, or sends no valid response.
    Malformed(String),

    /// The client's content is longer than it may be, or breaks off.
    Content { is_too_long: bool },

    /// It has as many requests as it may have.
    Busy,

    /// The request has been here before.
    Loop,

    /// The request asks for another protocol, such as WebSocket.
    Upgrade,

    /// The client wants what the cache has, which is nothing. The origin was not asked.
    NotKept,
}

/// Outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginOutcome {
    Complete,
    Unreachable,
    Timeout,
    Malformed,
    Busy,
    Loop,

    /// The response breaks off, or stalls.
    Broken,

    /// The client has gone before.
    Cancelled,
    Upgrade,
}

impl OriginError {
    /// Returns the status of the response.
    pub fn status(&self) -> u16 {
        match self {
            Self::Unreachable(_) | Self::Malformed(_) => 502,
            // RFC 9111, 5.2.1.7.
            Self::Timeout | Self::NotKept => 504,
            Self::Content { is_too_long: true } => 413,
            Self::Content { is_too_long: false } => 400,
            Self::Busy => 503,
            Self::Loop => 508,
            // RFC 9110, 15.6.2.
            Self::Upgrade => 501,
        }
    }

    /// Returns the outcome.
    pub fn outcome(&self) -> OriginOutcome {
        match self {
            Self::Unreachable(_) => OriginOutcome::Unreachable,
            Self::Timeout => OriginOutcome::Timeout,
            Self::Malformed(_) => OriginOutcome::Malformed,
            Self::Content { .. } | Self::NotKept => OriginOutcome::Cancelled,
            Self::Busy => OriginOutcome::Busy,
            Self::Loop => OriginOutcome::Loop,
            Self::Upgrade => OriginOutcome::Upgrade,
        }
    }
}

impl fmt::Display for OriginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(why) => write!(f, "cannot connect: {why}"),
            Self::Timeout => write!(f, "no response in time"),
            Self::NotKept => write!(f, "nothing is kept"),
            Self::Malformed(why) => write!(f, "no valid response: {why}"),
            Self::Content { .. } => {
                write!(f, "the content of the request is too long, or breaks off")
            }
            Self::Busy => write!(f, "it has requests-max requests"),
            Self::Loop => write!(f, "the request has been here before"),
            Self::Upgrade => write!(f, "the request asks for another protocol"),
        }
    }
}

impl OriginOutcome {
    /// Names of the outcomes in metrics, in their order.
    pub const NAMES: [&str; 9] = [
        "complete",
        "unreachable",
        "timeout",
        "malformed",
        "busy",
        "loop",
        "broken",
        "cancelled",
        "upgrade",
    ];

    /// Counts a request.
    pub fn count(self) {
        OUTCOME_COUNTS[self as usize].fetch_add(1, Ordering::Relaxed);
    }
}

/// Returns how many requests there were, by the name of the outcome.
pub fn counts() -> impl Iterator<Item = (&'static str, u64)> {
    let counts = OUTCOME_COUNTS.iter().map(|count| count.load(Ordering::Relaxed));
    OriginOutcome::NAMES.into_iter().zip(counts)
}
