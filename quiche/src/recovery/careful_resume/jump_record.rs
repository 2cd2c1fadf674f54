//! Record of a jump: its window, its packets, and the bytes acknowledged so far.

use crate::path_state::PathState;

#[derive(Clone, Copy, Debug)]
pub(super) struct Jump {
    /// The parameters that the jump uses.
    pub(super) saved: PathState,

    /// The window that was jumped to, in bytes.
    pub(super) cwnd: usize,

    /// PipeSize (RFC 9959, 3.3): bytes that the path is known to have carried
    /// in one RTT.
    pub(super) pipe_size: usize,

    /// The first packet sent in the unvalidated phase.
    pub(super) first_unvalidated: Option<u64>,

    /// The last packet sent in the unvalidated phase.
    pub(super) last_unvalidated: Option<u64>,

    /// The last packet sent, also before the jump, but not in a retreat.
    pub(super) largest_sent: u64,
}

impl Jump {
    pub(super) fn on_packet_sent(&mut self, pkt_num: u64) {
        self.largest_sent = self.largest_sent.max(pkt_num);
    }

    pub(super) fn on_acked(&mut self, bytes: usize) {
        self.pipe_size += bytes;
    }

    /// Whether an ACK of `largest` covers the first unvalidated packet, or a
    /// later one.
    pub(super) fn is_first_covered(&self, largest: u64) -> bool {
        self.first_unvalidated.is_some_and(|first| largest >= first)
    }

    /// Whether an ACK of `largest` covers the last unvalidated packet, or a
    /// later one.
    pub(super) fn is_last_covered(&self, largest: u64) -> bool {
        self.last_unvalidated.is_some_and(|last| largest >= last)
    }
}
