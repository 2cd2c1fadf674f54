//! Connection handle: names one of a worker's connections in requests to other threads.

/// Slot and serial number of a connection. Slots are reused; serial numbers are not, so that a
/// late reply never reaches another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionHandle(u64);

impl ConnectionHandle {
    /// Largest number of slots.
    pub const SLOTS_MAX: usize = 1 << 16;

    /// Returns the handle of the connection in `slot`, the `serial`-th of its worker.
    pub fn new(slot: usize, serial: u64) -> Self {
        Self(serial << 16 | (slot % Self::SLOTS_MAX) as u64)
    }

    /// Returns the handle of a tag.
    pub fn from_tag(tag: u64) -> Self {
        Self(tag)
    }

    /// Returns the handle as a number, which a request carries and its reply returns.
    pub fn tag(self) -> u64 {
        self.0
    }

    /// Returns the slot.
    pub fn slot(self) -> usize {
        self.0 as usize % Self::SLOTS_MAX
    }
}
