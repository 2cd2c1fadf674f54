//! Gain: quantiles of the time to the last byte with Careful Resume against those of the control
//! group, by size class, with confidence intervals.
//!
//! The rules are those of docs/edge-server/control-group.md. No figure is over several size
//! classes, and none is made of fewer clients than its rule demands.

use serde::Serialize;

use crate::arm::Arm;
use crate::balance::Balance;
use crate::bootstrap::quantiles;
use crate::bootstrap::Resampling;
use crate::samples::ArmTotals;
use crate::samples::Sample;
use crate::samples::Samples;
use crate::size_class::SizeClass;

/// Replicates of the bootstrap.
const REPLICATES: usize = 2000;

/// Part of the replicates beyond each end of a confidence interval, which so is of 95 %.
const TAIL: f64 = 0.025;

/// Fewest clients of an arm for any quantile, and fewest beyond the quantile.
const CLIENTS_MIN: f64 = 30.0;
const CLIENTS_BEYOND_MIN: f64 = 10.0;

/// Quantile of the time to the last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Quantile {
    percent: u8,
}

impl Quantile {
    const MEDIAN: Self = Self { percent: 50 };

    /// The quantiles that are compared, in ascending order.
    pub const ALL: [Self; 5] = [
        Self { percent: 25 },
        Self::MEDIAN,
        Self { percent: 75 },
        Self { percent: 90 },
        Self { percent: 99 },
    ];

    /// Returns the percentage of responses that take no longer.
    pub fn percent(self) -> u8 {
        self.percent
    }

    fn fraction(self) -> f64 {
        f64::from(self.percent) / 100.0
    }

    /// Returns the fewest clients that each arm needs.
    pub fn clients_min(self) -> u64 {
        let beyond = self.fraction().min(1.0 - self.fraction());
        // Within rounding of a whole number.
        (CLIENTS_BEYOND_MIN / beyond - 1e-6).ceil().max(CLIENTS_MIN) as u64
    }
}

/// Settings of the evaluation.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The server's `--resume-share`, if it is to be checked.
    pub share: Option<f64>,

    /// Seed of the bootstrap.
    pub seed: u64,
}

/// Comparison of both arms.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gain {
    pub resume: ArmTotals,
    pub control: ArmTotals,
    pub clients_in_both_arms: u64,

    /// Check of the clients of each arm against the share.
    pub arms: Option<Balance>,

    /// Check of the clients that are compared against all clients of the arms.
    pub compared: Option<Balance>,

    /// Size classes with responses, from the smallest on.
    pub classes: Vec<ClassGain>,
}

/// Comparison in one size class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassGain {
    pub size: &'static str,
    pub resume: ArmSize,
    pub control: ArmSize,
    pub quantiles: Vec<QuantileGain>,
}

/// Size of one arm's sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ArmSize {
    pub responses: u64,
    pub clients: u64,

    /// How many clients with an equal number of responses would tell as much (Kish). A client with
    /// most of the responses counts for little more than one.
    pub clients_effective: f64,
}

/// Comparison of one quantile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct QuantileGain {
    pub percent: Quantile,
    pub resume_ms: f64,
    pub control_ms: f64,

    /// Time with Careful Resume, divided by that of the control group: below 1 is faster.
    pub ratio: Interval,

    /// Time with Careful Resume, less that of the control group: below 0 is faster.
    pub difference_ms: Interval,
}

/// Estimate with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

impl Interval {
    /// Returns whether a value is within the interval.
    pub fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Returns the interval between the tails of replicates, of which there is at least one.
    pub fn new(value: f64, mut replicates: Vec<f64>) -> Self {
        replicates.sort_by(f64::total_cmp);
        let last = replicates.len() - 1;
        let beyond = (TAIL * replicates.len() as f64) as usize;
        Self { value, low: replicates[beyond.min(last)], high: replicates[last - beyond.min(last)] }
    }
}

impl ArmSize {
    fn new(samples: &[Sample], clients: usize) -> Self {
        let mut responses_of = vec![0_u64; clients];
        samples.iter().for_each(|sample| responses_of[sample.client as usize] += 1);
        let squares: f64 = responses_of.iter().map(|count| (*count as f64).powi(2)).sum();
        let responses = samples.len() as u64;
        Self {
            responses,
            clients: responses_of.iter().filter(|count| **count > 0).count() as u64,
            clients_effective: match responses {
                0 => 0.0,
                responses => (responses as f64).powi(2) / squares,
            },
        }
    }
}

impl ClassGain {
    /// Returns the comparison of the median, if both arms have enough clients for it.
    pub fn median(&self) -> Option<&QuantileGain> {
        self.quantiles.iter().find(|gain| gain.percent == Quantile::MEDIAN)
    }

    /// Returns whether both arms have enough clients for a quantile.
    pub fn has_enough_for(&self, quantile: Quantile) -> bool {
        let least = self.resume.clients_effective.min(self.control.clients_effective);
        // A sum of squares is not exact.
        least + 1e-6 >= quantile.clients_min() as f64
    }
}

