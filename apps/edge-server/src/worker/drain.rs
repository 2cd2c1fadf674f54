//! The end of a server: clients are told, what they asked is finished, and what is left
//! is closed.
//!
//! Pure state machines of one worker and of one connection: orders and `now` in, stages
//! out.

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

/// How long clients may take to make room for the news that their connections close.
const CLOSING: Duration = Duration::from_secs(1);

/// How far a worker has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Serving,

    /// Clients are told to ask elsewhere. What they have asked is finished.
    Draining,

    /// Connections are closed, finished or not.
    Closing,
}

/// A worker's way to its end.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    patience: Duration,
    stage: Stage,

    /// When the stage ends, at the latest.
    until: Option<Instant>,
}

/// A connection's, while its worker drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    Unsaid,

    /// It is waited for a handshake.
    Handshake {
        until: Instant,
    },

    /// The client has been told to ask elsewhere. What it asks is answered.
    Said {
        until: Instant,
    },

    /// Nothing new is answered. It is waited for the client to hear that.
    Last {
        until: Instant,
    },

    /// It had its time to hear it.
    Over,
}

impl Drain {
    /// Of a worker that serves, and that is to be patient with what is under way when
    /// its end begins.
    pub fn new(patience: Duration) -> Self {
        Self { patience, stage: Stage::Serving, until: None }
    }

    /// Clients are to go. Returns the new stage, if it is one.
    pub fn begin(&mut self, now: Instant) -> Option<Stage> {
        match self.stage {
            Stage::Serving if self.patience.is_zero() => self.close(now),
            Stage::Serving => self.enter(Stage::Draining, now + self.patience),
            Stage::Draining | Stage::Closing => None,
        }
    }

    /// Connections are to be closed. Returns the new stage, if it is one.
    pub fn close(&mut self, now: Instant) -> Option<Stage> {
        match self.stage {
            Stage::Closing => None,
            Stage::Serving | Stage::Draining => self.enter(Stage::Closing, now + CLOSING),
        }
    }

    /// When the next stage begins, or the last one ends, at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        self.until
    }

    /// Goes on when it is time. Returns the new stage, if it is one.
    pub fn advance(&mut self, now: Instant) -> Option<Stage> {
        let is_due = self.until.is_some_and(|until| until <= now);
        (is_due && self.stage == Stage::Draining).then(|| self.close(now)).flatten()
    }

    /// The end has come: every client is gone, or there is no more time.
    pub fn is_over(&self, now: Instant, everybody_is_gone: bool) -> bool {
        let is_late = self.stage == Stage::Closing && self.until.is_some_and(|until| until <= now);
        self.stage > Stage::Serving && (everybody_is_gone || is_late)
    }

    fn enter(&mut self, stage: Stage, until: Instant) -> Option<Stage> {
        (self.stage, self.until) = (stage, Some(until));
        Some(stage)
    }
}

impl Farewell {
    /// Where a connection stands, which has HTTP or is in its handshake.
    pub fn next(self, has_http: bool, now: Instant) -> Self {
        match self {
            Self::Unsaid if !has_http => Self::Handshake { until: now + HANDSHAKE },
            Self::Unsaid => Self::Said { until: now + ANNOUNCEMENT },
            Self::Handshake { .. } if has_http => Self::Said { until: now + ANNOUNCEMENT },
            Self::Handshake { until } | Self::Said { until } if until <= now => {
                Self::Last { until: now + HEARING }
            }
            Self::Last { until } if until <= now => Self::Over,
            same => same,
        }
    }

    /// When the next step is due.
    pub fn until(self) -> Option<Instant> {
        match self {
            Self::Handshake { until } | Self::Said { until } | Self::Last { until } => Some(until),
            Self::Unsaid | Self::Over => None,
        }
    }

    /// Nothing new is answered.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Last { .. } | Self::Over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn clients_are_waited_for_then_closed() {
        let start = quiche::clock::now();
        let mut drain = Drain::new(25 * SECOND);
        assert_eq!((drain.deadline(), drain.advance(start)), (None, None));
        assert!(!drain.is_over(start, true), "nobody asked for it");

        assert_eq!(drain.begin(start), Some(Stage::Draining));
        assert_eq!(drain.begin(start), None);
        assert_eq!(drain.advance(start), None);
        let at = start + 25 * SECOND;
        assert_eq!(drain.deadline(), Some(at));
        assert!(!drain.is_over(at, false) && drain.is_over(at, true));
        assert_eq!(drain.advance(at), Some(Stage::Closing));
        assert!(!drain.is_over(at, false) && drain.is_over(at, true));
        assert_eq!(drain.close(at), None);
        assert_eq!(drain.deadline(), Some(at + SECOND));
        assert_eq!(drain.advance(at + SECOND), None);
        assert!(drain.is_over(at + SECOND, false), "whoever is left");
    }

    #[test]
    fn without_patience_or_upon_request_there_is_no_waiting() {
        let start = quiche::clock::now();
        assert_eq!(Drain::new(Duration::ZERO).begin(start), Some(Stage::Closing));
        let mut drain = Drain::new(25 * SECOND);
        assert_eq!(drain.close(start), Some(Stage::Closing));
        assert_eq!(drain.begin(start), None);
    }

    #[test]
    fn a_client_hears_it_once_its_handshake_is_complete_and_a_second_before_the_last_word() {
        let start = quiche::clock::now();
        let at = |seconds: u32| start + seconds * SECOND;
        let (handshake, said) =
            (Farewell::Handshake { until: at(3) }, Farewell::Said { until: at(3) });
        let last = Farewell::Last { until: at(6) };
        for (before, has_http, now, after) in [
            (Farewell::Unsaid, false, 0, handshake),
            (Farewell::Unsaid, true, 2, said),
            (handshake, false, 2, handshake),
            (handshake, true, 2, said),
            (handshake, false, 3, last),
            (said, true, 2, said),
            (said, true, 3, last),
            (last, true, 5, last),
            (last, true, 6, Farewell::Over),
            (Farewell::Over, true, 9, Farewell::Over),
        ] {
            assert_eq!(before.next(has_http, at(now)), after, "{before:?} {has_http} {now}");
        }
        let until = [handshake, said, last].map(Farewell::until);
        assert_eq!(until, [3, 3, 6].map(|seconds| Some(at(seconds))));
        assert_eq!((Farewell::Unsaid.until(), Farewell::Over.until()), (None, None));
        assert_eq!([said, last, Farewell::Over].map(Farewell::is_final), [false, true, true]);
    }
}
