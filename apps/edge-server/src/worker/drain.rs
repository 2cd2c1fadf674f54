//! The end of a server: clients are told, what they asked is finished, and what is left
//! is closed.
//!
//! Pure state machines of one worker and of one connection: commands and `now` in, stages
//! out.

use crate::connection::shutdown::Stage;
use std::time::Duration;
use std::time::Instant;

/// How long clients may take to make room for the news that their connections close.
const CLOSING: Duration = Duration::from_secs(1);

/// A worker's way to its end.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    patience: Duration,
    stage: Stage,

    /// When the stage ends, at the latest.
    until: Option<Instant>,
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

    /// The stage that it is at.
    pub fn stage(&self) -> Stage {
        self.stage
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
    pub fn is_over(&self, now: Instant, everybody_is_gone: impl FnOnce() -> bool) -> bool {
        let is_late = self.stage == Stage::Closing && self.until.is_some_and(|until| until <= now);
        self.stage > Stage::Serving && (is_late || everybody_is_gone())
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
    fn clients_are_waited_for_then_closed() {
        let start = quiche::clock::now();
        let mut drain = Drain::new(25 * SECOND);
        assert_eq!((drain.deadline(), drain.advance(start)), (None, None));
        assert!(!drain.is_over(start, || true), "nobody asked for it");

        assert_eq!(drain.begin(start), Some(Stage::Draining));
        assert_eq!(drain.begin(start), None);
        assert_eq!(drain.advance(start), None);
        let at = start + 25 * SECOND;
        assert_eq!(drain.deadline(), Some(at));
        assert!(!drain.is_over(at, || false) && drain.is_over(at, || true));
        assert_eq!(drain.advance(at), Some(Stage::Closing));
        assert!(!drain.is_over(at, || false) && drain.is_over(at, || true));
        assert_eq!(drain.close(at), None);
        assert_eq!(drain.deadline(), Some(at + SECOND));
        assert_eq!(drain.advance(at + SECOND), None);
        assert!(drain.is_over(at + SECOND, || false), "whoever is left");
    }

    #[test]
    fn without_patience_or_upon_request_there_is_no_waiting() {
        let start = quiche::clock::now();
        assert_eq!(Drain::new(Duration::ZERO).begin(start), Some(Stage::Closing));
        let mut drain = Drain::new(25 * SECOND);
        assert_eq!(drain.close(start), Some(Stage::Closing));
        assert_eq!(drain.begin(start), None);
    }
}
