//! Statistics of a path that patches add to [`PathStats`].

use crate::types::careful_resume::CarefulResumeStats;
use crate::types::slow_start::SlowStartStats;
use fork::PathStats;

/// Returns `PathStats::careful_resume`, if the library has it.
#[cfg(hook = "careful_resume")]
pub fn careful_resume_stats(stats: &PathStats) -> Option<CarefulResumeStats> {
    stats.careful_resume
}

#[cfg(not(hook = "careful_resume"))]
pub fn careful_resume_stats(_: &PathStats) -> Option<CarefulResumeStats> {
    None
}

/// Returns `PathStats::slow_start`, if the library has it.
#[cfg(hook = "slow_start")]
pub fn slow_start_stats(stats: &PathStats) -> SlowStartStats {
    stats.slow_start.unwrap_or_default()
}

#[cfg(not(hook = "slow_start"))]
pub fn slow_start_stats(_: &PathStats) -> SlowStartStats {
    SlowStartStats::default()
}
