//! ACK thinning: links on which only some ACKs pass, and the held ACK of each flow.

use std::num::NonZeroU32;
use std::time::Duration;

use link::AckThinner;

use super::packets::Packets;
use super::packets::Slot;

/// Each flow's ACKs on their way to the bottleneck.
pub struct Thinning {
    flows: Vec<Held>,
}

struct Held {
    thinner: AckThinner<Slot>,
    slot: Option<Slot>,
}

/// Packets that pass at one time, in this order, and the time at which the held one is due.
pub struct Passing {
    pub slots: [Option<Slot>; 2],
    pub due: Option<Duration>,
}

impl Thinning {
    /// Creates a thinner that passes each `every`-th ACK; None if all pass.
    pub fn new(every: u32, flows: usize) -> Option<Self> {
        let every = NonZeroU32::new(every).filter(|every| every.get() > 1)?;
        let held = || Held { thinner: AckThinner::new(every), slot: None };
        Some(Self { flows: (0..flows).map(|_| held()).collect() })
    }

    /// Handles a packet of a flow.
    pub fn offer(
        &mut self,
        now: Duration,
        flow: usize,
        slot: Slot,
        packets: &mut Packets,
    ) -> Passing {
        let Held { thinner, slot: held } = &mut self.flows[flow];
        let due_before = thinner.due();
        let mut slots = [None; 2];
        let passing = thinner.offer(now, packets.length(slot), slot);
        for (passes, place) in passing.zip(&mut slots) {
            *place = Some(passes);
        }
        // What neither passes nor is held any more is what a newer one replaced.
        if let Some(replaced) = held.take().filter(|held| !slots.contains(&Some(*held))) {
            packets.free(replaced);
        }
        let due = thinner.due();
        *held = due.map(|_| slot);
        Passing { slots, due: due.filter(|_| due != due_before) }
    }

    /// Takes the ACK of a flow that is due `now`.
    pub fn take_due(&mut self, now: Duration, flow: usize) -> Option<Slot> {
        let Held { thinner, slot } = &mut self.flows[flow];
        let passes = thinner.take_due(now)?;
        *slot = None;
        Some(passes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinned_packet_frees_its_memory() {
        let mut packets = Packets::default();
        let mut thinning = Thinning::new(3, 1).unwrap();
        let mut passed = 0;
        for ms in 0..1000 {
            let slot = packets.allocate();
            packets.set_length(slot, 50);
            let now = Duration::from_millis(ms);
            let due = thinning.take_due(now, 0);
            let passing = thinning.offer(now, 0, slot, &mut packets);
            for slot in passing.slots.into_iter().chain([due]).flatten() {
                packets.free(slot);
                passed += 1;
            }
        }
        assert_eq!(passed, 333);
        assert!(packets.count() <= 3, "{}", packets.count());
        assert!(Thinning::new(1, 1).is_none());
    }
}
