//! Periodic handovers of a path, as changes of a link.

use rand_pcg::rand_core::SeedableRng;
use rand_pcg::Pcg64;

use crate::scenario::Change;
use crate::scenario::Handover;
use crate::scenario::Path;
use crate::seeds;
use crate::seeds::Purpose;

/// Handovers of one run; the path stays as the last one leaves it.
const HANDOVERS_MAX: u32 = 1000;

/// Returns the changes of `path` by `handover`; when the first one comes, and what each brings,
/// follows from `seed`.
pub fn changes(path: &Path, handover: &Handover, seed: u64) -> Vec<Change> {
    let mut rng = Pcg64::seed_from_u64(seeds::derive(seed, Purpose::Handover, 0));
    let first_ms = seeds::uniform(&mut rng) * handover.every_ms;
    let mut drawn = |value: f64, share: f64| {
        let around = 1.0 + share * (2.0 * seeds::uniform(&mut rng) - 1.0);
        (share > 0.0).then_some(value * around)
    };
    let changes = |number: u32| {
        let at_ms = first_ms + f64::from(number) * handover.every_ms;
        let gap = Change { at_ms, rate_mbps: None, rtt_ms: None, loss: Some(1.0) };
        let after = Change {
            at_ms: at_ms + handover.gap_ms,
            rate_mbps: drawn(path.rate_mbps, handover.rate_share),
            rtt_ms: drawn(path.rtt_ms, handover.rtt_share),
            loss: Some(path.loss),
        };
        [gap, after]
    };
    (0..HANDOVERS_MAX).flat_map(changes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handovers(keys: &str, seed: u64) -> Vec<Change> {
        let text = format!("rate_mbps = 10\nrtt_ms = 100\nloss = 0.01\nhandover = {{ {keys} }}");
        let path: Path = toml::from_str(&text).unwrap();
        changes(&path, &path.handover.unwrap(), seed)
    }

    #[test]
    fn nothing_passes_in_the_gap_and_the_path_is_another_one_after_it() {
        let all = handovers("every_ms = 15000, gap_ms = 100, rate_share = 0.5, rtt_share = 0.2", 1);
        let rates: Vec<f64> = all.iter().filter_map(|change| change.rate_mbps).collect();
        let rtts: Vec<f64> = all.iter().filter_map(|change| change.rtt_ms).collect();
        assert!(all[0].at_ms < 15_000.0 && all[0].loss == Some(1.0), "{:?}", all[0]);
        for (index, pair) in all.chunks(2).enumerate() {
            let due_ms = all[0].at_ms + 15_000.0 * index as f64;
            assert!((pair[0].at_ms - due_ms).abs() < 1e-6, "{pair:?}");
            assert!((pair[1].at_ms - due_ms - 100.0).abs() < 1e-6, "{pair:?}");
            assert_eq!((pair[0].rate_mbps, pair[1].loss), (None, Some(0.01)));
        }
        assert!(rates.iter().all(|rate| (5.0..=15.0).contains(rate)), "{rates:?}");
        assert!(rtts.iter().all(|rtt| (80.0..=120.0).contains(rtt)), "{rtts:?}");
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        assert!((9.7..10.3).contains(&mean), "{mean}");
    }

    #[test]
    fn handovers_follow_from_the_seed() {
        let of = |seed| handovers("every_ms = 15000, rate_share = 0.5", seed);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        assert!(of(1).iter().all(|change| change.rtt_ms.is_none()));
    }
}
