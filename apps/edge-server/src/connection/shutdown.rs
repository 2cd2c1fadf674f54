//! Shutdown of one connection, as its worker drains: a pure state machine.

use std::time::Duration;
use std::time::Instant;

/// How long a client may take to hear that it has to ask elsewhere: requests that are on
/// their way meanwhile are answered. More than a round trip of any path.
const ANNOUNCEMENT: Duration = Duration::from_secs(1);

/// How long it is waited for the acknowledgement of the last word: who does not know of it
/// cannot know which requests to make again. A few repetitions.
const HEARING: Duration = Duration::from_secs(3);

/// How long a handshake may take that is under way.
const HANDSHAKE: Duration = Duration::from_secs(3);

/// How far a worker has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Serving,

    /// Clients are told to ask elsewhere. What they have asked is finished.
    Draining,

    /// Connections are closed, finished or not.
    Closing,
}

/// A connection's, while its worker drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoAwayState {
    NotSent,

    /// It is waited for a handshake.
    Handshake {
        until: Instant,
    },

    /// The client has been told to ask elsewhere. What it asks is answered.
    Announced {
        until: Instant,
    },

    /// Nothing new is answered. It is waited for the client to hear that.
    Final {
        until: Instant,
    },

    /// It had its time to hear it.
    TimedOut,
}

impl GoAwayState {
    /// Where a connection stands, which has HTTP or is in its handshake.
    pub fn next(self, has_http: bool, now: Instant) -> Self {
        match self {
            Self::NotSent if !has_http => Self::Handshake { until: now + HANDSHAKE },
            Self::NotSent => Self::Announced { until: now + ANNOUNCEMENT },
            Self::Handshake { .. } if has_http => Self::Announced { until: now + ANNOUNCEMENT },
            Self::Handshake { until } | Self::Announced { until } if until <= now => {
                Self::Final { until: now + HEARING }
            }
            Self::Final { until } if until <= now => Self::TimedOut,
            same => same,
        }
    }

    /// When the next step is due.
    pub fn until(self) -> Option<Instant> {
        match self {
            Self::Handshake { until } | Self::Announced { until } | Self::Final { until } => {
                Some(until)
            }
            Self::NotSent | Self::TimedOut => None,
        }
    }

    /// Nothing new is answered.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Final { .. } | Self::TimedOut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_client_hears_it_once_its_handshake_is_complete_and_a_second_before_the_last_word() {
        let start = quiche::clock::now();
        let at = |seconds: u32| start + seconds * SECOND;
        let (handshake, said) =
            (GoAwayState::Handshake { until: at(3) }, GoAwayState::Announced { until: at(3) });
        let last = GoAwayState::Final { until: at(6) };
        for (before, has_http, now, after) in [
            (GoAwayState::NotSent, false, 0, handshake),
            (GoAwayState::NotSent, true, 2, said),
            (handshake, false, 2, handshake),
            (handshake, true, 2, said),
            (handshake, false, 3, last),
            (said, true, 2, said),
            (said, true, 3, last),
            (last, true, 5, last),
            (last, true, 6, GoAwayState::TimedOut),
            (GoAwayState::TimedOut, true, 9, GoAwayState::TimedOut),
        ] {
            assert_eq!(before.next(has_http, at(now)), after, "{before:?} {has_http} {now}");
        }
        let until = [handshake, said, last].map(GoAwayState::until);
        assert_eq!(until, [3, 3, 6].map(|seconds| Some(at(seconds))));
        assert_eq!((GoAwayState::NotSent.until(), GoAwayState::TimedOut.until()), (None, None));
        assert_eq!(
            [said, last, GoAwayState::TimedOut].map(GoAwayState::is_final),
            [false, true, true]
        );
    }
}
