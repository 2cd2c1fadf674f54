//! quiche as applications see it: the fork, whichever of its patches are applied.
//!
//! Applications call the fork's own methods on the fork's own types, for example
//! `Connection::careful_resume_from()`. They also compile after each patch of the series
//! and on the bare release: where a patch is missing, [`stand_ins!`] brings traits with a
//! stand-in for each of its methods into scope, and the types that it declares come from
//! the same files of ours in quiche/. The build script finds out which patches are
//! applied. With all of them there are no stand-ins: what is called is the fork.

pub use fork::*;

mod active_path;
mod bbr2;
mod controller;
#[cfg(not(hook = "path_state"))]
mod rand;
#[cfg(stand_ins)]
#[doc(hidden)]
pub mod stand_ins;
mod stats;
#[doc(hidden)]
pub mod types;

pub use crate::active_path::ActivePath;
pub use crate::bbr2::bbr2_params;
pub use crate::controller::cc_algorithm;
#[cfg(not(hook = "address_validation"))]
pub use crate::stand_ins::refuse;
pub use crate::stats::careful_resume_stats;
pub use crate::stats::slow_start_stats;
#[cfg(not(all(
    hook = "clock",
    hook = "path_state",
    hook = "careful_resume",
    hook = "slow_start",
    hook = "ecn",
    hook = "send_batch"
)))]
pub use crate::types::*;

/// The library reads the time and draws random bytes where a simulation can
/// replace both.
pub const HAS_CLOCK: bool = cfg!(hook = "clock");

/// Connections can observe their path, and resume.
pub const HAS_CAREFUL_RESUME: bool = cfg!(hook = "careful_resume");

/// Brings the stand-ins for methods of missing patches into scope. With the whole series
/// applied there are none, and this expands to nothing.
#[cfg(not(stand_ins))]
#[macro_export]
macro_rules! stand_ins {
    () => {};
}

#[cfg(stand_ins)]
#[macro_export]
macro_rules! stand_ins {
    () => {
        use $crate::stand_ins::ConfigStandIns as _;
        use $crate::stand_ins::ConnectionStandIns as _;
        use $crate::stand_ins::HttpStandIns as _;
    };
}
