//! The settings of Careful Resume.

use std::time::Duration;

/// The settings of Careful Resume, and the operator's limits (RFC 9959, 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResumeConfig {
    /// The largest window to jump to, in bytes.
    pub max_jump: usize,

    /// How long an observation may be used (the Lifetime, RFC 9959, 4.3.1).
    pub lifetime: Duration,

    /// Observations below this many initial windows are not worth saving
    /// (RFC 9959, 3.1).
    pub min_initial_windows: usize,

    /// Whether slow start after a jump ends at saved_cwnd: doubling once more
    /// would overshoot the capacity that was seen. Not where the observation
    /// was limited by something other than the path. More careful than
    /// RFC 9959 asks.
    pub ceiling: bool,
}

impl Default for ResumeConfig {
    fn default() -> Self {
        ResumeConfig {
            max_jump: 8 * 1024 * 1024,
            lifetime: Duration::from_secs(3600),
            min_initial_windows: 4,
            ceiling: false,
        }
    }
}
