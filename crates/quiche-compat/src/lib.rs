//! quiche as the applications see it: the fork, whichever of its patches are
//! applied.
//!
//! Owns what depends on them, so that the applications build after every patch
//! of the series, and on the bare release. Where a patch is missing, the types
//! that it declares come from the same files of ours in quiche/, and [`hooks`]
//! has a stand-in for each of its functions: no connection of the library knows
//! of either. The build script tells which hooks are there.

pub use fork::*;

pub mod hooks;

#[cfg(not(hook = "clock"))]
#[path = "../../../quiche/src/clock.rs"]
#[rustfmt::skip] // formatted there
pub mod clock;

#[cfg(not(hook = "path_state"))]
#[path = "../../../quiche/src/recovery/path_state/mod.rs"]
#[rustfmt::skip] // formatted there
pub mod path_state;

#[cfg(not(hook = "careful_resume"))]
#[path = "../../../quiche/src/recovery/careful_resume/config.rs"]
#[rustfmt::skip] // formatted there
mod config;

#[cfg(not(hook = "careful_resume"))]
#[path = "../../../quiche/src/recovery/careful_resume/phase.rs"]
#[rustfmt::skip] // formatted there
mod phase;

#[cfg(not(hook = "careful_resume"))]
pub mod careful_resume {
    pub use crate::config::AfterJump;
    pub use crate::config::CarefulResumeConfig;
    pub use crate::config::UnknownAfterJump;
    pub use crate::phase::*;
}

#[cfg(not(hook = "slow_start"))]
#[path = "../../../quiche/src/recovery/slow_start/exit.rs"]
#[rustfmt::skip] // formatted there
pub mod slow_start;

#[cfg(not(hook = "path_state"))]
mod rand {
    use ring::rand::SecureRandom;
    use ring::rand::SystemRandom;

    /// Stands in for the fork's own, which is private.
    pub fn rand_u64() -> u64 {
        let mut bytes = [0; 8];
        SystemRandom::new().fill(&mut bytes).expect("the system has random bytes");
        u64::from_ne_bytes(bytes)
    }
}
