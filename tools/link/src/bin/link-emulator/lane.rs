//! Direction of the emulated link: the model, the packets on their way, and counts.

use crate::bottleneck::Bottleneck;
use crate::bottleneck::Queueing;
use crate::bottleneck::WaitingPacket;
use crate::line::Batch;
use crate::line::DelayLine;
use link::ConfigError;
use link::Dequeued;
use link::LinkConfig;
use link::LinkStats;
use link::Packet;
use link::Verdict;
use serde::Serialize;
use std::time::Duration;

/// One direction, shared by all clients.
#[derive(Debug)]
pub struct Lane {
    bottleneck: Bottleneck,
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
    pub fn new(
        queueing: Queueing,
        mut config: LinkConfig,
        origin: Duration,
    ) -> Result<Self, ConfigError> {
        config.changes_from = origin;
        Ok(Self {
            bottleneck: Bottleneck::new(queueing, config)?,
            line: DelayLine::default(),
            sent_packets: 0,
            failed_packets: 0,
            late_sum: Duration::ZERO,
            late_max: Duration::ZERO,
        })
    }

    /// Offers a packet of a client to the link. Returns what becomes of it; `None` if
    /// [`take_departed`](Self::take_departed) will.
    pub fn offer(
        &mut self,
        arrival: Duration,
        packet: Packet,
        client: usize,
        payload: &[u8],
    ) -> Option<Verdict> {
        let verdict = self.bottleneck.offer(arrival, packet, client, payload);
        if let Some(Verdict::Delivered { at, ecn }) = verdict {
            self.line.push(at, client, ecn, payload);
        }
        verdict
    }

    /// Takes the next packet that has left a queue by `now` and whose fate was not known when it
    /// came. One that is delivered is on its way to the other end.
    pub fn take_departed(&mut self, now: Duration) -> Option<Dequeued<WaitingPacket>> {
        let departed = self.bottleneck.take_departed(now)?;
        if let Verdict::Delivered { at, ecn } = departed.verdict {
            self.line.push(at, departed.value.client, ecn, &departed.value.payload);
        }
        Some(departed)
    }

    /// Returns when the next packet leaves a queue or is due at the other end.
    pub fn next_due(&self) -> Option<Duration> {
        [self.line.next_due(), self.bottleneck.next_due()].into_iter().flatten().min()
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
            link: self.bottleneck.stats(),
            sent_packets: self.sent_packets,
            failed_packets: self.failed_packets,
            overrun_packets,
            in_flight_packets: (self.line.packets() + self.bottleneck.undecided_packets()) as u64,
            late_us_mean: rounded(us(self.late_sum) / left.max(1) as f64),
            late_us_max: rounded(us(self.late_max)),
        }
    }
}
