//! Growth of the window in conservative slow start.
//!
//! Each acknowledged packet opens a quarter of a packet. Sent at once that is a
//! small packet, whose ACK opens as much again: with SWS avoidance, four
//! acknowledged packets open a full one.

use super::Hystart;

/// Growth that is due and less than a packet.
#[derive(Debug, Default)]
pub(super) struct CssGrowth {
    is_in_packets: bool,
    /// In bytes, less than a packet.
    due: usize,
}

impl Hystart {
    pub(crate) fn set_css_growth_in_packets(&mut self, v: bool) {
        self.css_growth.is_in_packets = v;
    }

    /// Returns the growth in bytes for an acknowledged packet of
    /// `packet_bytes`.
    pub(crate) fn css_growth(&mut self, packet_bytes: usize) -> usize {
        let growth = self.css_cwnd_inc(packet_bytes);

        if !self.css_growth.is_in_packets {
            return growth;
        }

        self.css_growth.due += growth;
        if self.css_growth.due < packet_bytes {
            return 0;
        }

        self.css_growth.due -= packet_bytes;
        packet_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conservative_growth_opens_one_packet_for_four() {
        let mut hystart = Hystart::default();
        let growth = |hystart: &mut Hystart| -> Vec<usize> {
            (0..8).map(|_| hystart.css_growth(1200)).collect()
        };

        assert_eq!(growth(&mut hystart), [300; 8]);

        hystart.set_css_growth_in_packets(true);
        let in_packets = [0, 0, 0, 1200, 0, 0, 0, 1200];
        assert_eq!(growth(&mut hystart), in_packets);
    }

    /// A packet size that is no multiple of four bytes loses no growth.
    #[test]
    fn conservative_growth_keeps_the_rest() {
        let mut hystart = Hystart::default();
        hystart.set_css_growth_in_packets(true);

        let grown: usize = (0..400).map(|_| hystart.css_growth(1350)).sum();
        assert_eq!(grown, 400 * 337 / 1350 * 1350);
    }
}
