//! Counts of marks in a packet number space, received and reported
//! (RFC 9000, 13.4.1 and 19.3.2).

use super::Codepoint;
use super::Marks;
use crate::frame::EcnCounts;

impl Marks {
    fn count(&mut self, ecn: Codepoint) {
        match ecn {
            Codepoint::NotEct => (),
            Codepoint::Ect0 => self.ect0 += 1,
            Codepoint::Ect1 => self.ect1 += 1,
            Codepoint::Ce => self.ce += 1,
        }
    }

    /// Returns what was counted after `earlier`; None if a count is smaller.
    fn since(self, earlier: Marks) -> Option<Marks> {
        Some(Marks {
            ect0: self.ect0.checked_sub(earlier.ect0)?,
            ect1: self.ect1.checked_sub(earlier.ect1)?,
            ce: self.ce.checked_sub(earlier.ce)?,
        })
    }
}

impl From<&EcnCounts> for Marks {
    fn from(counts: &EcnCounts) -> Marks {
        Marks {
            ect0: counts.ect0_count,
            ect1: counts.ect1_count,
            ce: counts.ecn_ce_count,
        }
    }
}

/// What an ACK says about marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Feedback {
    /// Nothing: an older ACK, whose counts may be smaller.
    #[default]
    Stale,

    /// It has no counts.
    Missing,

    /// Its counts cannot be those of the packets that were sent.
    Impossible,

    /// Marks since the last ACK that had counts.
    New(Marks),
}

/// Marks in one packet number space.
#[derive(Debug, Default)]
pub(crate) struct MarkCounters {
    /// Of received packets.
    pub(crate) received: Marks,

    /// Of sent packets, as the peer reports them.
    pub(crate) reported: Marks,

    /// Packets sent with ECT(0), and with ECT(1).
    pub(crate) sent: Marks,

    largest_acked: Option<u64>,
}

impl MarkCounters {
    pub(crate) fn on_sent(&mut self, ecn: Codepoint) {
        self.sent.count(ecn);
    }

    pub(crate) fn on_received(&mut self, ecn: Codepoint) {
        self.received.count(ecn);
    }

    /// Returns the counts for an ACK, if any packet arrived with a mark.
    pub(crate) fn to_report(&self) -> Option<EcnCounts> {
        let Marks { ect0, ect1, ce } = self.received;

        (self.received != Marks::default()).then_some(EcnCounts {
            ect0_count: ect0,
            ect1_count: ect1,
            ecn_ce_count: ce,
        })
    }

    /// Takes the counts of an ACK.
    pub(crate) fn on_ack(
        &mut self, largest_acked: u64, counts: Option<&EcnCounts>,
    ) -> Feedback {
        // RFC 9000, 13.4.2.1: only an ACK that acknowledges a larger packet
        // number may fail validation.
        if self.largest_acked >= Some(largest_acked) {
            return Feedback::Stale;
        }
        self.largest_acked = Some(largest_acked);

        let Some(counts) = counts.map(Marks::from) else {
            return Feedback::Missing;
        };
        let Some(new) = counts.since(self.reported) else {
            return Feedback::Impossible;
        };

        let is_possible = counts.ect0 <= self.sent.ect0
            && counts.ect1 <= self.sent.ect1
            && counts.ce <= self.sent.ect0 + self.sent.ect1;
        if !is_possible {
            return Feedback::Impossible;
        }
        self.reported = counts;

        Feedback::New(new)
    }
}

#[cfg(test)]
#[path = "counts_tests.rs"]
mod tests;
