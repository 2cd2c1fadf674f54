//! Handle of a connection among those of one worker.

/// HostMap a connection of one worker, for ever: slots are used again, serial
/// numbers are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionHandle(u64);

impl ConnectionHandle {
    /// Slots are below this.
    pub const SLOTS_MAX: usize = 1 << 16;

    /// The key of the connection in `slot`, the `serial`-th of its worker.
    pub fn new(slot: usize, serial: u64) -> Self {
        Self(serial << 16 | (slot % Self::SLOTS_MAX) as u64)
    }

    /// The key that was sent somewhere as a number.
    pub fn from_tag(tag: u64) -> Self {
        Self(tag)
    }

    /// The key as a number, to be sent with a question and come back with its answer.
    pub fn tag(self) -> u64 {
        self.0
    }

    pub fn slot(self) -> usize {
        self.0 as usize % Self::SLOTS_MAX
    }
}
