//! Rate of a link.

use crate::error::ConfigError;

/// A bit rate, in bits of IP packets per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

impl Rate {
    /// The rate of an outage, for a time: packets wait until it is over.
    pub const ZERO: Self = Self(0);

    /// The slowest rate accepted, in bits per second.
    pub const BITS_PER_S_MIN: u64 = 1_000;

    /// The fastest rate accepted, in bits per second.
    pub const BITS_PER_S_MAX: u64 = 1_000_000_000_000;

    /// Creates a rate in bits per second.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Rate`] outside of [`Self::BITS_PER_S_MIN`] to
    /// [`Self::BITS_PER_S_MAX`].
    pub fn from_bits_per_s(bits_per_s: u64) -> Result<Self, ConfigError> {
        if !(Self::BITS_PER_S_MIN..=Self::BITS_PER_S_MAX).contains(&bits_per_s) {
            return Err(ConfigError::Rate);
        }
        Ok(Self(bits_per_s))
    }

    /// Creates a rate in Mbit/s (1 Mbit/s is 1,000,000 bits per second).
    ///
    /// # Errors
    ///
    /// As [`Self::from_bits_per_s`]; also for what is not a number.
    pub fn from_mbit_per_s(mbit_per_s: f64) -> Result<Self, ConfigError> {
        let bits_per_s = (mbit_per_s * 1e6).round();
        if !(0.0..=Self::BITS_PER_S_MAX as f64).contains(&bits_per_s) {
            return Err(ConfigError::Rate);
        }
        Self::from_bits_per_s(bits_per_s as u64)
    }

    /// Creates the rate of a time after which another one holds: as [`Self::from_mbit_per_s`], or 0
    /// for an outage.
    ///
    /// # Errors
    ///
    /// [`ConfigError::ChangedRate`] for what neither is.
    pub fn of_change(mbit_per_s: f64) -> Result<Self, ConfigError> {
        if mbit_per_s == 0.0 {
            return Ok(Self::ZERO);
        }
        Self::from_mbit_per_s(mbit_per_s).map_err(|_| ConfigError::ChangedRate)
    }

    /// Returns the rate in bits per second.
    pub fn bits_per_s(self) -> u64 {
        self.0
    }

    /// Returns whether nothing is sent.
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_outside_the_range_are_refused() {
        for mbit_per_s in [0.0, -1.0, 0.0009, 1_000_001.0, f64::NAN, f64::INFINITY] {
            assert_eq!(Rate::from_mbit_per_s(mbit_per_s), Err(ConfigError::Rate), "{mbit_per_s}");
        }
        for mbit_per_s in [-1.0, 0.0004, 1_000_001.0, f64::NAN] {
            assert_eq!(Rate::of_change(mbit_per_s), Err(ConfigError::ChangedRate), "{mbit_per_s}");
        }
        assert_eq!(Rate::of_change(0.0), Ok(Rate::ZERO));
        assert_eq!(Rate::of_change(2.0), Rate::from_mbit_per_s(2.0));
        assert_eq!(Rate::from_mbit_per_s(0.5).unwrap().bits_per_s(), 500_000);
        assert_eq!(Rate::from_mbit_per_s(2.3).unwrap().bits_per_s(), 2_300_000);
    }
}
