//! Changes of a link over time.
//!
//! Owns the changes of rate, delay and loss at given times, and which value
//! holds at a time.

use crate::rate::Rate;
use std::time::Duration;

/// New properties of a link from a time on. What is `None` stays as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Change {
    /// Since the caller's origin.
    pub at: Duration,

    /// Holds for every bit sent from then on. A packet on the wire at that
    /// time goes on at the new rate with what is left of it, so that the link
    /// carries exactly what its rates allow at any time.
    pub rate: Option<Rate>,

    /// Holds for the packets whose last bit leaves from then on. Where it
    /// becomes shorter, they still arrive after those sent before.
    pub delay: Option<Duration>,

    /// Holds for the packets offered from then on.
    pub loss: Option<f64>,
}

/// One property over time. Time does not run backwards: each question is
/// about the time of the one before it, or later.
#[derive(Clone, Debug)]
pub(crate) struct Timeline<T> {
    current: T,
    /// Values and the times from which they apply, since the start of a repetition.
    changes: Vec<(u64, T)>,
    /// The next of them.
    next: usize,
    /// Start of the repetition that the next one is in.
    origin_ns: u64,
    period_ns: Option<u64>,
}

impl<T: Copy> Timeline<T> {
    /// Creates a timeline: `first` until the first of `changes` that names a value by `of`; they
    /// begin again after each `period`, if there is one.
    pub fn new(
        first: T,
        changes: &[Change],
        period: Option<Duration>,
        of: impl Fn(&Change) -> Option<T>,
    ) -> Self {
        let named = changes.iter().filter_map(|change| Some((ns(change.at), of(change)?)));
        let period_ns = period.map(ns);
        Self { current: first, changes: named.collect(), next: 0, origin_ns: 0, period_ns }
    }

    /// Has the changes count from `origin`.
    pub fn since(self, origin: Duration) -> Self {
        Self { origin_ns: ns(origin), ..self }
    }

    /// Returns the value at `now_ns`. Of two changes at one time, the later one holds.
    pub fn at(&mut self, now_ns: u64) -> T {
        while self.next_change_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            self.current = self.changes[self.next].1;
            self.next += 1;
            self.repeat();
        }
        self.current
    }

    /// Returns when the value changes after the time last asked about, if it does.
    pub fn next_change_ns(&self) -> Option<u64> {
        let &(at_ns, _) = self.changes.get(self.next)?;
        self.origin_ns.checked_add(at_ns)
    }

    fn repeat(&mut self) {
        let ends = self.next == self.changes.len();
        let again = self.period_ns.filter(|_| ends);
        if let Some(origin_ns) = again.and_then(|period_ns| self.origin_ns.checked_add(period_ns)) {
            self.origin_ns = origin_ns;
            self.next = 0;
        }
    }
}

/// Returns a time in whole nanoseconds; a u64 holds 584 years.
pub(crate) fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(at_ns: u64, loss: Option<f64>) -> Change {
        Change { at: Duration::from_nanos(at_ns), loss, ..Change::default() }
    }

    #[test]
    fn timeline_value_holds_from_its_time_on() {
        let changes = [loss(10, Some(0.1)), loss(20, None), loss(30, Some(0.3)), loss(30, None)];
        let mut timeline = Timeline::new(0.0, &changes, None, |change| change.loss);
        let held = [0, 9, 10, 25, 29, 30, 31].map(|now_ns| timeline.at(now_ns));
        assert_eq!(held, [0.0, 0.0, 0.1, 0.1, 0.1, 0.3, 0.3]);
    }

    #[test]
    fn timeline_takes_the_last_of_changes_at_once() {
        let changes = [loss(0, Some(0.1)), loss(5, Some(0.2)), loss(5, Some(0.3))];
        let mut timeline = Timeline::new(0.0, &changes, None, |change| change.loss);
        assert_eq!((timeline.at(0), timeline.next_change_ns()), (0.1, Some(5)));
        assert_eq!((timeline.at(5), timeline.next_change_ns()), (0.3, None));
    }

    #[test]
    fn timeline_with_a_period_begins_again() {
        let changes = [loss(0, Some(0.1)), loss(10, Some(0.2)), loss(20, None)];
        let period = Some(Duration::from_nanos(30));
        let mut timeline = Timeline::new(0.0, &changes, period, |change| change.loss);
        let held = [0, 9, 10, 29, 30, 40, 75, 300].map(|now_ns| timeline.at(now_ns));
        assert_eq!(held, [0.1, 0.1, 0.2, 0.2, 0.1, 0.2, 0.2, 0.1]);
        assert_eq!(timeline.next_change_ns(), Some(310));
        let period = Some(Duration::from_nanos(30));
        let timeline = Timeline::new(0.0, &changes, period, |change| change.loss);
        let mut timeline = timeline.since(Duration::from_nanos(1_000));
        let held = [0, 999, 1_000, 1_010, 1_030].map(|now_ns| timeline.at(now_ns));
        assert_eq!(held, [0.0, 0.0, 0.1, 0.2, 0.1]);
    }

    #[test]
    fn endless_time_ends_the_repetition() {
        let changes = [loss(0, Some(0.1))];
        let period = Some(Duration::from_nanos(u64::MAX / 2));
        let mut timeline = Timeline::new(0.0, &changes, period, |change| change.loss);
        assert_eq!((timeline.at(u64::MAX), timeline.next_change_ns()), (0.1, None));
    }
}
