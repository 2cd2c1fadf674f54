//! Evidence that a congestion event was spurious (RFC 9438, 4.9).
//!
//! The last congestion event was spurious if all bytes that it declared lost
//! are acknowledged after all. CUBIC then restores its state. Unless evidence
//! is required, one late acknowledgement undoes an event, and so does a
//! recovery period with little loss, as upstream has it.

use std::time::Instant;

use crate::recovery::Sent;

/// The last congestion event by loss.
#[derive(Debug)]
struct CongestionEvent {
    since: Instant,
    /// Bytes that it declared lost and that are not acknowledged.
    lost_bytes: usize,
}

/// Acknowledged packets that had been declared lost: when, and their bytes.
#[derive(Debug, Default)]
pub(crate) struct LateAcks(Vec<(Instant, usize)>);

impl LateAcks {
    pub(crate) fn push(&mut self, pkt: &Sent) {
        // The loss of an MTU probe is no congestion event.
        if let Some(time_lost) = pkt.time_lost.filter(|_| !pkt.is_pmtud_probe) {
            self.0.push((time_lost, pkt.size));
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct SpuriousLoss {
    is_evidence_required: bool,
    event: Option<CongestionEvent>,
}

impl SpuriousLoss {
    pub(crate) fn new(is_evidence_required: bool) -> Self {
        SpuriousLoss {
            is_evidence_required,
            event: None,
        }
    }

    pub(crate) fn is_evidence_required(&self) -> bool {
        self.is_evidence_required
    }

    /// Begins a congestion event by loss.
    pub(crate) fn begin_event(&mut self, now: Instant) {
        self.event = Some(CongestionEvent {
            since: now,
            lost_bytes: 0,
        });
    }

    /// Takes `bytes` that were declared lost, in the last event or since.
    pub(crate) fn on_lost(&mut self, bytes: usize) {
        if let Some(event) = self.event.as_mut() {
            event.lost_bytes += bytes;
        }
    }

    /// Whether the last event is undone by these acknowledged packets. An event
    /// is undone once.
    pub(crate) fn is_undone_by(&mut self, late: &mut LateAcks) -> bool {
        for (time_lost, bytes) in late.0.drain(..) {
            let is_of = |event: &&mut CongestionEvent| time_lost >= event.since;

            if let Some(event) = self.event.as_mut().filter(is_of) {
                event.lost_bytes = event.lost_bytes.saturating_sub(bytes);
            }
        }

        let is_spurious = |event: &mut CongestionEvent| event.lost_bytes == 0;
        self.event.take_if(is_spurious).is_some() || !self.is_evidence_required
    }

    /// Keeps the last event from being undone: something other than loss
    /// reduced the window as well, or packets were given up.
    pub(crate) fn forget(&mut self) {
        self.event = None;
    }
}

#[cfg(test)]
#[path = "spurious_loss_tests.rs"]
mod tests;
