//! RTT samples of HyStart++, of which a round needs eight to be judged.
//!
//! An ACK brings one (RFC 9406, 4.2). Upstream counts one for each packet that
//! it acknowledges, so that a single ACK of eight packets, the last of which
//! waited for the others, ends slow start by itself.

use super::Hystart;

/// Which samples count.
#[derive(Debug, Default)]
pub(super) struct Samples {
    is_one_per_ack: bool,
    /// Whether the ACK that is processed now has been counted.
    is_counted: bool,
}

impl Samples {
    /// How many a packet adds that is acknowledged.
    pub(super) fn on_packet_acked(&mut self) -> usize {
        let is_counted = std::mem::replace(&mut self.is_counted, true);

        usize::from(!(self.is_one_per_ack && is_counted))
    }
}

impl Hystart {
    pub(crate) fn set_samples_per_ack(&mut self, is_one_per_ack: bool) {
        self.samples.is_one_per_ack = is_one_per_ack;
    }

    /// The packets that are acknowledged next are those of one ACK.
    pub(crate) fn begin_ack(&mut self) {
        self.samples.is_counted = false;
    }
}

#[cfg(test)]
#[path = "hystart_samples_tests.rs"]
mod tests;
