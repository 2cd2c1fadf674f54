//! What the applications ask of the fork that the release does not have.

use std::time::Instant;

use crate::path_state::PathState;
use crate::resume::Phase;
use crate::resume::ResumeConfig;
use crate::resume::ResumeEvent;
use crate::resume::ResumeStats;
use crate::slow_start::SlowStartExit;
use crate::slow_start::SlowStartStats;
use crate::Config;
use crate::Connection;
use crate::PathStats;
use crate::Result;

/// The library reads the time and draws random bytes where a simulation can
/// replace both.
pub const HAS_CLOCK: bool = cfg!(hook = "clock");

/// Connections can learn and resume.
pub const HAS_CAREFUL_RESUME: bool = cfg!(hook = "careful_resume");

/// See `Config::set_avoid_runts()`; without it, runts are sent.
#[cfg(hook = "avoid_runts")]
pub fn set_avoid_runts(config: &mut Config, on: bool) {
    config.set_avoid_runts(on);
}

#[cfg(not(hook = "avoid_runts"))]
pub fn set_avoid_runts(_config: &mut Config, _on: bool) {}

#[cfg(hook = "slow_start")]
mod slow_start {
    use super::*;

    /// See `Config::set_slow_start_exit()`.
    ///
    /// # Errors
    ///
    /// Settings that make no sense, or that the library does not have.
    pub fn set_slow_start_exit(config: &mut Config, exit: SlowStartExit) -> Result<()> {
        config.set_slow_start_exit(exit)
    }

    /// See `PathStats::slow_start`.
    pub fn slow_start_stats(stats: &PathStats) -> SlowStartStats {
        stats.slow_start.unwrap_or_default()
    }
}

#[cfg(not(hook = "slow_start"))]
mod slow_start {
    use super::*;

    pub fn set_slow_start_exit(config: &mut Config, exit: SlowStartExit) -> Result<()> {
        config.enable_hystart(exit == SlowStartExit::HyStart);
        match exit {
            SlowStartExit::Search(_) => Err(crate::Error::CongestionControl),
            _ => Ok(()),
        }
    }

    pub fn slow_start_stats(_: &PathStats) -> SlowStartStats {
        SlowStartStats::default()
    }
}

pub use slow_start::*;

#[cfg(hook = "careful_resume")]
mod careful_resume {
    use super::*;

    /// See `Config::set_careful_resume()`.
    ///
    /// # Errors
    ///
    /// The controller has no Careful Resume, or the library has none.
    pub fn set_careful_resume(config: &mut Config, resume: ResumeConfig) -> Result<()> {
        config.set_careful_resume(resume)
    }

    /// See `Connection::resume_from()`.
    ///
    /// # Errors
    ///
    /// It is too late, Careful Resume is off, or the library has none.
    pub fn resume_from(quic: &mut Connection, saved: PathState, before: Instant) -> Result<()> {
        quic.resume_from(saved, before)
    }

    /// See `Connection::path_state()`.
    pub fn path_state(quic: &Connection) -> Option<PathState> {
        quic.path_state()
    }

    /// See `Connection::resume_event_next()`.
    pub fn resume_event_next(quic: &mut Connection) -> Option<ResumeEvent> {
        quic.resume_event_next()
    }

    /// See `Connection::resume_phase()`.
    pub fn resume_phase(quic: &Connection) -> Phase {
        quic.resume_phase()
    }

    /// See `PathStats::resume`.
    pub fn resume_stats(stats: &PathStats) -> Option<ResumeStats> {
        stats.resume
    }
}

#[cfg(not(hook = "careful_resume"))]
mod careful_resume {
    use super::*;

    pub fn set_careful_resume(_: &mut Config, _: ResumeConfig) -> Result<()> {
        Err(crate::Error::CongestionControl)
    }

    pub fn resume_from(_: &mut Connection, _: PathState, _: Instant) -> Result<()> {
        Err(crate::Error::InvalidState)
    }

    pub fn path_state(_: &Connection) -> Option<PathState> {
        None
    }

    pub fn resume_event_next(_: &mut Connection) -> Option<ResumeEvent> {
        None
    }

    pub fn resume_phase(_: &Connection) -> Phase {
        Phase::Normal
    }

    pub fn resume_stats(_: &PathStats) -> Option<ResumeStats> {
        None
    }
}

pub use careful_resume::*;
