//! ECN field of the IP header (RFC 3168, 5): the codepoint of a packet.

/// ECN codepoint of a packet (RFC 3168, 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not-ECT: the sender does not use ECN.
    #[default]
    NotEct,
    /// ECT(1): the sender uses ECN.
    Ect1,
    /// ECT(0): the sender uses ECN.
    Ect0,
    /// CE: a queue on the way was congested.
    Ce,
}

impl Ecn {
    /// Returns whether a queue may mark the packet with CE instead of dropping it. It may mark
    /// one that has CE already (RFC 3168, 5): the packet stays as it is.
    pub fn is_capable(self) -> bool {
        self != Self::NotEct
    }
}
