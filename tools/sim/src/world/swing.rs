//! Swing of a path, as changes of a link.

use std::f64::consts::TAU;

use rand_pcg::rand_core::SeedableRng;
use rand_pcg::Pcg64;

use crate::scenario::Change;
use crate::scenario::Path;
use crate::scenario::Swing;
use crate::seeds;
use crate::seeds::Purpose;

/// Steps per swing.
const STEPS: u32 = 20;

/// Swings of one run; the path stays as the last one leaves it.
const SWINGS_MAX: u32 = 500;

/// Returns the changes of `path` by `swing`; the phases follow from `seed`.
pub fn changes(path: &Path, swing: &Swing, seed: u64) -> Vec<Change> {
    let mut rng = Pcg64::seed_from_u64(seeds::derive(seed, Purpose::Swing, 0));
    let rate_phase = seeds::uniform(&mut rng);
    let rtt_phase = seeds::uniform(&mut rng);
    let period_ms = swing.period_rtts * path.rtt_ms;
    let swung = |share: f64, swings: f64, phase: f64| {
        (share > 0.0).then(|| 1.0 + share * (TAU * (swings + phase)).sin())
    };
    let change = |step: u32| {
        let swings = f64::from(step) / f64::from(STEPS);
        Change {
            at_ms: swings * period_ms,
            rate_mbps: swung(swing.rate_share, swings, rate_phase).map(|k| k * path.rate_mbps),
            rtt_ms: swung(swing.rtt_share, swings, rtt_phase).map(|k| k * path.rtt_ms),
            loss: None,
        }
    };
    (0..STEPS * SWINGS_MAX).map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swing(keys: &str, seed: u64) -> Vec<Change> {
        let text = format!("rate_mbps = 10\nrtt_ms = 100\nswing = {{ {keys} }}");
        let path: Path = toml::from_str(&text).unwrap();
        changes(&path, &path.swing.unwrap(), seed)
    }

    /// Returns least, mean and greatest of the first swing, and after how many steps
    /// it comes again.
    fn shape(values: &[f64]) -> [f64; 3] {
        let first = &values[..STEPS as usize];
        assert_eq!(first.len(), 20);
        for (value, next) in first.iter().zip(&values[STEPS as usize..]) {
            assert!((value - next).abs() < 1e-6, "{value} then {next}");
        }
        let mean = first.iter().sum::<f64>() / first.len() as f64;
        [
            first.iter().copied().fold(f64::INFINITY, f64::min),
            mean,
            first.iter().copied().fold(0.0, f64::max),
        ]
    }

    #[test]
    fn swing_moves_rate_and_rtt_by_their_shares() {
        let changes = swing("rate_share = 0.2, rtt_share = 0.5, period_rtts = 4", 1);
        assert_eq!((changes[0].at_ms, changes[20].at_ms), (0.0, 400.0));
        let [least, mean, most] =
            shape(&changes.iter().map(|c| c.rate_mbps.unwrap()).collect::<Vec<_>>());
        assert!((8.0..8.05).contains(&least) && most <= 12.0 && most > 11.95, "{least} {most}");
        assert!((mean - 10.0).abs() < 1e-6, "{mean}");
        let [least, mean, most] =
            shape(&changes.iter().map(|c| c.rtt_ms.unwrap()).collect::<Vec<_>>());
        assert!((50.0..51.0).contains(&least) && most <= 150.0 && most > 149.0, "{least} {most}");
        assert!((mean - 100.0).abs() < 1e-6, "{mean}");
    }

    #[test]
    fn swing_without_share_changes_nothing() {
        let changes = swing("rate_share = 0.2", 1);
        assert!(changes.iter().all(|c| c.rtt_ms.is_none() && c.rate_mbps.is_some()));
    }

    #[test]
    fn swing_of_each_seed_has_its_own_phases() {
        let starts = |seed| swing("rate_share = 0.2, rtt_share = 0.2", seed)[0].clone();
        assert_ne!(starts(1), starts(2));
        assert_eq!(starts(1), starts(1));
        assert!(
            (starts(1).rate_mbps.unwrap() / 10.0 - starts(1).rtt_ms.unwrap() / 100.0).abs() > 1e-6
        );
    }
}
