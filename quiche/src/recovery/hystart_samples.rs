//! RTT samples of HyStart++, of which a round needs eight.
//!
//! An ACK is one sample (RFC 9406, 4.2). Upstream counts one for each
//! acknowledged packet, so that a single ACK of eight packets, the last of
//! which waited for the others, ends slow start.

use super::Hystart;

/// Counter of samples.
#[derive(Debug, Default)]
pub(super) struct Samples {
    is_one_per_ack: bool,
    /// Whether the current ACK has been counted.
    is_counted: bool,
}

impl Samples {
    /// Returns the samples that an acknowledged packet adds.
    pub(super) fn on_packet_acked(&mut self) -> usize {
        let is_counted = std::mem::replace(&mut self.is_counted, true);

        usize::from(!(self.is_one_per_ack && is_counted))
    }
}

impl Hystart {
    pub(crate) fn set_samples_per_ack(&mut self, is_one_per_ack: bool) {
        self.samples.is_one_per_ack = is_one_per_ack;
    }

    /// Begins an ACK, with the packets that are acknowledged next.
    pub(crate) fn begin_ack(&mut self) {
        self.samples.is_counted = false;
    }
}

#[cfg(test)]
#[path = "hystart_samples_tests.rs"]
mod tests;
