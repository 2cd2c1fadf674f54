//! Packet memory, which is used again and again.

use link::Ecn;

/// Which packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

/// The largest packet that a host sends, in bytes of UDP payload.
pub const PACKET_BYTES_MAX: usize = 1350;

struct Packet {
    length: usize,
    ecn: Ecn,
    memory: [u8; PACKET_BYTES_MAX],
}

/// All packets of a run that are on their way, and the memory of those that
/// were.
#[derive(Default)]
pub struct Packets {
    slots: Vec<Packet>,
    free: Vec<Slot>,
}

impl Packets {
    /// Returns a slot for a packet.
    pub fn allocate(&mut self) -> Slot {
        self.free.pop().unwrap_or_else(|| {
            let slot = u32::try_from(self.slots.len()).expect("memory ends before the numbers do");
            self.slots.push(Packet { length: 0, ecn: Ecn::NotEct, memory: [0; PACKET_BYTES_MAX] });
            Slot(slot)
        })
    }

    /// Takes all packets back: the run that sent them is over.
    pub fn clear(&mut self) {
        let count = self.slots.len() as u32;
        self.free.clear();
        self.free.extend((0..count).rev().map(Slot));
    }

    /// Returns how many there are room for.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// Frees the slot of a packet that has arrived or was dropped.
    pub fn free(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// Returns all memory of a packet, to write it.
    pub fn buffer_mut(&mut self, slot: Slot) -> &mut [u8] {
        &mut self.slots[slot.0 as usize].memory
    }

    pub fn set_length(&mut self, slot: Slot, length: usize) {
        self.slots[slot.0 as usize].length = length.min(PACKET_BYTES_MAX);
    }

    /// Notes the codepoint with which the packet leaves, or arrives.
    pub fn set_ecn(&mut self, slot: Slot, ecn: Ecn) {
        self.slots[slot.0 as usize].ecn = ecn;
    }

    pub fn ecn(&self, slot: Slot) -> Ecn {
        self.slots[slot.0 as usize].ecn
    }

    pub fn length(&self, slot: Slot) -> usize {
        self.slots[slot.0 as usize].length
    }

    /// Returns the packet as it was written.
    pub fn bytes(&mut self, slot: Slot) -> &mut [u8] {
        let packet = &mut self.slots[slot.0 as usize];
        &mut packet.memory[..packet.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_use_memory_again() {
        let mut packets = Packets::default();
        let (first, second) = (packets.allocate(), packets.allocate());
        assert_ne!(first, second);
        packets.buffer_mut(second)[0] = 7;
        packets.set_length(second, 1);
        assert_eq!(packets.bytes(second), [7]);
        packets.free(first);
        assert_eq!(packets.allocate(), first);
    }
}
