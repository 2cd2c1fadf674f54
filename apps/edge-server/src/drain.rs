//! The end of a server, in stages: clients are told, what they asked is finished, and
//! what is left is closed.
//!
//! A pure state machine of one worker: orders and `now` in, stages out.

use std::time::Duration;
use std::time::Instant;

/// How long clients may take to hear that there is more than one server: requests that
/// are on their way meanwhile are answered. More than a round trip of any path.
const ANNOUNCEMENT: Duration = Duration::from_secs(1);

/// How long clients may take to make room for the news that their connections close.
const CLOSING: Duration = Duration::from_secs(1);

/// How far a worker has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Serving,

    /// Clients are told to ask no more here. What they ask is answered.
    Announced,

    /// What was asked is finished, and nothing else begun.
    Finishing,

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

    /// When connections are closed, at the latest.
    close_at: Option<Instant>,
}

impl Drain {
    /// Of a worker that serves, and that is to be patient with what is under way when
    /// its end begins.
    pub fn new(patience: Duration) -> Self {
        Self { patience, stage: Stage::Serving, until: None, close_at: None }
    }

    /// Clients are to go. Returns the new stage, if it is one.
    pub fn begin(&mut self, now: Instant) -> Option<Stage> {
        if self.stage > Stage::Serving {
            return None;
        }
        if self.patience.is_zero() {
            return self.close(now);
        }
        let close_at = now + self.patience;
        self.close_at = Some(close_at);
        self.enter(Stage::Announced, (now + ANNOUNCEMENT).min(close_at))
    }

    /// Connections are to be closed. Returns the new stage, if it is one.
    pub fn close(&mut self, now: Instant) -> Option<Stage> {
        if self.stage == Stage::Closing {
            return None;
        }
        self.enter(Stage::Closing, now + CLOSING)
    }

    /// When the next stage begins, or the last one ends, at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        self.until
    }

    /// Goes on when it is time. Returns the new stage, if it is one.
    pub fn advance(&mut self, now: Instant) -> Option<Stage> {
        let is_due = self.until.is_some_and(|until| until <= now);
        match self.stage {
            _ if !is_due => None,
            Stage::Announced => self.enter(Stage::Finishing, self.close_at?),
            Stage::Finishing => self.close(now),
            Stage::Serving | Stage::Closing => None,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn clients_are_told_then_waited_for_then_closed() {
        let start = quiche::clock::now();
        let mut drain = Drain::new(25 * SECOND);
        assert_eq!((drain.deadline(), drain.advance(start)), (None, None));
        assert!(!drain.is_over(start, true), "nobody asked for it");

        assert_eq!(drain.begin(start), Some(Stage::Announced));
        assert_eq!(drain.begin(start), None);
        assert_eq!(drain.advance(start), None);
        for (second, stage) in [(1, Stage::Finishing), (25, Stage::Closing)] {
            let at = start + second * SECOND;
            assert_eq!(drain.deadline(), Some(at));
            assert_eq!(drain.advance(at), Some(stage));
            assert!(!drain.is_over(at, false) && drain.is_over(at, true));
        }
        assert_eq!(drain.close(start + 25 * SECOND), None);
        assert_eq!(drain.deadline(), Some(start + 26 * SECOND));
        assert!(drain.is_over(start + 26 * SECOND, false), "whoever is left");
    }

    #[test]
    fn without_patience_or_upon_request_there_is_no_waiting() {
        let start = quiche::clock::now();
        assert_eq!(Drain::new(Duration::ZERO).begin(start), Some(Stage::Closing));
        let mut drain = Drain::new(25 * SECOND);
        assert_eq!(drain.close(start), Some(Stage::Closing));
        assert_eq!(drain.begin(start), None);

        let mut drain = Drain::new(SECOND / 2);
        drain.begin(start);
        let at = start + SECOND / 2;
        assert_eq!(drain.advance(at), Some(Stage::Finishing));
        assert_eq!(drain.advance(at), Some(Stage::Closing));
    }
}
