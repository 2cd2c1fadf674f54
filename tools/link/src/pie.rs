//! PIE (RFC 8033): drops packets that arrive, with a probability that a controller sets from the
//! wait in the queue, or marks them if they are ECN-capable.
//!
//! The wait is known exactly, as that of a packet that would come at the time of an update; the
//! RFC's section 5.1 estimates it from the rate. Settings are the RFC's defaults, without the
//! optional derandomization of its section 5.4.

use crate::decision::Decision;
use crate::decision::Head;
use rand_pcg::rand_core::Rng;
use rand_pcg::rand_core::SeedableRng;
use rand_pcg::Pcg64;

/// Keeps the draws apart from those of the random loss, which has the same seed.
const STREAM: u64 = 0x7069_6500_0000_0000;

/// QDELAY_REF and T_UPDATE.
const TARGET_NS: u64 = 15_000_000;
const UPDATE_NS: u64 = 15_000_000;

/// MAX_BURST: queues that last for less are left alone.
const BURST_NS: u64 = 150_000_000;

/// Gains of the difference from the target, and of the growth, per second.
const ALPHA_HZ: f64 = 0.125;
const BETA_HZ: f64 = 1.25;

/// MAX_ECNTH: with a higher probability, packets are dropped although they can be marked.
const MARK_MAX: f64 = 0.1;

/// Below each probability, the step of an update is divided by so much (RFC 8033, 4.2).
const SCALES: [(f64, f64); 6] = [
    (0.000_001, 2_048.0),
    (0.000_01, 512.0),
    (0.000_1, 128.0),
    (0.001, 32.0),
    (0.01, 8.0),
    (0.1, 2.0),
];

/// State of the controller.
#[derive(Clone, Debug)]
pub(crate) struct Pie {
    rng: Pcg64,
    probability: f64,
    wait_ns: u64,
    burst_ns: u64,
    update_at_ns: u64,
}

