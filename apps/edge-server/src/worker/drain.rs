//! Drain of one worker: clients are sent GOAWAY, their requests are finished, and connections
//! that are left are closed. A pure state machine: commands and `now` in, stages out.

use crate::connection::shutdown::Stage;
use std::time::Duration;
use std::time::Instant;

/// How long CONNECTION_CLOSE may wait for a congestion window.
const CLOSING: Duration = Duration::from_secs(1);

/// The same if an older process then serves: nobody does meanwhile.
const CLOSING_FOR_OLDER: Duration = Duration::from_millis(100);

/// How long a process that has handed over gives its clients, at least.
const HANDOVER_MIN: Duration = Duration::from_secs(2);

/// How long it stays, even without connections, unless the new one reports that it serves: if that
/// fails at its start, nobody else does. The end of a process that was killed may take seconds on a
/// busy machine.
const STAY_MAX: Duration = Duration::from_secs(30);

/// State of one worker's shutdown.
#[derive(Clone, Copy, Debug)]
pub struct Drain {
    timeout: Duration,
    stage: Stage,
    reason: DrainReason,

    /// When the stage ends at the latest.
    until: Option<Instant>,

    /// Until when the process stays without connections, and its clients may stay.
    stays_until: Option<Instant>,

    /// Whether the newest process has reported that it serves.
    newer_serves: bool,

    /// Whether an older process serves once this one has ended.
    rolls_back: bool,
}

/// Reason of a drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainReason {
    /// Another process accepts new clients. If it ends, this one does again.
    HandedOver,

    /// The process is to end.
    Ordered,
}

impl Drain {
    /// Returns the state of a worker that serves. Requests under way have `timeout` to finish
    /// once it drains.
    pub fn new(timeout: Duration) -> Self {
        let (stage, reason) = (Stage::Serving, DrainReason::HandedOver);
        Self {
            timeout,
            stage,
            reason,
            until: None,
            stays_until: None,
            newer_serves: false,
            rolls_back: false,
        }
    }

    /// Begins to drain. Returns the stage, if it is new.
    pub fn begin(&mut self, reason: DrainReason, now: Instant) -> Option<Stage> {
        if self.stage == Stage::Serving || reason == DrainReason::Ordered {
            self.reason = reason;
        }
        let handed_over = self.reason == DrainReason::HandedOver;
        match self.stage {
            Stage::Serving if handed_over => {
                let until = now + self.timeout.max(HANDOVER_MIN);
                self.stays_until = (!self.newer_serves).then_some(now + STAY_MAX);
                self.enter(Stage::Draining, until)
            }
            Stage::Serving if !self.timeout.is_zero() => {
                self.enter(Stage::Draining, now + self.timeout)
            }
            Stage::Serving => self.close(now),
            Stage::Draining if !handed_over => {
                self.stays_until = None;
                self.timeout.is_zero().then(|| self.close(now)).flatten()
            }
            Stage::Draining | Stage::Closing => None,
        }
    }

    /// Begins to close connections. Returns the stage, if it is new.
    pub fn close(&mut self, now: Instant) -> Option<Stage> {
        match self.stage {
            Stage::Closing => None,
            Stage::Serving | Stage::Draining => {
                self.stays_until = None;
                self.enter(Stage::Closing, now + CLOSING)
            }
        }
    }

    /// Begins to close connections, so that an older process serves soon. Returns the stage, if it is
    /// new.
    pub fn roll_back(&mut self, now: Instant) -> Option<Stage> {
        self.close(now)?;
        self.rolls_back = true;
        self.enter(Stage::Closing, now + CLOSING_FOR_OLDER)
    }

    /// Returns whether an older process is about to serve new clients.
    pub fn rolls_back(&self) -> bool {
        self.rolls_back
    }

    /// Notes that the newest process serves, perhaps before the drain begins.
    pub fn on_newer_serves(&mut self) {
        (self.newer_serves, self.stays_until) = (true, None);
    }

    /// Serves again, if the drain was for a handover and has time left.
    pub fn serve_again(&mut self) {
        self.newer_serves = false;
        if self.stage == Stage::Draining && self.reason == DrainReason::HandedOver {
            (self.stage, self.until, self.stays_until) = (Stage::Serving, None, None);
        }
    }

    /// Returns the stage.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Returns when the next stage begins, or the last one ends, at the latest, or when a process
    /// without connections may end.
    pub fn deadline(&self) -> Option<Instant> {
        self.stays_until.or(self.until)
    }

