//! Packet numbers, for exact loss of named packets.

use crate::error::ConfigError;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// A set of packet numbers, counted from 1, written like `3,12-14`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketNumbers {
    /// In order, with a gap between any two.
    ranges: Vec<RangeInclusive<u64>>,
}

impl PacketNumbers {
    /// Returns whether the set holds `number`.
    pub fn contains(&self, number: u64) -> bool {
        let after = self.ranges.partition_point(|range| *range.start() <= number);
        after.checked_sub(1).is_some_and(|index| *self.ranges[index].end() >= number)
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        let mut all = std::mem::take(&mut self.ranges);
        all.extend(other.ranges.iter().cloned());
        all.sort_by_key(|range| *range.start());
        for range in all {
            match self.ranges.last_mut() {
                Some(last) if *range.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=*last.end().max(range.end());
                }
                _ => self.ranges.push(range),
            }
        }
    }
}

impl From<RangeInclusive<u64>> for PacketNumbers {
    fn from(range: RangeInclusive<u64>) -> Self {
        let ranges = if range.is_empty() { vec![] } else { vec![range] };
        Self { ranges }
    }
}

impl FromStr for PacketNumbers {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let mut numbers = Self::default();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let parse = |digits: &str| digits.parse().map_err(|_| ConfigError::PacketNumbers);
            let (first, last): (u64, u64) = (parse(first)?, parse(last)?);
            if first == 0 || first > last {
                return Err(ConfigError::PacketNumbers);
            }
            numbers.merge(&(first..=last).into());
        }
        Ok(numbers)
    }
}

impl fmt::Display for PacketNumbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}", range.start())?;
            if range.start() != range.end() {
                write!(f, "-{}", range.end())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_numbers_parse_and_merge_ranges() {
        let numbers: PacketNumbers = "12-14,3,13-20,21".parse().unwrap();
        assert_eq!(numbers.to_string(), "3,12-21");
        let inside: Vec<u64> = (0..30).filter(|&n| numbers.contains(n)).collect();
        assert_eq!(inside, [3, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21]);
    }

    #[test]
    fn packet_numbers_of_no_packet_are_refused() {
        for text in ["", "0", "5-3", "x", "1,", "1-2-3", "-4", " 1"] {
            assert_eq!(text.parse::<PacketNumbers>(), Err(ConfigError::PacketNumbers), "{text:?}");
        }
    }

    #[test]
    fn packet_numbers_may_have_the_last_number() {
        let mut numbers = PacketNumbers::from(5..=u64::MAX);
        numbers.merge(&PacketNumbers::from(1..=2));
        assert!(numbers.contains(u64::MAX) && !numbers.contains(3));
        assert!(PacketNumbers::default().is_empty() && !numbers.is_empty());
    }
}
