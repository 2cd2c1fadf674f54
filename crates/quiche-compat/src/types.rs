//! Modules and types that patches declare: the fork's, or the same files of ours in
//! quiche/ where a patch is missing. No connection of the library knows of the latter.

#[cfg(hook = "clock")]
pub use fork::clock;

#[cfg(not(hook = "clock"))]
#[path = "../../../quiche/src/clock.rs"]
#[rustfmt::skip] // formatted there
pub mod clock;

#[cfg(hook = "path_state")]
pub use fork::path_state;

#[cfg(not(hook = "path_state"))]
#[path = "../../../quiche/src/recovery/path_state/mod.rs"]
#[rustfmt::skip] // formatted there
pub mod path_state;

#[cfg(hook = "careful_resume")]
pub use fork::careful_resume;

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
    pub use crate::types::config::AfterJump;
    pub use crate::types::config::CarefulResumeConfig;
    pub use crate::types::config::UnknownAfterJump;
    pub use crate::types::phase::*;
}

#[cfg(hook = "slow_start")]
pub use fork::slow_start;

#[cfg(not(hook = "slow_start"))]
#[path = "../../../quiche/src/recovery/slow_start/exit.rs"]
#[rustfmt::skip] // formatted there
pub mod slow_start;

#[cfg(hook = "ecn")]
pub use fork::ecn;

#[cfg(not(hook = "ecn"))]
#[path = "../../../quiche/src/ecn/codepoint.rs"]
#[rustfmt::skip] // formatted there
mod codepoint;

#[cfg(not(hook = "ecn"))]
#[path = "../../../quiche/src/ecn/stats.rs"]
#[rustfmt::skip] // formatted there
mod ecn_stats;

#[cfg(not(hook = "ecn"))]
pub mod ecn {
    pub use crate::types::codepoint::*;
    pub use crate::types::ecn_stats::*;
}

#[cfg(hook = "send_batch")]
pub use fork::TransmitBatch;

/// Packets that `Connection::send_batch()` has written.
#[cfg(not(hook = "send_batch"))]
pub struct TransmitBatch {
    pub len: usize,
    pub packet_len: usize,
    pub info: fork::SendInfo,
}
