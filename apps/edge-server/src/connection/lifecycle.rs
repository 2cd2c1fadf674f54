//! Lifecycle of one connection, from its first packet to its removal: a pure state machine.
//! Events and `now` in, the next state out.

use std::time::Duration;
use std::time::Instant;

use crate::connection::shutdown::GoAwayState;

/// How long a handshake may go on once its client is to leave.
const HANDSHAKE: Duration = Duration::from_secs(3);

/// State of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// No request can be read yet. A client that is to leave has until then.
    Handshake { until: Option<Instant> },

    /// Requests are answered.
    Open,

    /// The client is sent GOAWAY.
    GoingAway(GoAwayState),

    /// CONNECTION_CLOSE is to be sent, and nothing else.
    Closing(CloseReason),

    /// Nothing is to be sent (RFC 9000, 10.2.2).
    Drained(CloseReason),
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The client is to connect elsewhere, or again later.
    Shutdown,

    /// The handshake took too long, for its own limit or because others needed its place.
    HandshakeTimeout,

    /// The handshake was complete when the client's subnet, or the server, was full.
    Refused,

    /// It was idle, and another client needed its place.
    Replaced,

    /// All connections kept more than they may, and this one most.
    OverBudget,

    /// The transport failed.
    Internal,

    /// The client closed or left, or broke the protocol.
    Transport,
}

impl Lifecycle {
    /// Returns the state of a connection just accepted.
    pub fn new() -> Self {
        Self::Handshake { until: None }
    }

    /// Returns the state once requests can be read.
    pub fn on_open(self, now: Instant) -> Self {
        match self {
            Self::Handshake { until: None } => Self::Open,
            Self::Handshake { until: Some(_) } => Self::GoingAway(GoAwayState::announced(now)),
            same => same,
        }
    }

    /// Returns the state of a connection whose client is to leave.
    pub fn go_away(self, now: Instant) -> Self {
        match self {
            Self::Handshake { until: None } => Self::Handshake { until: Some(now + HANDSHAKE) },
            Self::Open => Self::GoingAway(GoAwayState::announced(now)),
            same => same,
        }
    }

    /// Returns the state at `now`.
    pub fn advance(self, now: Instant) -> Self {
        match self {
            Self::GoingAway(goaway) => Self::GoingAway(goaway.advance(now)),
            same => same,
        }
    }

    /// Returns the state once the connection is closed from here.
    pub fn close(self, reason: CloseReason) -> Self {
        match self.is_active() {
            true => Self::Closing(reason),
            false => self,
        }
    }

    /// Returns the state once the transport sends nothing more.
    pub fn on_drained(self) -> Self {
        match self {
            Self::Closing(reason) => Self::Drained(reason),
            Self::Drained(_) => self,
            _ => Self::Drained(CloseReason::Transport),
        }
    }

