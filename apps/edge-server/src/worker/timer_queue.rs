//! Timer queue of one worker: one deadline for each connection.

use std::collections::BTreeSet;
use std::time::Instant;

/// Deadlines of connections, by their slots.
#[derive(Debug, Default)]
pub struct TimerQueue {
    queue: BTreeSet<(Instant, usize)>,
    of_slot: Vec<Option<Instant>>,
}

impl TimerQueue {
    /// Replaces the deadline of `slot`; `None` removes it.
    pub fn set(&mut self, slot: usize, deadline: Option<Instant>) {
        if slot >= self.of_slot.len() {
            self.of_slot.resize(slot + 1, None);
        }
        let old = std::mem::replace(&mut self.of_slot[slot], deadline);
        if old == deadline {
            return;
        }
        if let Some(old) = old {
            self.queue.remove(&(old, slot));
        }
        if let Some(new) = deadline {
            self.queue.insert((new, slot));
        }
    }

    /// Returns the earliest deadline.
    pub fn first(&self) -> Option<Instant> {
        self.queue.first().map(|(deadline, _)| *deadline)
    }

    /// Removes a slot whose deadline has passed, and returns it.
    pub fn pop_due(&mut self, now: Instant) -> Option<usize> {
        let (deadline, slot) = *self.queue.first()?;
        if deadline > now {
            return None;
        }
        self.queue.pop_first();
        self.of_slot[slot] = None;
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn due_slots_come_once_earliest_first() {
        let start = quiche::clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut timers = TimerQueue::default();
        timers.set(0, Some(at(30)));
        timers.set(5, Some(at(10)));
        timers.set(2, Some(at(20)));
        assert_eq!(timers.first(), Some(at(10)));

        assert_eq!(timers.pop_due(at(9)), None);
        assert_eq!(timers.pop_due(at(20)), Some(5));
        assert_eq!(timers.pop_due(at(20)), Some(2));
        assert_eq!(timers.pop_due(at(20)), None);
        assert_eq!(timers.first(), Some(at(30)));
    }

    #[test]
    fn later_deadline_replaces_the_earlier_one() {
        let start = quiche::clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut timers = TimerQueue::default();
        timers.set(1, Some(at(10)));
        timers.set(1, Some(at(40)));
        assert_eq!(timers.pop_due(at(20)), None);
        timers.set(1, None);
        assert_eq!(timers.first(), None);
        assert_eq!(timers.pop_due(at(50)), None);
    }
}
