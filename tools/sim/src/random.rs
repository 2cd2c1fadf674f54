//! Random numbers of four significant digits.

use rand_pcg::rand_core::SeedableRng;
use rand_pcg::Pcg64;

use crate::seeds;
use crate::seeds::Purpose;

/// Draws numbers.
pub struct Random(Pcg64);

impl Random {
    /// Creates the `index`-th generator of a seed for its purpose.
    pub fn new(seed: u64, purpose: Purpose, index: u64) -> Self {
        Random(Pcg64::seed_from_u64(seeds::derive(seed, purpose, index)))
    }

    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        round(low + (high - low) * seeds::uniform(&mut self.0))
    }

    /// Draws from a log-uniform distribution.
    pub fn log(&mut self, low: f64, high: f64) -> f64 {
        let (low, high) = (low.ln(), high.ln());
        round((low + (high - low) * seeds::uniform(&mut self.0)).exp())
    }

    /// Draws a whole number from `low` to `high`, both included.
    pub fn whole(&mut self, low: u64, high: u64) -> u64 {
        low + (seeds::uniform(&mut self.0) * (high - low + 1) as f64) as u64
    }

    pub fn chance(&mut self, probability: f64) -> bool {
        seeds::uniform(&mut self.0) < probability
    }

    pub fn maybe<T>(&mut self, probability: f64, draw: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.chance(probability).then(|| draw(self))
    }
}

/// Rounds to four significant digits: enough for a search, and the same text on every
/// machine, whose logarithms may differ in the last bit.
pub fn round(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}
