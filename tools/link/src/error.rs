//! Error of a setting.

use std::fmt;

/// Why a setting is refused. The text says what would be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The rate is out of range.
    Rate,
    /// A rate of a schedule is out of range, and not 0.
    ChangedRate,
    /// The rate is 0 from some time on for good.
    Outage,
    /// The MTU is 0.
    Mtu,
    /// The loss is not a probability.
    Loss,
    /// A burst loss is not one of three probabilities, or never ends.
    BurstLoss,
    /// A packet number or range cannot be read.
    PacketNumbers,
    /// The changes are not in order of time, or not within their period.
    Schedule,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rate => "a rate is a number from 0.001 to 1000000 Mbit/s",
            Self::ChangedRate => {
                "a rate is 0 for an outage, or a number from 0.001 to 1000000 Mbit/s"
            }
            Self::Outage => "the last rate is 0: say when the outage ends, by a rate above 0",
            Self::Mtu => "an MTU is at least 1 byte",
            Self::Loss => "a loss is a probability from 0 to 1",
            Self::BurstLoss => {
                "a burst loss is three probabilities from 0 to 1: to enter the bad state, to leave it \
                 (above 0), and of loss in it"
            }
            Self::PacketNumbers => {
                "packets are named by number from 1, or range, separated by commas, as in 3,12-14"
            }
            Self::Schedule => "changes are given in order of time, and before the time at which they begin again",
        })
    }
}

impl std::error::Error for ConfigError {}
