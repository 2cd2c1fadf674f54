//! ACK ranges that are new: an ACK has as many ranges as there are losses (RFC
//! 9000, 13.2.3), and usually one of them is longer than in the last ACK.

use crate::ranges::RangeSet;
use std::ops::Range;

/// Ranges for which memory is kept while no packet is missing.
const FEW: usize = 4;

/// The last ACK of a packet number space.
#[derive(Default)]
pub struct LastAck {
    ranges: Vec<Range<u64>>,

    newly_acked: Vec<Range<u64>>,
}

impl LastAck {
    /// Returns the packet numbers that this ACK has and the last one lacked, in
    /// order.
    pub fn replace(&mut self, ack: &RangeSet) -> &[Range<u64>] {
        self.newly_acked.clear();
        let mut known = self.ranges.iter().peekable();
        for range in ack.iter() {
            let mut start = range.start;
            while let Some(seen) = known.next_if(|seen| seen.end < range.end) {
                if start < seen.start {
                    self.newly_acked.push(start..seen.start);
                }
                start = start.max(seen.end);
            }
            // This range may reach into the next known one.
            let rest_end = match known.peek() {
                Some(seen) => seen.start.min(range.end),
                None => range.end,
            };
            if start < rest_end {
                self.newly_acked.push(start..rest_end);
            }
        }

        self.ranges.clear();
        self.ranges.extend(ack.iter());
        if self.ranges.len() <= FEW {
            self.ranges.shrink_to(FEW);
            self.newly_acked.shrink_to(FEW);
        }
        &self.newly_acked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: u64 = 7;

    fn set_of(bits: u64) -> RangeSet {
        let mut set = RangeSet::default();
        let numbers = (0..NUMBERS).filter(|number| bits >> number & 1 == 1);
        numbers.for_each(|number| set.push_item(number));
        set
    }

    #[test]
    fn memory_of_many_ranges_is_released() {
        let mut last_ack = LastAck::default();
        let mut many = RangeSet::default();
        (0..99).for_each(|number| many.push_item(number * 2));
        assert_eq!(last_ack.replace(&many).len(), 99);
        assert!(last_ack.replace(&set_of(1)).is_empty());
        let room = last_ack.ranges.capacity() + last_ack.newly_acked.capacity();
        assert!(room <= 2 * FEW, "{room}");
    }

    #[test]
    fn newly_acked_is_what_the_last_ack_lacked() {
        let all = 0..1 << NUMBERS;
        let mut last_ack = LastAck::default();
        for (last, ack) in
            all.clone().flat_map(|a| all.clone().map(move |b| (a, b)))
        {
            last_ack.replace(&set_of(last));
            let newly_acked = last_ack.replace(&set_of(ack));
            assert_eq!(newly_acked, Vec::from_iter(set_of(ack & !last).iter()));
        }
    }
}