impl Pie {
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Pcg64::seed_from_u64(seed ^ STREAM),
            probability: 0.0,
            wait_ns: 0,
            burst_ns: BURST_NS,
            update_at_ns: UPDATE_NS,
        }
    }

    /// Decides about a packet when it arrives; one that finds at most an MTU waiting is spared (the
    /// RFC spares two packets of mean size). Until then, the queue was as `free_at_ns` tells:
    /// when the link has sent all that came before.
    pub fn decide(&mut self, head: Head, free_at_ns: u64) -> Decision {
        self.update(head.now_ns - head.waited_ns, free_at_ns);
        let safe = self.wait_ns < TARGET_NS / 2 && self.probability < 0.2;
        let unlucky = self.uniform() < self.probability;
        if self.burst_ns > 0 || safe || head.short_queue || !unlucky {
            Decision::Send
        } else if head.capable && self.probability <= MARK_MAX {
            Decision::Mark
        } else {
            Decision::Drop
        }
    }

    /// Makes the updates that are due by `now_ns`.
    fn update(&mut self, now_ns: u64, free_at_ns: u64) {
        while self.update_at_ns <= now_ns {
            let wait_ns = free_at_ns.saturating_sub(self.update_at_ns);
            self.control(wait_ns);
            let settled = self.probability == 0.0 && wait_ns == 0 && self.burst_ns == BURST_NS;
            // Nothing changes before the next arrival.
            let skipped = if settled { (now_ns - self.update_at_ns) / UPDATE_NS } else { 0 };
            self.update_at_ns = self.update_at_ns.saturating_add((skipped + 1) * UPDATE_NS);
        }
    }

    fn control(&mut self, wait_ns: u64) {
        let seconds = |later_ns: u64, earlier_ns: u64| (later_ns as f64 - earlier_ns as f64) / 1e9;
        let step =
            ALPHA_HZ * seconds(wait_ns, TARGET_NS) + BETA_HZ * seconds(wait_ns, self.wait_ns);
        let scale = SCALES.iter().find(|(below, _)| self.probability < *below);
        let step = step / scale.map_or(1.0, |(_, scale)| *scale);
        // Not faster than by 2 % once it is high.
        let step = if self.probability >= 0.1 { step.min(0.02) } else { step };
        self.probability += step;
        if wait_ns == 0 && self.wait_ns == 0 {
            self.probability *= 0.98;
        }
        // What is this small is none: an idle link settles.
        let is_some = self.probability > 1e-12;
        self.probability = if is_some { self.probability.min(1.0) } else { 0.0 };
        let short = |wait_ns: u64| wait_ns < TARGET_NS / 2;
        self.burst_ns = if self.probability == 0.0 && short(wait_ns) && short(self.wait_ns) {
            BURST_NS
        } else {
            self.burst_ns.saturating_sub(UPDATE_NS)
        };
        self.wait_ns = wait_ns;
    }

    fn uniform(&mut self) -> f64 {
        // 53 random bits make every multiple of 2^-53 below 1 equally likely.
        (self.rng.next_u64() >> 11) as f64 * (-53_f64).exp2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A packet that comes at `now_ms` to a queue of so many ms.
    fn head(now_ms: u64, waited_ms: u64, capable: bool) -> (Head, u64) {
        let free_at_ns = (now_ms + waited_ms) * MS;
        let waited_ns = waited_ms * MS;
        (Head { now_ns: free_at_ns, waited_ns, short_queue: false, capable }, free_at_ns)
    }

    /// Written down once more, by the RFC's pseudocode: probability after each wait, in ms.
    fn reference(waits_ms: &[f64]) -> Vec<f64> {
        let (mut p, mut old) = (0.0_f64, 0.0);
        let step = |&wait: &f64| {
            let mut add = 0.125 * (wait - 15.0) / 1e3 + 1.25 * (wait - old) / 1e3;
            add /= match p {
                p if p < 0.000_001 => 2_048.0,
                p if p < 0.000_01 => 512.0,
                p if p < 0.000_1 => 128.0,
                p if p < 0.001 => 32.0,
                p if p < 0.01 => 8.0,
                p if p < 0.1 => 2.0,
                _ => 1.0,
            };
            if p >= 0.1 && add > 0.02 {
                add = 0.02;
            }
            p += add;
            if wait == 0.0 && old == 0.0 {
                p *= 0.98;
            }
            p = p.clamp(0.0, 1.0);
            old = wait;
            p
        };
        waits_ms.iter().map(step).collect()
    }

    #[test]
    fn probability_is_that_of_the_pseudocode() {
        let rise = (1..40).map(|i| 4.0 * f64::from(i));
        let hold = std::iter::repeat_n(160.0, 60);
        let fall = (0..60).map(|i| (160.0 - 5.0 * f64::from(i)).max(0.0));
        let waits_ms: Vec<f64> = rise.chain(hold).chain(fall).collect();
        let mut pie = Pie::new(1);
        let expected = reference(&waits_ms);
        assert!(expected.iter().any(|p| *p > 0.2), "{expected:?}");
        for (wait_ms, expected) in waits_ms.iter().zip(expected) {
            pie.control((wait_ms * 1e6) as u64);
            assert!((pie.probability - expected).abs() < 1e-9, "{} {expected}", pie.probability);
        }
    }

    #[test]
    fn short_burst_is_spared_and_standing_queue_is_not() {
        let mut pie = Pie::new(1);
        let mut dropped_ms = Vec::new();
        for now_ms in 0..20_000 {
            let (head, free_at_ns) = head(now_ms, 60, false);
            if pie.decide(head, free_at_ns) == Decision::Drop {
                dropped_ms.push(now_ms);
            }
        }
        assert!(dropped_ms[0] >= 150, "{:?}", dropped_ms[0]);
        assert!(dropped_ms.len() > 1_000, "{}", dropped_ms.len());
    }

    #[test]
    fn capable_packets_are_marked_up_to_a_tenth() {
        for (probability, marks, drops) in [(0.05, 5_000.0, 0.0), (0.5, 0.0, 50_000.0)] {
            let pie = Pie { probability, wait_ns: 50 * MS, burst_ns: 0, ..Pie::new(1) };
            let mut pie = Pie { update_at_ns: u64::MAX, ..pie };
            let decisions: Vec<Decision> = (0..100_000)
                .map(|_| {
                    let (head, free_at_ns) = head(1, 50, true);
                    pie.decide(head, free_at_ns)
                })
                .collect();
            for (decision, expected) in [(Decision::Mark, marks), (Decision::Drop, drops)] {
                let count = decisions.iter().filter(|found| **found == decision).count() as f64;
                assert!((count - expected).abs() < 1_000.0, "{count} and not {expected}");
            }
        }
    }

    #[test]
    fn idle_time_brings_the_probability_to_zero() {
        let mut pie = Pie { probability: 0.01, burst_ns: 0, ..Pie::new(1) };
        pie.update(1_000 * 3_600_000 * MS, 0);
        assert_eq!((pie.probability, pie.burst_ns), (0.0, BURST_NS));
    }
}
