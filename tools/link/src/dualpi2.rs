//! DualPI2 (RFC 9332, appendix A), the control law: which packets of two coupled queues
//! are marked or dropped.
//!
//! Owns the base probability p', which a PI controller sets from the longer wait of the two
//! queues, and the probabilities that follow from it: p'² for classic packets, and k · p' for
//! those of L4S, which also have a ramp of their own. The settings are the defaults of Linux,
//! but for the ramp, which is the RFC's.

use crate::decision::Decision;
use rand_pcg::rand_core::Rng;
use rand_pcg::rand_core::SeedableRng;
use rand_pcg::Pcg64;

/// Keeps the draws apart from those of the random loss, which has the same seed.
const STREAM: u64 = 0x6475_616c_7069_3200;

const TARGET_NS: u64 = 15_000_000;
const UPDATE_NS: u64 = 16_000_000;

/// Gain of the difference from the target, per second.
const ALPHA_HZ: f64 = 0.16;

/// Gain of the growth of the wait, per second.
const BETA_HZ: f64 = 3.2;

/// The coupling factor k.
const COUPLING: f64 = 2.0;

/// The probability from which on classic packets are dropped although they can be marked.
const CLASSIC_MARK_MAX: f64 = 1.0 / (COUPLING * COUPLING);

/// An L4S packet that waits for less is not marked for that; one that waits for more than the
/// end of the ramp always is.
const RAMP_NS: std::ops::Range<u64> = 800_000..1_200_000;

/// State of the controller.
#[derive(Clone, Debug)]
pub(crate) struct DualPi2 {
    rng: Pcg64,
    /// p'.
    base: f64,
    last_wait_ns: u64,
    update_at_ns: u64,
}

impl DualPi2 {
    pub fn new(seed: u64) -> Self {
        let rng = Pcg64::seed_from_u64(seed ^ STREAM);
        Self { rng, base: 0.0, last_wait_ns: 0, update_at_ns: UPDATE_NS }
    }

    /// Makes the updates that are due by `now_ns`. The packets at the heads of the two queues have
    /// been there since then, or longer; the older one came at `oldest_ns`.
    pub fn update(&mut self, now_ns: u64, oldest_ns: Option<u64>) {
        while self.update_at_ns <= now_ns {
            let at_ns = self.update_at_ns;
            let wait_ns = oldest_ns.map_or(0, |came_ns| at_ns.saturating_sub(came_ns));
            self.control(wait_ns);
            let is_idle = self.base == 0.0 && wait_ns == 0;
            // Nothing happens before the first update after the next arrival.
            let idle_updates =
                if is_idle && oldest_ns.is_none() { (now_ns - at_ns) / UPDATE_NS } else { 0 };
            self.update_at_ns = at_ns.saturating_add((idle_updates + 1) * UPDATE_NS);
        }
    }

    fn control(&mut self, wait_ns: u64) {
        let seconds = |later_ns: u64, earlier_ns: u64| (later_ns as f64 - earlier_ns as f64) / 1e9;
        let from_target = ALPHA_HZ * seconds(wait_ns, TARGET_NS);
        let growth = BETA_HZ * seconds(wait_ns, self.last_wait_ns);
        self.base = (self.base + from_target + growth).clamp(0.0, 1.0);
        self.last_wait_ns = wait_ns;
    }

    /// Decides about a packet at the head of the classic queue.
    pub fn decide_classic(&mut self, capable: bool) -> Decision {
        let probability = self.classic();
        if !self.draw(probability) {
            Decision::Send
        } else if capable && probability < CLASSIC_MARK_MAX {
            Decision::Mark
        } else {
            Decision::Drop
        }
    }

    /// Decides about a packet at the head of the L4S queue, which may leave that `alone`.
    pub fn decide_l4s(&mut self, waited_ns: u64, alone: bool) -> Decision {
        let coupled = self.coupled();
        if coupled < 1.0 {
            let native = if alone { 0.0 } else { ramp(waited_ns) };
            return self.mark(native.max(coupled));
        }
        // Overload: dropped like a classic packet, or marked.
        let classic = self.classic();
        if self.draw(classic) {
            Decision::Drop
        } else {
            self.mark(coupled)
        }
    }

    fn mark(&mut self, probability: f64) -> Decision {
        if self.draw(probability) {
            Decision::Mark
        } else {
            Decision::Send
        }
    }

    /// p'².
    fn classic(&self) -> f64 {
        self.base * self.base
    }

    /// k · p'.
    fn coupled(&self) -> f64 {
        (COUPLING * self.base).min(1.0)
    }

