//! Shutdown of one connection while its worker drains: a pure state machine of its two
//! GOAWAY frames (RFC 9114, 5.2).

use std::time::Duration;
use std::time::Instant;

/// How long requests that are on their way when the client gets the first GOAWAY are
/// answered. More than a round trip of any path.
const ANNOUNCEMENT: Duration = Duration::from_secs(1);

/// How long the client may take to acknowledge the last GOAWAY, without which it does not
/// know which requests to make again. A few retransmissions.
const ACKNOWLEDGEMENT: Duration = Duration::from_secs(3);

/// Stage of a worker's shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Serving,

    /// Clients are sent GOAWAY. Their requests are finished.
    Draining,

    /// Connections are closed, finished or not.
    Closing,
}

/// How far a connection has come that its client is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoAwayState {
    /// The first GOAWAY announces another. Requests are still answered.
    Announced { until: Instant },

    /// The last GOAWAY names the requests that are answered. Its acknowledgement is
    /// awaited.
    Final { until: Instant },

    /// The last GOAWAY was not acknowledged in time.
    TimedOut,
}

impl GoAwayState {
    /// Returns the state that the first GOAWAY begins.
    pub fn announced(now: Instant) -> Self {
        Self::Announced { until: now + ANNOUNCEMENT }
    }

    /// Returns the state at `now`.
    pub fn advance(self, now: Instant) -> Self {
        match self {
            Self::Announced { until } if until <= now => {
                Self::Final { until: now + ACKNOWLEDGEMENT }
            }
            Self::Final { until } if until <= now => Self::TimedOut,
            same => same,
        }
    }

    /// Returns when the next state is due.
    pub fn deadline(self) -> Option<Instant> {
        match self {
            Self::Announced { until } | Self::Final { until } => Some(until),
            Self::TimedOut => None,
        }
    }

    /// Returns whether further requests are rejected.
    pub fn is_final(self) -> bool {
        !matches!(self, Self::Announced { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goaway_is_final_a_second_after_the_first() {
        let start = quiche::clock::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut state = GoAwayState::announced(start);
        for (seconds, expected) in [
            (0, GoAwayState::Announced { until: at(1) }),
            (1, GoAwayState::Final { until: at(4) }),
            (3, GoAwayState::Final { until: at(4) }),
            (4, GoAwayState::TimedOut),
            (9, GoAwayState::TimedOut),
        ] {
            state = state.advance(at(seconds));
            assert_eq!(state, expected, "{seconds} s");
            assert_eq!(state.is_final(), seconds > 0, "{seconds} s");
        }
    }

    #[test]
    fn goaway_has_a_deadline_until_it_timed_out() {
        let until = quiche::clock::now();
        assert_eq!(GoAwayState::Announced { until }.deadline(), Some(until));
        assert_eq!(GoAwayState::Final { until }.deadline(), Some(until));
        assert_eq!(GoAwayState::TimedOut.deadline(), None);
    }
}
