//! Token-bucket policer: drops what exceeds a rate by more than a burst.
//!
//! Nothing waits for tokens. Arithmetic is exact: tokens are kept in bits / 1e9, of which a
//! nanosecond adds as many as the rate is bits per second.

use crate::rate::Rate;

const NS_PER_S: u128 = 1_000_000_000;

/// A policer in front of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policer {
    /// Bits of IP packets per second that pass in the long run.
    pub rate: Rate,
    /// Size of the bucket, which is full at first: bytes that pass at once.
    pub burst_bytes: u64,
}

/// The bucket.
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    policer: Policer,
    tokens: u128,
    filled_at_ns: u64,
}

impl TokenBucket {
    pub fn new(policer: Policer) -> Self {
        Self { tokens: cost(policer.burst_bytes), policer, filled_at_ns: 0 }
    }

    /// Returns whether a packet that comes at `now_ns` passes, and takes its tokens if so.
    pub fn admit(&mut self, now_ns: u64, size_bytes: u32) -> bool {
        let elapsed_ns = now_ns.saturating_sub(self.filled_at_ns);
        self.filled_at_ns = self.filled_at_ns.max(now_ns);
        let added = u128::from(elapsed_ns) * u128::from(self.policer.rate.bits_per_s());
        self.tokens = (self.tokens + added).min(cost(self.policer.burst_bytes));
        match self.tokens.checked_sub(cost(size_bytes.into())) {
            Some(left) => {
                self.tokens = left;
                true
            }
            None => false,
        }
    }
}

fn cost(bytes: u64) -> u128 {
    u128::from(bytes) * 8 * NS_PER_S
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(bits_per_s: u64, burst_bytes: u64) -> TokenBucket {
        TokenBucket::new(Policer { rate: Rate::from_bits_per_s(bits_per_s).unwrap(), burst_bytes })
    }

    #[test]
    fn burst_passes_and_then_the_rate() {
        // 8 Mbit/s: 1,000 bytes a ms.
        let mut bucket = bucket(8_000_000, 2_500);
        let passed: Vec<bool> = (0..4).map(|_| bucket.admit(0, 1_000)).collect();
        assert_eq!(passed, [true, true, false, false]);
        // 500 bytes were left.
        assert!(!bucket.admit(499_999, 1_000));
        assert!(bucket.admit(500_000, 1_000));
        assert!(!bucket.admit(1_499_999, 1_000));
        assert!(bucket.admit(1_500_000, 1_000));
    }

    #[test]
    fn full_bucket_takes_no_more() {
        let mut bucket = bucket(8_000_000, 2_000);
        let passed = (0..9).filter(|_| bucket.admit(3_600_000_000_000, 1_000)).count();
        assert_eq!(passed, 2);
    }

    /// Against the definition: of what comes in any stretch of time, no more passes than the burst
    /// and the rate times the stretch.
    #[test]
    fn passed_bytes_stay_below_the_token_curve() {
        let (bits_per_s, burst_bytes) = (7_000_000, 9_000);
        let mut bucket = bucket(bits_per_s, burst_bytes);
        let arrivals =
            (0..2_000_u64).map(|i| (i * 311_311 + (i % 3) * 90_000, 600 + (i % 5) * 180));
        let passed: Vec<(u64, u64)> =
            arrivals.filter(|&(at_ns, size)| bucket.admit(at_ns, size as u32)).collect();
        for first in (0..passed.len()).step_by(17) {
            let mut bytes = 0;
            for &(at_ns, size) in &passed[first..] {
                bytes += size;
                let elapsed_s = (at_ns - passed[first].0) as f64 / 1e9;
                let allowed = burst_bytes as f64 + elapsed_s * bits_per_s as f64 / 8.0;
                assert!(bytes as f64 <= allowed + 1e-6, "{bytes} bytes in {elapsed_s} s");
            }
        }
        let sum: u64 = passed.iter().map(|passed| passed.1).sum();
        let all = burst_bytes as f64 + passed.last().unwrap().0 as f64 / 1e9 * 7e6 / 8.0;
        assert!(sum as f64 > 0.95 * all, "{sum} of {all}");
    }
}
