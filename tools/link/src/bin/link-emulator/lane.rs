//! Direction of the emulated link: the model, the packets on their way, and counts.

use crate::bottleneck::Bottleneck;
use crate::bottleneck::Queueing;
use crate::bottleneck::WaitingPacket;
use crate::lateness;
use crate::lateness::Lateness;
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
    /// What 1 % of them exceeded; 0 with fewer than 100.
    pub late_us_p99: f64,
    late_us_max: f64,
    /// What 1 % of them may exceed: above, the figures are the machine's and not the link's.
    pub late_us_limit: f64,
}

impl LaneStats {
    /// Returns whether packets left so late that the figures are the machine's.
    pub fn is_too_late(&self) -> bool {
        self.late_us_p99 > self.late_us_limit
    }
}

impl Lane {
    /// Creates an idle direction, whose schedule counts from `origin`. The directions make up
    /// a path with this RTT.
    ///
    /// # Errors
    ///
    /// If the model refuses its settings.
    pub fn new(
        queueing: Queueing,
        mut config: LinkConfig,
        origin: Duration,
        rtt: Duration,
    ) -> Result<Self, ConfigError> {
        config.changes_from = origin;
        let late_limit = lateness::limit(rtt);
        Ok(Self {
            bottleneck: Bottleneck::new(queueing, config)?,
            line: DelayLine::new(late_limit),
            sent_packets: 0,
            failed_packets: 0,
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
    }

    /// Returns by how much packets left late.
    pub fn lateness(&mut self) -> &mut Lateness {
        &mut self.line.lateness
    }

    /// Totals so far, with the overruns of the sockets that feed the lane.
    pub fn stats(&self, overrun_packets: u64) -> LaneStats {
        let us = |duration: Duration| (duration.as_secs_f64() * 1e7).round() / 10.0;
        let in_flight_packets = self.line.packets() + self.bottleneck.undecided_packets();
        let lateness = &self.line.lateness;
        LaneStats {
            link: self.bottleneck.stats(),
            sent_packets: self.sent_packets,
            failed_packets: self.failed_packets,
            overrun_packets,
            in_flight_packets: in_flight_packets as u64,
            late_us_mean: us(lateness.mean()),
            late_us_p99: us(lateness.p99()),
            late_us_max: us(lateness.max()),
            late_us_limit: us(lateness.limit()),
        }
    }
}
