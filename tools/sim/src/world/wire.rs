//! Wire between the hosts of a run: packets on their way, and the events of their
//! arrival.

use std::time::Duration;

use super::events::Event;
use super::events::EventQueue;
use super::packets::Packets;
use super::packets::Slot;
use super::thinning::Thinning;
use super::topology::Arrival;
use super::topology::Crossing;
use super::topology::Departed;
use super::topology::Network;
use super::topology::Parcel;
use crate::trace::Depths;

/// Links, packets and events.
pub struct Wire {
    pub queue: EventQueue,
    pub packets: Packets,
    pub network: Network,
    /// None if all ACKs pass.
    thinning: Option<Thinning>,
    /// None unless the queue of the bottleneck is traced.
    pub depths: Option<Depths>,
    /// Whether an event is queued for the next packet to leave a dual queue.
    is_dequeue_queued: bool,
}

impl Wire {
    pub fn new(
        network: Network,
        thinning: Option<Thinning>,
        depths: Option<Depths>,
        packets: Packets,
    ) -> Self {
        let queue = EventQueue::default();
        Self { queue, packets, network, thinning, depths, is_dequeue_queued: false }
    }

    /// Sends a packet of `bytes` of the server of `flow`. Returns false if it is dropped.
    pub fn send_down(&mut self, now: Duration, flow: usize, slot: Slot, bytes: usize) -> bool {
        self.packets.set_length(slot, bytes);
        let passage = self.network.carry_down(now, flow, slot, self.parcel(slot));
        if let Some(depths) = &mut self.depths {
            depths.note(now, self.network.backlog(now), passage == Crossing::Dropped);
        }
        let arrival = match passage {
            Crossing::Arrives(arrival) => Some(arrival),
            Crossing::Dropped => None,
            Crossing::Waits => {
                self.await_dequeue();
                return true;
            }
        };
        self.schedule(arrival, slot, Event::AtClient(flow as u32, slot))
    }

    /// Sends the packets on that have left a dual queue by `now`. Returns flow and bytes of one that
    /// was dropped there; call it until it returns None.
    pub fn on_dequeue(&mut self, now: Duration) -> Option<(usize, usize)> {
        self.is_dequeue_queued = false;
        while let Some(Departed { flow, slot, arrival }) = self.network.take_departed(now) {
            let bytes = self.packets.length(slot);
            if !self.schedule(arrival, slot, Event::AtClient(flow as u32, slot)) {
                return Some((flow, bytes));
            }
        }
        self.await_dequeue();
        None
    }

    fn await_dequeue(&mut self) {
        if self.is_dequeue_queued {
            return;
        }
        if let Some(at) = self.network.next_departure() {
            self.is_dequeue_queued = true;
            self.queue.push(at, Event::Dequeued);
        }
    }

    /// Sends a packet of `bytes` of the client of `flow`.
    pub fn send_up(&mut self, now: Duration, flow: usize, slot: Slot, bytes: usize) {
        self.packets.set_length(slot, bytes);
        let Some(thinning) = &mut self.thinning else {
            return self.pass_up(now, flow, slot);
        };
        let passing = thinning.offer(now, flow, slot, &mut self.packets);
        if let Some(due) = passing.due {
            self.queue.push(due, Event::AckDue(flow as u32));
        }
        for slot in passing.slots.into_iter().flatten() {
            self.pass_up(now, flow, slot);
        }
    }

    /// Sends the ACK of the client of `flow` that is due, if any.
    pub fn on_ack_due(&mut self, now: Duration, flow: usize) {
        let thinning = self.thinning.as_mut();
        if let Some(slot) = thinning.and_then(|thinning| thinning.take_due(now, flow)) {
            self.pass_up(now, flow, slot);
        }
    }

    fn pass_up(&mut self, now: Duration, flow: usize, slot: Slot) {
        let arrival = self.network.carry_over_access(now, flow, self.parcel(slot));
        self.schedule(arrival, slot, Event::AtUplink(flow as u32, slot));
    }

    /// Carries a packet of the client of `flow` over the bottleneck.
    pub fn cross_up(&mut self, now: Duration, flow: u32, slot: Slot) {
        let arrival = self.network.carry_up(now, self.parcel(slot));
        self.schedule(arrival, slot, Event::AtServer(flow, slot));
    }

    fn parcel(&self, slot: Slot) -> Parcel {
        Parcel { bytes: self.packets.length(slot), ecn: self.packets.ecn(slot) }
    }

    fn schedule(&mut self, arrival: Option<Arrival>, slot: Slot, event: Event) -> bool {
        match arrival {
            Some(Arrival { at, ecn }) => {
                self.packets.set_ecn(slot, ecn);
                self.queue.push(at, event);
            }
            None => self.packets.free(slot),
        }
        arrival.is_some()
    }
}
