//! Clock and random bytes of this crate.
//!
//! Every other module takes the time as an argument or asks [`now()`], so that
//! a whole connection can run in virtual time, exactly and repeatably. With the
//! `internal` feature a thread may replace its clock and seed its random bytes
//! by a [`Simulation`]; without it both are the system's.

use std::time::Instant;
use std::time::SystemTime;

/// Returns the current instant, of the system's monotonic clock or the thread's
/// simulated one.
#[inline]
#[expect(clippy::disallowed_methods, reason = "the one place")]
pub fn now() -> Instant {
    #[cfg(feature = "internal")]
    if let Some(instant) = simulation::now() {
        return instant;
    }

    Instant::now()
}

/// Returns the current wall-clock time. In a simulation it starts at a chosen
/// offset from the Unix epoch and advances with [`now()`].
#[inline]
#[expect(clippy::disallowed_methods, reason = "the one place")]
pub fn wall_now() -> SystemTime {
    #[cfg(feature = "internal")]
    if let Some(time) = simulation::wall_now() {
        return time;
    }

    SystemTime::now()
}

/// Fills `buf` from the thread's seeded generator. Returns false, and leaves
/// `buf` alone, if the thread has no simulation.
#[inline]
pub(crate) fn simulated_bytes(_buf: &mut [u8]) -> bool {
    #[cfg(feature = "internal")]
    return simulation::fill(_buf);

    #[cfg(not(feature = "internal"))]
    false
}

#[cfg(feature = "internal")]
pub use simulation::Simulation;

#[cfg(feature = "internal")]
mod simulation {
    use std::cell::RefCell;
    use std::marker::PhantomData;
    use std::time::Duration;
    use std::time::Instant;
    use std::time::SystemTime;

    thread_local! {
        static STATE: RefCell<Option<SimulationState>> =
            const { RefCell::new(None) };
    }

    struct SimulationState {
        base: Instant,
        wall_base: SystemTime,
        elapsed: Duration,
        seed: u64,
    }

    /// Replaces this thread's clock and random bytes until it is dropped.
    ///
    /// Secrets that BoringSSL makes by itself stay random: neither times nor
    /// sizes depend on them.
    #[derive(Debug)]
    pub struct Simulation {
        // It belongs to the thread whose clock it replaced.
        _not_send: PhantomData<*const ()>,
    }

    impl Simulation {
        /// Starts at `wall_offset` after the Unix epoch; `seed` determines all
        /// random bytes.
        ///
        /// # Panics
        ///
        /// If the thread has a simulation already: its two drivers would change
        /// each other's time.
        #[expect(clippy::disallowed_methods, reason = "any instant will do")]
        pub fn start(seed: u64, wall_offset: Duration) -> Self {
            STATE.with_borrow_mut(|state| {
                assert!(state.is_none(), "one simulation a thread");

                *state = Some(SimulationState {
                    base: Instant::now(),
                    wall_base: SystemTime::UNIX_EPOCH + wall_offset,
                    elapsed: Duration::ZERO,
                    seed,
                });
            });

            Simulation {
                _not_send: PhantomData,
            }
        }

        /// Moves the clock to `elapsed` after the start. Ignores an earlier
        /// value: time never goes back.
        pub fn advance_to(&self, elapsed: Duration) {
            STATE.with_borrow_mut(|state| {
                let state = state.as_mut().expect("alive while self is");
                state.elapsed = state.elapsed.max(elapsed);
            });
        }

        /// Returns the time since the start.
        pub fn elapsed(&self) -> Duration {
            STATE.with_borrow(|state| {
                state.as_ref().expect("alive while self is").elapsed
            })
        }
    }

    impl Drop for Simulation {
        fn drop(&mut self) {
            STATE.set(None);
        }
    }

    pub(super) fn now() -> Option<Instant> {
        STATE.with_borrow(|state| state.as_ref().map(|s| s.base + s.elapsed))
    }

    pub(super) fn wall_now() -> Option<SystemTime> {
        STATE.with_borrow(|state| state.as_ref().map(|s| s.wall_base + s.elapsed))
    }

    pub(super) fn fill(buf: &mut [u8]) -> bool {
        STATE.with_borrow_mut(|state| {
            let Some(state) = state.as_mut() else {
                return false;
            };

            for chunk in buf.chunks_mut(8) {
                let word = splitmix64(&mut state.seed).to_le_bytes();
                chunk.copy_from_slice(&word[..chunk.len()]);
            }

            true
        })
    }

    // SplitMix64 (Steele, Lea, Flood 2014): a full-period generator that needs
    // no more state than the seed.
    fn splitmix64(seed: &mut u64) -> u64 {
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);

        let mut z = *seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(all(test, feature = "internal"))]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn simulated_clock_moves_only_when_advanced() {
        let simulation = Simulation::start(1, Duration::from_secs(60));
        let (start, wall) = (now(), wall_now());
        assert_eq!(wall, SystemTime::UNIX_EPOCH + Duration::from_secs(60));

        simulation.advance_to(Duration::from_millis(250));
        assert_eq!(now() - start, Duration::from_millis(250));
        assert_eq!(
            wall_now().duration_since(wall).unwrap(),
            Duration::from_millis(250)
        );

        simulation.advance_to(Duration::from_millis(100));
        assert_eq!(simulation.elapsed(), Duration::from_millis(250));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "compares with it")]
    fn the_system_clock_returns_when_the_simulation_ends() {
        let before = Instant::now();
        drop(Simulation::start(1, Duration::ZERO));

        assert!(now() >= before);
        assert!(wall_now() > SystemTime::UNIX_EPOCH + Duration::from_secs(1));
        assert!(!simulated_bytes(&mut [0; 4]));
    }

    #[test]
    fn random_bytes_follow_from_the_seed() {
        let draw = |seed| {
            let _simulation = Simulation::start(seed, Duration::ZERO);
            let mut buf = [0; 13];
            crate::rand::rand_bytes(&mut buf);
            buf
        };

        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
