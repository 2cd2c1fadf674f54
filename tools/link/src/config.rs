//! Settings of one direction of a link.

use crate::burst::BurstLoss;
use crate::ecn::EcnHandling;
use crate::error::ConfigError;
use crate::named::PacketNumbers;
use crate::policer::Policer;
use crate::rate::Rate;
use crate::schedule::Change;
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

    /// The queueing discipline.
    pub queue: Queue,

    /// What happens to the ECN field of the packets that reach the link, before the queue.
    pub ecn: EcnHandling,

    /// The largest IP packet that passes, in bytes.
    pub mtu_bytes: u32,

    /// The probability that a packet is lost, 0 to 1, independent of all others.
    pub loss: f64,

    /// Loss in bursts, besides `loss`.
    pub burst: Option<BurstLoss>,

    /// What exceeds a rate is dropped before it waits.
    pub policer: Option<Policer>,

    /// Packets lost by name: numbers of packets in their flow.
    pub named_loss: PacketNumbers,

    /// Most of an extra delay that is drawn for each packet, equally likely
    /// from 0 on. Packets keep their order: one that would overtake arrives
    /// together with the one in front. So where several packets come within
    /// this time, the largest draws prevail, and the mean is above the half.
    pub jitter: Duration,

    /// Time from one grant of the medium to the next: packets whose last bit has left wait for a
    /// grant, and those that have gathered arrive together. They take up no room in the buffer. The
    /// first grant is drawn from the seed, within this time of the caller's origin. Packets pass at
    /// once when it is 0.
    pub aggregation: Duration,

    /// Seed of the random loss, of the jitter, and of the first grant. The same seed loses and
    /// delays the same packets, counted in the order in which they are offered.
    pub seed: u64,

    /// Changes in order of time.
    pub changes: Vec<Change>,

    /// Time from which the changes count, since the caller's origin.
    pub changes_from: Duration,

    /// Time after which the changes begin again, as of a looping [`PathTrace`](crate::PathTrace); the last
    /// one holds for good when `None`.
    pub period: Option<Duration>,
}

/// A queueing discipline: what happens to the packets in a buffer. ECN-capable
/// packets are dropped only if they find the buffer full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queue {
    /// Drops packets that find the buffer full.
    #[default]
    DropTail,
    /// Also, CoDel drops packets at the head of a queue that stays long:
    /// RFC 8289 with its target of 5 ms and interval of 100 ms. It marks those that are
    /// [ECN-capable](crate::Ecn::is_capable) instead.
    CoDel,
    /// Also, PIE drops packets that arrive while the queue stays long: RFC 8033 with its defaults.
    /// It marks those that are [ECN-capable](crate::Ecn::is_capable) instead, while it drops few.
    Pie,
    /// Step marking with a threshold, as for DCTCP (RFC 8257, 3.1): marks ECN-capable packets that
    /// have waited for longer than this when their transmission begins. Drops like
    /// [`DropTail`](Self::DropTail).
    Step {
        /// The longest wait without a mark.
        mark_above: Duration,
    },
}

impl LinkConfig {
    /// Creates settings of a drop-tail link that loses nothing and does not change, with the
    /// default MTU.
    pub fn new(rate: Rate, delay: Duration, buffer_bytes: u64) -> Self {
        Self {
            rate,
            delay,
            buffer_bytes,
            queue: Queue::DropTail,
            ecn: EcnHandling::Pass,
            mtu_bytes: MTU_BYTES_DEFAULT,
            loss: 0.0,
            burst: None,
            policer: None,
            named_loss: PacketNumbers::default(),
            jitter: Duration::ZERO,
            aggregation: Duration::ZERO,
            seed: 0,
            changes: Vec::new(),
            changes_from: Duration::ZERO,
            period: None,
        }
    }

    /// Checks what the types do not.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if self.mtu_bytes == 0 {
            return Err(ConfigError::Mtu);
        }
        let last = self.changes.last().map_or(Duration::ZERO, |change| change.at);
        if !self.changes.is_sorted_by_key(|change| change.at)
            || self.period.is_some_and(|period| period <= last)
        {
            return Err(ConfigError::Schedule);
        }
        if self.stops_for_good() {
            return Err(ConfigError::Outage);
        }
        self.burst.map_or(Ok(()), BurstLoss::validate)?;
        let changed = self.changes.iter().filter_map(|change| change.loss);
        match changed.chain([self.loss]).all(|loss| (0.0..=1.0).contains(&loss)) {
            true => Ok(()),
            false => Err(ConfigError::Loss),
        }
    }

    /// Returns whether its rate becomes 0 without an end.
    fn stops_for_good(&self) -> bool {
        let mut changed = self.changes.iter().filter_map(|change| change.rate);
        match self.period {
            Some(_) if changed.clone().next().is_some() => changed.all(Rate::is_zero),
            _ => changed.next_back().unwrap_or(self.rate).is_zero(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_with_bad_changes_or_losses_is_refused() {
        let rate = Rate::from_bits_per_s(8_000_000).unwrap();
        let link = LinkConfig::new(rate, Duration::ZERO, 0);
        let change =
            |at_ns, loss| Change { at: Duration::from_nanos(at_ns), loss, ..Change::default() };
        for (changes, expected) in [
            (vec![change(5, None), change(5, None), change(6, None)], Ok(())),
            (vec![change(5, None), change(4, None)], Err(ConfigError::Schedule)),
            (vec![change(5, Some(1.5))], Err(ConfigError::Loss)),
        ] {
            assert_eq!(LinkConfig { changes, ..link.clone() }.validate(), expected);
        }
        let late = LinkConfig {
            changes: vec![change(5, None)],
            period: Some(Duration::from_nanos(5)),
            ..link.clone()
        };
        assert_eq!(late.validate(), Err(ConfigError::Schedule));
        assert_eq!(LinkConfig { loss: -0.1, ..link }.validate(), Err(ConfigError::Loss));
    }

    #[test]
    fn config_whose_rate_stays_at_0_is_refused() {
        let rate = Rate::from_bits_per_s(8_000_000).unwrap();
        for (rates, repeats, expected) in [
            (vec![Rate::ZERO, rate], false, Ok(())),
            (vec![rate, Rate::ZERO], false, Err(ConfigError::Outage)),
            (vec![rate, Rate::ZERO], true, Ok(())),
            (vec![Rate::ZERO], true, Err(ConfigError::Outage)),
            (vec![], true, Ok(())),
        ] {
            let change = |(at_s, rate)| Change {
                at: Duration::from_secs(at_s),
                rate: Some(rate),
                ..Change::default()
            };
            let config = LinkConfig {
                changes: (0..).zip(rates.clone()).map(change).collect(),
                period: repeats.then_some(Duration::from_secs(9)),
                ..LinkConfig::new(rate, Duration::ZERO, 0)
            };
            assert_eq!(config.validate(), expected, "{rates:?} {repeats}");
        }
        let stopped = LinkConfig::new(Rate::ZERO, Duration::ZERO, 0);
        assert_eq!(stopped.validate(), Err(ConfigError::Outage));
    }
}
