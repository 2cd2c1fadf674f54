//! Log of phase changes, with a cursor for each of its readers.

use std::time::Instant;

use super::CarefulResumeEvent;

/// At most as many events as there are phases.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    events: Vec<CarefulResumeEvent>,

    /// How many of them have the state after the controller's answer.
    settled: usize,

    /// How many of them the application has taken.
    drained: usize,

    #[cfg(feature = "qlog")]
    logged: usize,
}

impl EventLog {
    pub(super) fn push(&mut self, event: CarefulResumeEvent) {
        self.events.push(event);
    }

    /// Gives the events since the last call the state after the controller's
    /// answer: congestion window and slow-start threshold, in bytes.
    pub(super) fn settle(&mut self, cwnd: usize, ssthresh: usize) {
        for event in &mut self.events[self.settled..] {
            event.congestion_window = cwnd;
            event.ssthresh = ssthresh;
        }

        self.settled = self.events.len();
    }

    /// As [`settle()`], for all events of `now`.
    ///
    /// [`settle()`]: EventLog::settle
    pub(super) fn settle_again(
        &mut self, cwnd: usize, ssthresh: usize, now: Instant,
    ) {
        let first = self.events.partition_point(|event| event.time < now);
        self.settled = self.settled.min(first);
        self.settle(cwnd, ssthresh);
    }

    /// Returns the events that the application has not taken.
    pub(super) fn pending(&self) -> &[CarefulResumeEvent] {
        &self.events[self.drained..]
    }

    pub(super) fn take_next(&mut self) -> Option<CarefulResumeEvent> {
        let event = self.pending().first().copied()?;
        self.drained += 1;
        Some(event)
    }

    /// Returns the events since the last call.
    #[cfg(feature = "qlog")]
    pub(super) fn take_unlogged(&mut self) -> &[CarefulResumeEvent] {
        let from = std::mem::replace(&mut self.logged, self.events.len());
        &self.events[from..]
    }
}