    /// Returns its name in lists.
    pub fn name(self) -> &'static str {
        match self {
            Self::Handshake { .. } => "handshake",
            Self::Open => "open",
            Self::GoingAway(_) => "going_away",
            Self::Closing(_) => "closing",
            Self::Drained(_) => "drained",
        }
    }

    /// Returns whether requests may come and responses be sent.
    pub fn is_active(self) -> bool {
        matches!(self, Self::Handshake { .. } | Self::Open | Self::GoingAway(_))
    }

    /// Returns whether the client knows that the connection has ended, or told so.
    pub fn is_drained(self) -> bool {
        matches!(self, Self::Drained(_))
    }

    /// Returns whether the shutdown is complete: nothing that the client requested is
    /// `unanswered`, and it has `acknowledged` the last GOAWAY or had the time to.
    pub fn may_close(self, unanswered: bool, acknowledged: bool, now: Instant) -> bool {
        match self {
            Self::Handshake { until } => until.is_some_and(|until| until <= now),
            Self::GoingAway(GoAwayState::Final { .. }) => !unanswered && acknowledged,
            Self::GoingAway(GoAwayState::TimedOut) => !unanswered,
            _ => false,
        }
    }

    /// Returns whether the worker may drop the connection. One with a qlog is kept until
    /// its last event has been written.
    pub fn is_removable(self, is_qlog_complete: bool) -> bool {
        match self {
            // The address may be forged, so that one packet is all it gets.
            Self::Closing(CloseReason::HandshakeTimeout)
            | Self::Drained(CloseReason::HandshakeTimeout) => true,
            // What it keeps is to be freed, even if no window has room for the packet.
            Self::Closing(CloseReason::OverBudget | CloseReason::Replaced)
            | Self::Drained(CloseReason::OverBudget | CloseReason::Replaced) => true,
            Self::Drained(_) => is_qlog_complete,
            _ => false,
        }
    }

    /// Returns how far GOAWAY has come, if the client is sent any.
    pub fn goaway(self) -> Option<GoAwayState> {
        match self {
            Self::GoingAway(goaway) => Some(goaway),
            _ => None,
        }
    }

    /// Returns when the next state is due.
    pub fn deadline(self) -> Option<Instant> {
        match self {
            Self::Handshake { until } => until,
            Self::GoingAway(goaway) => goaway.deadline(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CloseReason::HandshakeTimeout;
    use CloseReason::Internal;
    use CloseReason::OverBudget;
    use CloseReason::Replaced;
    use CloseReason::Shutdown;
    use CloseReason::Transport;

    fn at(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    fn every_state(start: Instant) -> [Lifecycle; 8] {
        let until = at(start, 3);
        [
            Lifecycle::new(),
            Lifecycle::Handshake { until: Some(until) },
            Lifecycle::Open,
            Lifecycle::GoingAway(GoAwayState::Announced { until }),
            Lifecycle::GoingAway(GoAwayState::Final { until }),
            Lifecycle::GoingAway(GoAwayState::TimedOut),
            Lifecycle::Closing(Internal),
            Lifecycle::Drained(Internal),
        ]
    }

    #[test]
    fn handshake_opens_and_then_goes_away() {
        let start = quiche::clock::now();
        let open = Lifecycle::new().on_open(start);
        assert_eq!(open, Lifecycle::Open);
        let going = open.go_away(start);
        assert_eq!(going, Lifecycle::GoingAway(GoAwayState::announced(start)));
        assert_eq!(going.go_away(at(start, 9)), going, "it has begun before");
        assert_eq!(going.deadline(), Some(at(start, 1)));
        let last = going.advance(at(start, 1));
        assert_eq!(last.goaway().map(GoAwayState::is_final), Some(true));
    }

    #[test]
    fn handshake_of_a_draining_worker_has_three_seconds() {
        let start = quiche::clock::now();
        let draining = Lifecycle::new().go_away(start);
        assert_eq!(draining.go_away(at(start, 2)), draining);
        assert_eq!(draining.deadline(), Some(at(start, 3)));
        assert!(!draining.may_close(false, true, at(start, 2)));
        assert!(draining.may_close(false, true, at(start, 3)));
        let opened = draining.on_open(at(start, 2));
        assert_eq!(opened, Lifecycle::GoingAway(GoAwayState::announced(at(start, 2))));
    }

    #[test]
    fn shutdown_waits_for_responses_and_the_acknowledgement() {
        let start = quiche::clock::now();
        let expected = |state| match state {
            Lifecycle::GoingAway(GoAwayState::Final { .. }) => [true, false, false, false],
            Lifecycle::GoingAway(GoAwayState::TimedOut) => [true, true, false, false],
            _ => [false; 4],
        };
        for state in every_state(start) {
            let cases = [(false, true), (false, false), (true, true), (true, false)];
            let may_close =
                cases.map(|(unanswered, known)| state.may_close(unanswered, known, start));
            assert_eq!(may_close, expected(state), "{state:?}");
        }
    }

    #[test]
    fn closing_keeps_its_first_reason() {
        let start = quiche::clock::now();
        for state in every_state(start) {
            let reason = if state.is_active() { Shutdown } else { Internal };
            assert_eq!(state.close(Shutdown).on_drained(), Lifecycle::Drained(reason));
            let left = if state.is_active() { Transport } else { Internal };
            assert_eq!(state.on_drained(), Lifecycle::Drained(left));
        }
    }

    #[test]
    fn closed_connection_changes_no_more() {
        let start = quiche::clock::now();
        for state in [Lifecycle::Closing(Internal), Lifecycle::Drained(Internal)] {
            assert!(!state.is_active());
            assert_eq!((state.goaway(), state.deadline()), (None, None));
            let later = at(start, 9);
            for next in [state.on_open(later), state.go_away(later), state.advance(later)] {
                assert_eq!(next, state);
            }
        }
    }

    #[test]
    fn drained_connection_waits_for_its_qlog_only() {
        let start = quiche::clock::now();
        for state in every_state(start) {
            let removable = [true, false].map(|is_complete| state.is_removable(is_complete));
            assert_eq!(removable, [state.is_drained(), false], "{state:?}");
        }
    }

    #[test]
    fn connection_that_makes_room_is_removed_at_once() {
        for reason in [HandshakeTimeout, OverBudget, Replaced] {
            let closing = Lifecycle::new().close(reason);
            assert!(closing.is_removable(false) && closing.on_drained().is_removable(false));
            assert!(!closing.is_drained());
        }
    }
}
