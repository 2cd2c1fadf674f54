//! Settings of Careful Resume.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Slow start after a jump, from which it would double exactly onto the saved
/// capacity. RFC 9959, 3.4 leaves it to the controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterJump {
    /// Beyond saved_cwnd the window grows by a quarter, and slow start ends
    /// after a round trip with a queue and no more delivered. The default.
    #[default]
    Soft,

    /// Slow start ends at saved_cwnd, unless something other than the path
    /// limited the observation.
    Ceiling,

    /// The window doubles, as the controller does.
    None,
}

impl AfterJump {
    /// The names that [`FromStr`] accepts.
    pub const NAMES: [&'static str; 3] = ["soft", "ceiling", "none"];

    /// Returns the name in options.
    pub fn name(self) -> &'static str {
        match self {
            AfterJump::Soft => "soft",
            AfterJump::Ceiling => "ceiling",
            AfterJump::None => "none",
        }
    }
}

/// Error: no [`AfterJump`] has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAfterJump(String);

impl fmt::Display for UnknownAfterJump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = AfterJump::NAMES.join(", ");
        write!(f, "must be one of {names}, not '{}'", self.0)
    }
}

impl std::error::Error for UnknownAfterJump {}

impl FromStr for AfterJump {
    type Err = UnknownAfterJump;

    fn from_str(name: &str) -> Result<Self, UnknownAfterJump> {
        match name {
            "soft" => Ok(AfterJump::Soft),
            "ceiling" => Ok(AfterJump::Ceiling),
            "none" => Ok(AfterJump::None),
            _ => Err(UnknownAfterJump(name.to_owned())),
        }
    }
}

/// Settings of Careful Resume, and the operator's limits (RFC 9959, 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CarefulResumeConfig {
    /// The largest window to jump to, in bytes.
    pub max_jump: usize,

    /// Time for which an observation may be used (the Lifetime, RFC 9959,
    /// 4.3.1).
    pub lifetime: Duration,

    /// Observations below this number of initial windows are not saved
    /// (RFC 9959, 3.1).
    pub min_initial_windows: usize,

    /// Slow start after a jump.
    pub after_jump: AfterJump,

    /// An experiment outside RFC 9959, 3.2, which has a sender wait until all
    /// of its initial data is acknowledged: jump to a quarter of saved_cwnd as
    /// soon as the initial window is sent, if the handshake's ACKs tell an RTT
    /// above half and below twice the saved one. Off by default.
    pub early_jump: bool,
}

impl CarefulResumeConfig {
    /// The smallest useful [`max_jump`], in bytes: twice the largest initial
    /// window, ten packets of 1452 bytes, which slow start reaches by the time
    /// of the jump.
    ///
    /// [`max_jump`]: CarefulResumeConfig::max_jump
    pub const MAX_JUMP_MIN: usize = 2 * 10 * 1452;
}

impl Default for CarefulResumeConfig {
    fn default() -> Self {
        CarefulResumeConfig {
            max_jump: 8 * 1024 * 1024,
            lifetime: Duration::from_secs(3600),
            min_initial_windows: 4,
            after_jump: AfterJump::Soft,
            early_jump: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_after_jump_name_parses_to_itself() {
        let all = [AfterJump::Soft, AfterJump::Ceiling, AfterJump::None];
        assert_eq!(all.map(AfterJump::name), AfterJump::NAMES);

        for after_jump in all {
            assert_eq!(after_jump.name().parse(), Ok(after_jump));
        }

        let error = "hard".parse::<AfterJump>().unwrap_err().to_string();
        assert_eq!(error, "must be one of soft, ceiling, none, not 'hard'");
    }
}