    fn draw(&mut self, probability: f64) -> bool {
        // 53 random bits make every multiple of 2^-53 below 1 equally likely.
        let uniform = (self.rng.next_u64() >> 11) as f64 * (-53_f64).exp2();
        uniform < probability
    }
}

fn ramp(waited_ns: u64) -> f64 {
    let above_ns = waited_ns.saturating_sub(RAMP_NS.start);
    (above_ns as f64 / (RAMP_NS.end - RAMP_NS.start) as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn with_base(base: f64) -> DualPi2 {
        DualPi2 { base, ..DualPi2::new(1) }
    }

    /// Returns the shares of packets that are marked, and dropped.
    fn shares(decisions: impl Iterator<Item = Decision>) -> (f64, f64) {
        let decisions: Vec<Decision> = decisions.collect();
        let share = |of| {
            let count = decisions.iter().filter(|decision| **decision == of).count();
            count as f64 / decisions.len() as f64
        };
        (share(Decision::Mark), share(Decision::Drop))
    }

    #[track_caller]
    fn assert_shares(found: (f64, f64), expected: (f64, f64)) {
        let is_near = |found: f64, expected: f64| (found - expected).abs() < 0.005;
        let near = is_near(found.0, expected.0) && is_near(found.1, expected.1);
        assert!(near, "{found:?} and not {expected:?}");
    }

    #[test]
    fn probabilities_follow_from_the_base() {
        // Base, classic (ECN-capable), classic without ECN, L4S: marked and dropped.
        for (base, capable, plain, l4s) in [
            (0.0, (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)),
            (0.1, (0.01, 0.0), (0.0, 0.01), (0.2, 0.0)),
            (0.4, (0.16, 0.0), (0.0, 0.16), (0.8, 0.0)),
            // Overload: nothing that can be marked is spared.
            (0.5, (0.0, 0.25), (0.0, 0.25), (0.75, 0.25)),
            (0.9, (0.0, 0.81), (0.0, 0.81), (0.19, 0.81)),
            (1.0, (0.0, 1.0), (0.0, 1.0), (0.0, 1.0)),
        ] {
            let mut pi2 = with_base(base);
            assert_shares(shares((0..100_000).map(|_| pi2.decide_classic(true))), capable);
            assert_shares(shares((0..100_000).map(|_| pi2.decide_classic(false))), plain);
            assert_shares(shares((0..100_000).map(|_| pi2.decide_l4s(0, false))), l4s);
        }
    }

    #[test]
    fn ramp_marks_l4s_packets_that_wait() {
        for (base, waited_us, alone, marked) in [
            (0.0, 800, false, 0.0),
            (0.0, 900, false, 0.25),
            (0.0, 1_200, false, 1.0),
            (0.0, 9_000, false, 1.0),
            (0.0, 9_000, true, 0.0),
            // The larger of both counts.
            (0.2, 900, false, 0.4),
            (0.1, 1_000, false, 0.5),
        ] {
            let mut pi2 = with_base(base);
            let decisions = (0..100_000).map(|_| pi2.decide_l4s(waited_us * 1_000, alone));
            assert_shares(shares(decisions), (marked, 0.0));
        }
    }

    #[test]
    fn base_follows_wait_and_its_growth() {
        let mut pi2 = DualPi2::new(1);
        let near = |pi2: &DualPi2, base: f64| assert!((pi2.base - base).abs() < 1e-9, "{pi2:?}");
        pi2.update(15 * MS, Some(0));
        near(&pi2, 0.0);
        // Waits of 16 and 32 ms: 0.16 · 1 ms + 3.2 · 16 ms, then 0.16 · 17 ms + 3.2 · 16 ms.
        pi2.update(16 * MS, Some(0));
        near(&pi2, 0.051_36);
        pi2.update(40 * MS, Some(0));
        near(&pi2, 0.105_28);
        // Of 15 ms: 3.2 · −17 ms.
        pi2.update(48 * MS, Some(33 * MS));
        near(&pi2, 0.050_88);
        pi2.update(64 * MS, Some(49 * MS));
        near(&pi2, 0.050_88);
    }

    #[test]
    fn idle_time_brings_the_base_to_zero() {
        let mut pi2 = with_base(0.01);
        pi2.update(1_000 * 3_600_000 * MS, None);
        assert_eq!(pi2.base, 0.0);
        assert_eq!(pi2.update_at_ns % UPDATE_NS, 0);
        assert!((1..=UPDATE_NS).contains(&(pi2.update_at_ns - 1_000 * 3_600_000 * MS)));
    }
}