impl Gain {
    /// Compares the arms of a sample.
    pub fn new(samples: &Samples, settings: Settings) -> Self {
        let [resume, control] = Arm::ALL.map(|arm| samples.totals(arm));
        let arms = settings.share.map(|s| Balance::new(resume.clients, control.clients, s));
        let all = resume.clients + control.clients;
        let compared = (resume.clients_compared + control.clients_compared > 0).then(|| {
            let share = resume.clients as f64 / all as f64;
            Balance::new(resume.clients_compared, control.clients_compared, share)
        });
        Self {
            resume,
            control,
            clients_in_both_arms: samples.clients_in_both_arms(),
            arms,
            compared,
            classes: classes(samples, settings.seed),
        }
    }

    /// Returns whether any quantile of any class could be compared.
    pub fn is_enough(&self) -> bool {
        self.classes.iter().any(|class| !class.quantiles.is_empty())
    }
}

/// Replicates of one class.
struct Replicates {
    ratios: [Vec<f64>; Quantile::ALL.len()],
    differences: [Vec<f64>; Quantile::ALL.len()],
}

fn classes(samples: &Samples, seed: u64) -> Vec<ClassGain> {
    let clients = samples.clients() as usize;
    let sorted = samples.sorted();
    let classes = SizeClass::all().zip(&sorted);
    let occupied = classes.filter(|(_, arms)| arms.iter().any(|samples| !samples.is_empty()));
    occupied.map(|(class, arms)| class_gain(class, arms, clients, seed)).collect()
}

fn class_gain(class: SizeClass, arms: &[Vec<Sample>; 2], clients: usize, seed: u64) -> ClassGain {
    let [resume, control] = arms.each_ref().map(|arm| ArmSize::new(arm, clients));
    let class = ClassGain { size: class.name(), resume, control, quantiles: Vec::new() };
    let quantiles = compare(arms, &class, clients, seed);
    ClassGain { quantiles, ..class }
}

/// Compares the quantiles of a class for which both arms have enough clients.
fn compare(
    arms: &[Vec<Sample>; 2],
    class: &ClassGain,
    clients: usize,
    seed: u64,
) -> Vec<QuantileGain> {
    let enough = Quantile::ALL.map(|quantile| class.has_enough_for(quantile));
    let fractions = Quantile::ALL.map(Quantile::fraction);
    let of_all = arms.each_ref().map(|arm| quantiles(arm, fractions, |_| 1));
    let ([Some(resume), Some(control)], true) = (of_all, enough.contains(&true)) else {
        return Vec::new();
    };
    let mut replicates = Replicates { ratios: Default::default(), differences: Default::default() };
    let mut resampling = Resampling::new(clients, seed);
    for _ in 0..REPLICATES {
        let weights = resampling.draw();
        let weight = |client: u32| weights[client as usize];
        let drawn = arms.each_ref().map(|arm| quantiles(arm, fractions, weight));
        let [Some(resume), Some(control)] = drawn else { continue };
        replicates.push(resume, control);
    }
    let gain = |i: usize| QuantileGain {
        percent: Quantile::ALL[i],
        resume_ms: resume[i],
        control_ms: control[i],
        ratio: Interval::new(ratio(resume[i], control[i]), replicates.ratios[i].clone()),
        difference_ms: Interval::new(resume[i] - control[i], replicates.differences[i].clone()),
    };
    (0..Quantile::ALL.len()).filter(|i| enough[*i]).map(gain).collect()
}

impl Replicates {
    fn push(&mut self, resume: [f64; Quantile::ALL.len()], control: [f64; Quantile::ALL.len()]) {
        for (i, (resume, control)) in resume.into_iter().zip(control).enumerate() {
            self.ratios[i].push(ratio(resume, control));
            self.differences[i].push(resume - control);
        }
    }
}

