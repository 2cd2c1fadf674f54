//! ECN field of the IP header (RFC 3168, 5): the codepoint of a packet, and paths that do not
//! leave it alone.

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

/// What a path does with the ECN field of the packets that enter it. A path without faults passes
/// it on; the others are those that ECN validation of QUIC (RFC 9000, 13.4.2) has to detect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnHandling {
    /// Leaves it alone.
    #[default]
    Pass,
    /// Bleaching: clears it, so that every packet becomes Not-ECT.
    Bleach,
    /// Re-marks ECT(0) as ECT(1).
    RemarkEct1,
    /// Re-marks every packet as CE, also those without ECN.
    RemarkCe,
    /// Black hole: drops every packet that is not Not-ECT.
    BlackHole,
}

impl EcnHandling {
    /// Returns the codepoint with which a packet goes on; `None` if the packet is dropped.
    pub(crate) fn apply(self, ecn: Ecn) -> Option<Ecn> {
        match (self, ecn) {
            (Self::Bleach, _) => Some(Ecn::NotEct),
            (Self::RemarkEct1, Ecn::Ect0) => Some(Ecn::Ect1),
            (Self::RemarkCe, _) => Some(Ecn::Ce),
            (Self::BlackHole, ecn) if ecn.is_capable() => None,
            (Self::Pass | Self::RemarkEct1 | Self::BlackHole, ecn) => Some(ecn),
        }
    }
}
