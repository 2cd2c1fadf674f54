//! Direction of the emulated link: the model, the packets on their way, and counts.

use crate::line::Batch;
use crate::line::DelayLine;
use link::ConfigError;
use link::Link;
use link::LinkConfig;
use link::LinkStats;
use link::Packet;
use link::Verdict;
use serde::Serialize;
use std::time::Duration;

/// One direction, shared by all clients.
#[derive(Debug)]
pub struct Lane {
    link: Link,
    line: DelayLine,
    sent_packets: u64,
    failed_packets: u64,
    late_sum: Duration,
    late_max: Duration,
}

/// Totals of one direction, for the summary. Bytes are those of IP packets.
#[derive(Clone, Debug, Serialize)]
pub struct LaneStats {
    #[serde(flatten)]
    link: LinkStats,
    sent_packets: u64,
    /// Packets that the system refused to send.
    failed_packets: u64,
    /// Packets that the system dropped before the link, because this process
    /// did not come to read them: they are not among those offered.
    pub overrun_packets: u64,
    /// Packets still on their way.
    in_flight_packets: u64,
    /// By how much packets left later than the model says.
    late_us_mean: f64,
    late_us_max: f64,
}

impl Lane {
    /// Creates an idle direction, whose schedule counts from `origin`.
    ///
    /// # Errors
    ///
    /// If the model refuses its settings.
    pub fn new(mut config: LinkConfig, origin: Duration) -> Result<Self, ConfigError> {
        config.changes_from = origin;
        Ok(Self {
            link: Link::new(config)?,
            line: DelayLine::default(),
            sent_packets: 0,
            failed_packets: 0,
            late_sum: Duration::ZERO,
            late_max: Duration::ZERO,
        })
    }

    /// Offers a packet of a client to the link, and returns what becomes of it.
    pub fn offer(
        &mut self,
        arrival: Duration,
        packet: Packet,
        client: usize,
        payload: &[u8],
    ) -> Verdict {
        let verdict = self.link.offer(arrival, packet);
        if let Verdict::Delivered { at, ecn } = verdict {
            self.line.push(at, client, ecn, payload);
        }
        verdict
    }

    /// Returns when the next packet is due at the other end.
    pub fn next_due(&self) -> Option<Duration> {
        self.line.next_due()
    }

    /// Takes packets that are due: see [`DelayLine::take_due`].
    pub fn take_due(
        &mut self,
        now: Duration,
        packets_max: usize,
        contents: &mut Vec<u8>,
    ) -> Option<Batch> {
        self.line.take_due(now, packets_max, contents)
    }

    /// Counts the packets of a send by its result.
    pub fn count(&mut self, batch: &Batch, sent: bool) {
        if sent {
            self.sent_packets += u64::from(batch.packets);
        } else {
            self.failed_packets += u64::from(batch.packets);
        }
        self.late_sum += batch.late_sum;
        self.late_max = self.late_max.max(batch.late_max);
    }

    /// Totals so far, with the overruns of the sockets that feed the lane.
    pub fn stats(&self, overrun_packets: u64) -> LaneStats {
        let left = self.sent_packets + self.failed_packets;
        let us = |duration: Duration| duration.as_secs_f64() * 1e6;
        let rounded = |us: f64| (us * 10.0).round() / 10.0;
        LaneStats {
            link: self.link.stats(),
            sent_packets: self.sent_packets,
            failed_packets: self.failed_packets,
            overrun_packets,
            in_flight_packets: self.line.packets() as u64,
            late_us_mean: rounded(us(self.late_sum) / left.max(1) as f64),
            late_us_max: rounded(us(self.late_max)),
        }
    }
}