/// Returns the ratio of two times, which the log may have rounded to 0.
fn ratio(resume_ms: f64, control_ms: f64) -> f64 {
    resume_ms / control_ms.max(0.001)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client_unit::ClientUnit;
    use crate::log_line::LogLine;
    use crate::log_line::Response;
    use rand_pcg::rand_core::Rng;
    use rand_pcg::rand_core::SeedableRng;
    use rand_pcg::Pcg64;
    use std::net::Ipv4Addr;

    const SETTINGS: Settings = Settings { share: Some(0.5), seed: 1 };

    /// Responses of 2 MB by clients whose paths differ by a factor of ten; those of the resume arm
    /// take `factor` times as long. A client has `responses`, which differ by a tenth.
    fn drawn(clients: u32, responses: u32, factor: f64, seed: u64) -> Samples {
        let mut random = Pcg64::seed_from_u64(seed);
        let mut uniform = move || (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let mut samples = Samples::default();
        for i in 0..clients {
            let arm = if uniform() < 0.5 { Arm::Resume } else { Arm::Control };
            let path_ms = 100.0 * 10_f64.powf(uniform());
            for _ in 0..responses {
                let ms = path_ms * (0.9 + 0.2 * uniform());
                samples.add(LogLine::Compared(Response {
                    client: ClientUnit::of(Ipv4Addr::from_bits(i).into()),
                    arm,
                    could_jump: true,
                    complete: true,
                    retreat: false,
                    bytes: 2_000_000,
                    duration_ms: if arm == Arm::Resume { factor * ms } else { ms },
                }));
            }
        }
        samples
    }

    /// Share of 100 experiments whose intervals of the median contain the true ratio.
    fn coverage(clients: u32, responses: u32, factor: f64) -> f64 {
        let holds = |seed| {
            let gain = Gain::new(&drawn(clients, responses, factor, seed), SETTINGS);
            gain.classes[0].median().unwrap().ratio.contains(factor)
        };
        (0..100).filter(|seed| holds(*seed)).count() as f64 / 100.0
    }

    // Three standard deviations below 0.95.
    #[test]
    fn interval_holds_the_known_gain_as_often_as_it_says() {
        for (factor, responses) in [(1.0, 1), (0.6, 1), (0.6, 20)] {
            let coverage = coverage(100, responses, factor);
            assert!(coverage >= 0.88, "{factor}, {responses}: {coverage}");
        }
    }

    // As independent samples, 20 responses of a client would make the interval too narrow.
    #[test]
    fn more_responses_of_the_same_clients_do_not_narrow_the_interval() {
        let width = |responses| {
            let gain = Gain::new(&drawn(200, responses, 1.0, 5), SETTINGS);
            let ratio = gain.classes[0].quantiles[1].ratio;
            ratio.high - ratio.low
        };
        assert!(width(20) > 0.7 * width(1), "{} {}", width(20), width(1));
        let gain = Gain::new(&drawn(200, 20, 1.0, 5), SETTINGS);
        let ArmSize { responses, clients, clients_effective } = gain.classes[0].resume;
        assert_eq!((responses, clients_effective.round() as u64), (20 * clients, clients));
    }

    #[test]
    fn same_seed_gives_the_same_intervals() {
        let samples = drawn(100, 2, 0.8, 3);
        let gain = |seed| Gain::new(&samples, Settings { seed, ..SETTINGS });
        assert_eq!(gain(1), gain(1));
        assert_ne!(gain(1).classes, gain(2).classes);
    }

    #[test]
    fn quantile_needs_clients_beyond_it_in_each_arm() {
        let clients_min = Quantile::ALL.map(Quantile::clients_min);
        assert_eq!(clients_min, [40, 30, 40, 100, 1000]);
        for (clients, expected) in [
            (20, &[][..]),
            (150, &[25, 50, 75]),
            (300, &[25, 50, 75, 90]),
            (2200, &[25, 50, 75, 90, 99]),
        ] {
            let gain = Gain::new(&drawn(clients, 1, 1.0, 8), SETTINGS);
            let percents: Vec<_> =
                gain.classes[0].quantiles.iter().map(|gain| gain.percent.percent()).collect();
            assert_eq!(percents, expected, "{clients}");
            assert_eq!(gain.is_enough(), !expected.is_empty());
        }
    }

    // One client of many responses is still one.
    #[test]
    fn client_with_most_responses_makes_no_sample() {
        let mut samples = drawn(100, 1, 1.0, 9);
        let big = drawn(1, 100_000, 1.0, 9);
        for arm in Arm::ALL {
            for sample in &big.sorted()[3].concat() {
                samples.add(LogLine::Compared(Response {
                    client: ClientUnit::of([10, 0, 0, arm.index() as u8].into()),
                    arm,
                    could_jump: true,
                    complete: true,
                    retreat: false,
                    bytes: 2_000_000,
                    duration_ms: sample.ms,
                }));
            }
        }
        let gain = Gain::new(&samples, SETTINGS);
        assert!(gain.classes[0].resume.clients_effective < 1.1);
        assert!(!gain.is_enough());
    }

    #[test]
    fn classes_are_never_mixed() {
        let mut samples = drawn(200, 1, 0.5, 4);
        for response in 0..500 {
            samples.add(LogLine::Compared(Response {
                client: ClientUnit::of(Ipv4Addr::from_bits(response % 200).into()),
                arm: Arm::Control,
                could_jump: true,
                complete: true,
                retreat: false,
                bytes: 50_000_000,
                duration_ms: 9e6,
            }));
        }
        let gain = Gain::new(&samples, SETTINGS);
        let sizes: Vec<_> = gain.classes.iter().map(|c| (c.size, c.quantiles.len())).collect();
        assert_eq!(sizes, [("1-3MB", 3), ("30-100MB", 0)]);
        assert!(gain.classes[0].quantiles.iter().all(|gain| gain.control_ms < 1100.0));
    }

    #[test]
    fn arms_are_checked_against_share_and_each_other() {
        let samples = drawn(1000, 1, 1.0, 2);
        let gain = |share| Gain::new(&samples, Settings { share, ..SETTINGS });
        assert!(gain(Some(0.5)).arms.unwrap().is_plausible());
        assert!(!gain(Some(0.9)).arms.unwrap().is_plausible());
        assert_eq!(gain(None).arms, None);
        assert!(gain(None).compared.unwrap().is_plausible());
    }
}
