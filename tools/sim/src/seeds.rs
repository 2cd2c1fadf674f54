//! Seeds of everything that is random, derived from the run's seed: a draw of one never
//! shifts another.

/// Purpose of random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Drawn by quiche: connection IDs, grease, skipped packet numbers.
    Transport,
    /// Time at which a flow starts.
    Start,
    /// The bottleneck towards the clients.
    Down,
    /// The bottleneck towards the servers.
    Up,
    /// A random scenario.
    Scenario,
    /// Phase in which a path that swings begins.
    Swing,
    /// Values of a scenario file.
    Draw,
    /// Order of flows that are visits, and pauses between them.
    Visits,
    /// Client that a flow is a visit of.
    Client,
    /// Handovers of a path.
    Handover,
    /// Gaps between flows that arrive at random.
    Arrival,
    /// Size of a flow's object.
    Size,
    /// Lateness of a server's packets.
    Late,
}

/// Returns the seed of the `index`-th `purpose` in the run of `seed`.
pub fn derive(seed: u64, purpose: Purpose, index: u64) -> u64 {
    let mut state = seed;
    for part in [purpose as u64 + 1, index] {
        state = mix(state ^ mix(part));
    }
    state
}

/// Returns a number at least 0 and less than 1.
pub fn uniform(rng: &mut rand_pcg::Pcg64) -> f64 {
    use rand_pcg::rand_core::Rng;
    // 53 random bits make every multiple of 2^-53 below 1 equally likely.
    (rng.next_u64() >> 11) as f64 * (-53_f64).exp2()
}

/// Applies a bijection in which every bit of the argument affects every bit of the
/// result: the output function of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn seeds_differ_by_run_purpose_and_index() {
        let purposes = [Purpose::Transport, Purpose::Start, Purpose::Down, Purpose::Up];
        let mut seeds = BTreeSet::new();
        for seed in 0..20 {
            for purpose in purposes {
                seeds.extend((0..20).map(|index| derive(seed, purpose, index)));
            }
        }
        assert_eq!(seeds.len(), 20 * 4 * 20);
    }
}
