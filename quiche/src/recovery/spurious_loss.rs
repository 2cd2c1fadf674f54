//! Evidence that a congestion event was spurious (RFC 9438, 4.9).
//!
//! Owns which bytes the last congestion event declared lost: it was spurious
//! if all of them are acknowledged after all. What CUBIC restores then is its
//! own business. Unless evidence is required, everything is as upstream has
//! it: one late acknowledgement undoes an event, and so does a recovery period
//! in which little was lost.

use std::time::Instant;

use crate::recovery::Sent;

/// The last congestion event, as far as loss made it.
#[derive(Debug)]
struct CongestionEvent {
    since: Instant,
    /// Bytes declared lost in it that are not acknowledged.
    lost_bytes: usize,
}

/// When packets were declared lost that are acknowledged now, and their bytes.
#[derive(Debug, Default)]
pub(crate) struct LateAcks(Vec<(Instant, usize)>);

impl LateAcks {
    pub(crate) fn push(&mut self, pkt: &Sent) {
        // The loss of an MTU probe makes no event.
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

    /// Loss begins a congestion event.
    pub(crate) fn begin_event(&mut self, now: Instant) {
        self.event = Some(CongestionEvent {
            since: now,
            lost_bytes: 0,
        });
    }

    /// `bytes` were declared lost, in the last event or since.
    pub(crate) fn on_lost(&mut self, bytes: usize) {
        if let Some(event) = self.event.as_mut() {
            event.lost_bytes += bytes;
        }
    }

    /// Whether the last event may be undone, now that these packets are
    /// acknowledged. Once undone it is over.
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

    /// Something else than loss reduced the window as well, or packets were
    /// given up: the last event is never undone.
    pub(crate) fn forget(&mut self) {
        self.event = None;
    }
}

#[cfg(test)]
#[path = "spurious_loss_tests.rs"]
mod tests;
