//! Event queue: small events in order of time and, at the same time, in the order
//! in which they were queued.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::VecDeque;
use std::time::Duration;

use super::packets::Slot;

/// The index of a flow.
pub type FlowIndex = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The flow begins.
    Start(FlowIndex),

    /// The flow's client may have something to do.
    ClientTimer(FlowIndex),

    /// The flow's server may have something to do.
    ServerTimer(FlowIndex),

    /// An ACK of the flow's client has been held back for long enough.
    AckDue(FlowIndex),

    /// A packet leaves a dual queue.
    Dequeued,

    /// Shares of the link are measured from now on.
    Measure(FlowIndex),

    /// A packet arrives at the flow's client.
    AtClient(FlowIndex, Slot),

    /// A packet arrives at the bottleneck, on its way to the flow's server.
    AtUplink(FlowIndex, Slot),

    /// A packet arrives at the flow's server.
    AtServer(FlowIndex, Slot),
}

impl Event {
    /// Returns which way a packet is on; None for other events.
    fn lane(self) -> Option<usize> {
        let (flow, way) = match self {
            Self::AtClient(flow, _) => (flow, 0),
            Self::AtUplink(flow, _) => (flow, 1),
            Self::AtServer(flow, _) => (flow, 2),
            _ => return None,
        };
        Some(flow as usize * 3 + way)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    at: Duration,
    serial: u64,
    event: Event,
}

impl Ord for Entry {
    // Reversed: the heap's greatest is the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.serial).cmp(&(self.at, self.serial))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The events to come. Packets on the same way arrive in the order in which
/// they left: they wait in a lane, only the first of which is in the heap.
#[derive(Debug, Default)]
pub struct EventQueue {
    heap: BinaryHeap<Entry>,
    lanes: Vec<VecDeque<Entry>>,
    serial: u64,
}

impl EventQueue {
    pub fn push(&mut self, at: Duration, event: Event) {
        self.serial += 1;
        let entry = Entry { at, serial: self.serial, event };
        let Some(lane) = event.lane() else {
            return self.heap.push(entry);
        };
        if lane >= self.lanes.len() {
            self.lanes.resize_with(lane + 1, VecDeque::new);
        }
        let lane = &mut self.lanes[lane];
        if lane.is_empty() {
            self.heap.push(entry);
        }
        debug_assert!(lane.back().is_none_or(|last| last.at <= at), "a packet overtakes");
        lane.push_back(entry);
    }

    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    pub fn pop(&mut self) -> Option<(Duration, Event)> {
        let Entry { at, event, .. } = self.heap.pop()?;
        if let Some(lane) = event.lane() {
            let lane = &mut self.lanes[lane];
            lane.pop_front();
            self.heap.extend(lane.front());
        }
        Some((at, event))
    }

    /// Returns the next event, if it happens at `at` or was due before.
    pub fn pop_due(&mut self, at: Duration) -> Option<Event> {
        self.heap.peek().filter(|entry| entry.at <= at)?;
        self.pop().map(|(_, event)| event)
    }
}

/// A timer of one host: of all events queued for it, the earliest counts.
#[derive(Debug, Default)]
pub struct Timer {
    queued: Option<Duration>,
}

impl Timer {
    /// Sees to it `now` that `event` happens by `deadline`, or at once if that
    /// has passed. One that was queued for an earlier time stays, and finds
    /// nothing to do.
    pub fn set(
        &mut self,
        now: Duration,
        deadline: Option<Duration>,
        event: Event,
        queue: &mut EventQueue,
    ) {
        let Some(deadline) = deadline.map(|deadline| deadline.max(now)) else { return };
        if self.queued.is_none_or(|queued| deadline < queued) {
            self.queued = Some(deadline);
            queue.push(deadline, event);
        }
    }

    /// Notes that an event of this timer happened at `now`. Returns false if another one was queued
    /// for an earlier time since, which has happened.
    pub fn fired(&mut self, now: Duration) -> bool {
        let counts = self.queued == Some(now);
        if counts {
            self.queued = None;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::super::packets::Packets;
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn events_come_by_time_then_by_queueing() {
        let mut queue = EventQueue::default();
        for (at, flow) in [(5, 0), (3, 1), (5, 2), (3, 3), (4, 4)] {
            queue.push(ms(at), Event::ClientTimer(flow));
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        let expected = [(3, 1), (3, 3), (4, 4), (5, 0), (5, 2)];
        assert_eq!(order, expected.map(|(at, flow)| (ms(at), Event::ClientTimer(flow))));
    }

    #[test]
    fn packets_come_by_time_then_by_queueing() {
        let (mut queue, mut packets) = (EventQueue::default(), Packets::default());
        let mut expected = vec![];
        for i in 0..200 {
            let (flow, slot, at) = (i % 7, packets.allocate(), ms(u64::from(i / 14)));
            let event = match i % 3 {
                0 => Event::AtClient(flow, slot),
                1 => Event::AtUplink(flow, slot),
                _ => Event::ClientTimer(flow),
            };
            queue.push(at, event);
            expected.push((at, event));
        }
        assert_eq!(std::iter::from_fn(|| queue.pop()).collect::<Vec<_>>(), expected);
        assert!(queue.is_empty());
    }

    #[test]
    fn events_are_taken_when_due() {
        let mut queue = EventQueue::default();
        queue.push(ms(2), Event::ServerTimer(0));
        assert_eq!(queue.pop_due(ms(1)), None);
        assert_eq!(queue.pop_due(ms(2)), Some(Event::ServerTimer(0)));
        assert_eq!(queue.pop_due(ms(3)), None);
    }

    #[test]
    fn timer_fires_once_for_its_earliest_deadline() {
        let (mut queue, mut timer) = (EventQueue::default(), Timer::default());
        let event = Event::ClientTimer(0);
        for at in [7, 9, 4, 4] {
            timer.set(ms(1), Some(ms(at)), event, &mut queue);
        }
        let fired: Vec<_> =
            std::iter::from_fn(|| queue.pop()).map(|(at, _)| (at, timer.fired(at))).collect();
        assert_eq!(fired, [(ms(4), true), (ms(7), false)]);

        timer.set(ms(9), Some(ms(5)), event, &mut queue);
        assert_eq!(queue.pop(), Some((ms(9), event)));
    }
}
