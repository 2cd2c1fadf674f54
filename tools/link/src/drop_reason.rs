//! Reason why a link drops a packet.

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// It is ECN-capable, and the path a black hole for those.
    Ecn,
    /// It is larger than the MTU.
    Mtu,
    /// It was named.
    Named,
    /// Chance.
    Random,
    /// The buffer had no room for it.
    Buffer,
    /// CoDel takes it from the head of the buffer, once it gets there.
    CoDel,
    /// PIE drops it when it arrives.
    Pie,
    /// The policer has no tokens for it.
    Policer,
    /// DualPI2 takes it from the head of a queue.
    Pi2,
}
