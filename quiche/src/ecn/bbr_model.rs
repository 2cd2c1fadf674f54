//! CE marks in BBR's model: bytes that count as lost, though they arrived.

use super::BBRv2CongestionEvent;
use super::BBRv2NetworkModel;
use crate::recovery::gcongestion::bbr2::BBRv2;

impl BBRv2 {
    /// Has the next event count `bytes` as lost.
    pub(in crate::recovery::gcongestion) fn on_marked(&mut self, bytes: usize) {
        self.mode.network_model_mut().marked_bytes += bytes;
    }
}

impl BBRv2NetworkModel {
    /// Counts the marked bytes in an event, after its bytes in flight are known.
    pub(super) fn count_marked(&mut self, event: &mut BBRv2CongestionEvent) {
        event.bytes_lost += std::mem::take(&mut self.marked_bytes);
    }
}