    /// Enters the next stage, if it is time. Returns the stage, if it is new.
    pub fn advance(&mut self, now: Instant) -> Option<Stage> {
        self.stays_until = self.stays_until.filter(|until| *until > now);
        let is_due = self.stays_until.is_none() && self.until.is_some_and(|until| until <= now);
        (is_due && self.stage == Stage::Draining).then(|| self.close(now)).flatten()
    }

    /// Returns whether the shutdown is complete: no connection is left, or its time has passed.
    pub fn is_complete(&self, now: Instant, all_drained: impl FnOnce() -> bool) -> bool {
        let has_timed_out =
            self.stage == Stage::Closing && self.until.is_some_and(|until| until <= now);
        self.stage > Stage::Serving
            && (has_timed_out || self.stays_until.is_none() && all_drained())
    }

    fn enter(&mut self, stage: Stage, until: Instant) -> Option<Stage> {
        (self.stage, self.until) = (stage, Some(until));
        Some(stage)
    }
}

#[cfg(test)]
mod tests {
    use super::DrainReason::*;
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn drain_waits_for_clients_then_closes() {
        let start = quiche::clock::now();
        let mut drain = Drain::new(25 * SECOND);
        assert_eq!((drain.deadline(), drain.advance(start)), (None, None));
        assert!(!drain.is_complete(start, || true), "it serves");

        assert_eq!(drain.begin(Ordered, start), Some(Stage::Draining));
        assert_eq!(drain.begin(Ordered, start), None);
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
        assert_eq!(Drain::new(Duration::ZERO).begin(Ordered, start), Some(Stage::Closing));
        let mut drain = Drain::new(25 * SECOND);
        assert_eq!(drain.close(start), Some(Stage::Closing));
        assert_eq!(drain.begin(Ordered, start), None);
    }

    #[test]
    fn process_that_handed_over_stays_until_the_new_one_serves() {
        let start = quiche::clock::now();
        for timeout in [25 * SECOND, Duration::ZERO] {
            let mut drain = Drain::new(timeout);
            assert_eq!(drain.begin(HandedOver, start), Some(Stage::Draining));
            assert_eq!(drain.deadline(), Some(start + STAY_MAX));
            let early = start + STAY_MAX - Duration::from_millis(1);
            assert_eq!(drain.advance(early), None);
            assert!(!drain.is_complete(early, || true));
            let mut told_to_end = drain;
            told_to_end.begin(Ordered, early);
            assert!(told_to_end.is_complete(early, || true));

            let mut without_report = drain;
            assert_eq!(without_report.advance(start + STAY_MAX), Some(Stage::Closing));
            assert!(without_report.is_complete(start + STAY_MAX, || true));

            drain.on_newer_serves();
            assert!(drain.is_complete(start, || true) && !drain.is_complete(start, || false));
            let until = start + timeout.max(HANDOVER_MIN);
            assert_eq!((drain.deadline(), drain.advance(start)), (Some(until), None));
            assert_eq!(drain.advance(until), Some(Stage::Closing));
        }
    }

    #[test]
    fn report_holds_for_one_handover() {
        let start = quiche::clock::now();
        let mut drain = Drain::new(25 * SECOND);
        drain.on_newer_serves();
        drain.begin(HandedOver, start);
        assert!(drain.is_complete(start, || true));
        drain.serve_again();
        drain.begin(HandedOver, start);
        assert!(!drain.is_complete(start, || true));
    }

    #[test]
    fn roll_back_waits_for_no_congestion_window() {
        let start = quiche::clock::now();
        let mut drain = Drain::new(25 * SECOND);
        assert_eq!(drain.roll_back(start), Some(Stage::Closing));
        assert_eq!(drain.roll_back(start + SECOND), None);
        assert!(!drain.is_complete(start, || false));
        assert!(drain.is_complete(start + CLOSING_FOR_OLDER, || false));
    }

    #[test]
    fn only_a_handover_is_taken_back() {
        let start = quiche::clock::now();
        for (reasons, expected) in [
            (&[HandedOver][..], Stage::Serving),
            (&[Ordered], Stage::Draining),
            (&[HandedOver, Ordered], Stage::Draining),
            (&[Ordered, HandedOver], Stage::Draining),
        ] {
            let mut drain = Drain::new(25 * SECOND);
            for reason in reasons {
                drain.begin(*reason, start);
            }
            drain.serve_again();
            assert_eq!(drain.stage(), expected, "{reasons:?}");
            assert_eq!(drain.deadline().is_none(), expected == Stage::Serving);
        }
        let mut drain = Drain::new(25 * SECOND);
        drain.begin(HandedOver, start);
        drain.close(start);
        drain.serve_again();
        assert_eq!(drain.stage(), Stage::Closing);
    }
}
