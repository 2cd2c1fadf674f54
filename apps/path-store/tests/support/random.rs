//! Random numbers from a seed.

/// A linear congruential generator.
pub struct Random(pub u64);

impl Random {
    /// Returns a number below `bound`, which is at most 2³¹.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % bound
    }
}
