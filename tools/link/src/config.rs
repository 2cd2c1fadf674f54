//! What one direction of a link is set to.

use crate::loss;
use crate::named::PacketNumbers;
use crate::rate::Rate;
use crate::schedule;
use crate::schedule::Change;
use std::fmt;
use std::time::Duration;

/// The MTU of a link that sets none, in bytes.
pub const MTU_BYTES_DEFAULT: u32 = 1_500;

/// The settings of one direction of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkConfig {
    /// Bits of IP packets per second.
    pub rate: Rate,

    /// Propagation delay, added after the last bit has left. A packet's time
    /// on the link is its wait, its transmission time, and this.
    pub delay: Duration,

    /// How many bytes of IP packets may wait. The packet whose transmission
    /// has begun does not wait any more, so a link without any buffer still
    /// carries one packet at a time.
    pub buffer_bytes: u64,

    /// What else is dropped than what finds the buffer full.
    pub queue: Queue,

    /// The largest IP packet that passes, in bytes.
    pub mtu_bytes: u32,

    /// The probability that a packet is lost, 0 to 1, independent of all others.
    pub loss: f64,

    /// Packets lost by name: numbers of packets in their flow.
    pub named_loss: PacketNumbers,

    /// Most of an extra delay that is drawn for each packet, equally likely
    /// from 0 on. Packets keep their order: one that would overtake arrives
    /// together with the one in front. So where several packets come within
    /// this time, the largest draws prevail, and the mean is above the half.
    pub jitter: Duration,

    /// Seed of the random loss, and of the jitter. The same seed loses and
    /// delays the same packets, counted in the order in which they are offered.
    pub seed: u64,

    /// What changes when, in order of time.
    pub changes: Vec<Change>,
}

/// A queueing discipline: what happens to the packets in a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queue {
    /// What finds the buffer full is dropped.
    #[default]
    DropTail,
    /// Also, CoDel drops packets at the head of a queue that stays long:
    /// RFC 8289 with its target of 5 ms and interval of 100 ms.
    CoDel,
}

impl LinkConfig {
    /// A drop-tail link that loses nothing and does not change, with the
    /// default MTU.
    pub fn new(rate: Rate, delay: Duration, buffer_bytes: u64) -> Self {
        Self {
            rate,
            delay,
            buffer_bytes,
            queue: Queue::DropTail,
            mtu_bytes: MTU_BYTES_DEFAULT,
            loss: 0.0,
            named_loss: PacketNumbers::default(),
            jitter: Duration::ZERO,
            seed: 0,
            changes: Vec::new(),
        }
    }

    /// Checks what the types do not.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if self.mtu_bytes == 0 {
            return Err(ConfigError::Mtu);
        }
        loss::validate(self.loss)?;
        schedule::validate(&self.changes)
    }
}

/// Why a setting is refused. The text says what would be accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// The rate is out of range.
    Rate,
    /// The MTU is 0.
    Mtu,
    /// The loss is not a probability.
    Loss,
    /// A packet number or range cannot be read.
    PacketNumbers,
    /// The changes are not in order of time.
    Schedule,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rate => "a rate is a number from 0.001 to 1000000 Mbit/s",
            Self::Mtu => "an MTU is at least 1 byte",
            Self::Loss => "a loss is a probability from 0 to 1",
            Self::PacketNumbers => {
                "packets are named by number from 1, or range, separated by commas, as in 3,12-14"
            }
            Self::Schedule => "changes are given in order of time",
        })
    }
}

impl std::error::Error for ConfigError {}
