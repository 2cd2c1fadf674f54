//! Drain of one worker: clients are sent GOAWAY, their requests are finished, and connections
//! that are left are closed. A pure state machine: commands and `now` in, stages out.

use crate::connection::shutdown::Stage;
use std::time::Duration;
use std::time::Instant;

/// How long CONNECTION_CLOSE may wait for a congestion window.
const CLOSING: Duration = Duration::from_secs(1);

/// State of one worker's shutdown.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    timeout: Duration,
    stage: Stage,

    /// When the stage ends at the latest.
    until: Option<Instant>,
}

impl Drain {
    /// Returns the state of a worker that serves. Requests under way have `timeout` to finish
    /// once it drains.
    pub fn new(timeout: Duration) -> Self {
        Self { timeout, stage: Stage::Serving, until: None }
    }

    /// Begins to drain. Returns the stage, if it is new.
    pub fn begin(&mut self, now: Instant) -> Option<Stage> {
        match self.stage {
            Stage::Serving if self.timeout.is_zero() => self.close(now),
            Stage::Serving => self.enter(Stage::Draining, now + self.timeout),
            Stage::Draining | Stage::Closing => None,
        }
    }

    /// Begins to close connections. Returns the stage, if it is new.
    pub fn close(&mut self, now: Instant) -> Option<Stage> {
        match self.stage {
            Stage::Closing => None,
            Stage::Serving | Stage::Draining => self.enter(Stage::Closing, now + CLOSING),
        }
    }

    /// Returns the stage.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Returns when the next stage begins, or the last one ends, at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        self.until
    }

    /// Enters the next stage, if it is time. Returns the stage, if it is new.
    pub fn advance(&mut self, now: Instant) -> Option<Stage> {
        let is_due = self.until.is_some_and(|until| until <= now);
        (is_due && self.stage == Stage::Draining).then(|| self.close(now)).flatten()
    }

    /// Returns whether the shutdown is complete: no connection is left, or its time has passed.
    pub fn is_complete(&self, now: Instant, all_drained: impl FnOnce() -> bool) -> bool {
        let has_timed_out =
            self.stage == Stage::Closing && self.until.is_some_and(|until| until <= now);
        self.stage > Stage::Serving && (has_timed_out || all_drained())
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
    fn drain_waits_for_clients_then_closes() {
        let start = quiche::clock::now();
        let mut drain = Drain::new(25 * SECOND);
        assert_eq!((drain.deadline(), drain.advance(start)), (None, None));
        assert!(!drain.is_complete(start, || true), "it serves");

        assert_eq!(drain.begin(start), Some(Stage::Draining));
        assert_eq!(drain.begin(start), None);
        assert_eq!(drain.advance(start), None);
        let at = start + 25 * SECOND;
        assert_eq!(drain.deadline(), Some(at));
        assert!(!drain.is_complete(at, || false) && drain.is_complete(at, || true));
        assert_eq!(drain.advance(at), Some(Stage::Closing));
        assert!(!drain.is_complete(at, || false) && drain.is_complete(at, || true));
        assert_eq!(drain.close(at), None);
        assert_eq!(drain.deadline(), Some(at + SECOND));
        assert_eq!(drain.advance(at + SECOND), None);
        assert!(drain.is_complete(at + SECOND, || false), "its time has passed");
    }

    #[test]
    fn drain_without_timeout_or_stop_closes_at_once() {
        let start = quiche::clock::now();
        assert_eq!(Drain::new(Duration::ZERO).begin(start), Some(Stage::Closing));
        let mut drain = Drain::new(25 * SECOND);
        assert_eq!(drain.close(start), Some(Stage::Closing));
        assert_eq!(drain.begin(start), None);
    }
}
