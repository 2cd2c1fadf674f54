//! Ledger of what became of each packet, for tests: loss detection as RFC 9002,
//! 6.1 describes it, with upstream's adaptive thresholds.
//!
//! The property tests compare its verdicts with the recovery's, and tell the
//! oracle what was acknowledged and lost.

use super::*;
use crate::ranges::RangeSet;

const GRANULARITY: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) time_sent: Instant,
    pub(super) size: usize,
    /// And ack-eliciting.
    pub(super) in_flight: bool,
    pub(super) is_mtu_probe: bool,
    pub(super) is_acked: bool,
    pub(super) time_lost: Option<Instant>,
}

impl Packet {
    pub(super) fn is_outstanding(&self) -> bool {
        !self.is_acked && self.time_lost.is_none()
    }
}

/// Whether losses amount to persistent congestion (RFC 9002, 7.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Persistent {
    #[default]
    No,

    /// Only together with losses declared earlier, or on the boundary.
    Arguably,
    Yes,
}

/// Result of an ACK or a timeout.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// Numbers of the packets newly acknowledged.
    pub(super) acked: Vec<u64>,
    pub(super) acked_bytes: usize,
    pub(super) rtt_sample: Option<Duration>,
    /// MTU probes are not congestion.
    pub(super) lost_packets: usize,
    pub(super) lost_bytes: usize,
    pub(super) persistent: Persistent,
}

#[derive(Debug)]
pub(super) struct Ledger {
    /// By number.
    pub(super) packets: Vec<Packet>,
    pub(super) flight_size: usize,
    forgotten: usize,
    largest_acked: u64,
    packet_threshold: u64,
    time_threshold: f64,
    latest_rtt: Duration,
    pub(super) smoothed_rtt: Duration,
    first_sample: Option<Instant>,
    loss_time: Option<Instant>,
}

impl Ledger {
    pub(super) fn new(initial_rtt: Duration) -> Self {
        Ledger {
            packets: Vec::new(),
            flight_size: 0,
            forgotten: 0,
            largest_acked: 0,
            packet_threshold: 3,
            time_threshold: 9.0 / 8.0,
            latest_rtt: Duration::ZERO,
            smoothed_rtt: initial_rtt,
            first_sample: None,
            loss_time: None,
        }
    }

    pub(super) fn sent(&mut self, packet: Packet) {
        if packet.in_flight {
            self.flight_size += packet.size;
        }
        self.packets.push(packet);
    }

    /// The numbers of packets whose fate is unknown, oldest first.
    pub(super) fn outstanding(&self) -> impl Iterator<Item = u64> + '_ {
        (self.forgotten..self.packets.len())
            .filter(|n| self.packets[*n].is_outstanding())
            .map(|n| n as u64)
    }

    /// The numbers of packets declared lost that might arrive after all.
    pub(super) fn lost(&self) -> impl Iterator<Item = u64> + '_ {
        self.packets
            .iter()
            .enumerate()
            .filter(|(_, p)| p.time_lost.is_some() && !p.is_acked)
            .map(|(n, _)| n as u64)
    }

    /// `rttvar` is the recovery's, after this ACK.
    pub(super) fn acked(
        &mut self, ranges: &RangeSet, now: Instant, rttvar: Duration,
    ) -> Report {
        let mut report = Report::default();
        self.mark_acked(ranges, now, &mut report);

        let Some(largest) = report.acked.last().copied() else {
            return report;
        };
        self.largest_acked = self.largest_acked.max(largest);

        let mut acked = report.acked.iter().map(|n| &self.packets[*n as usize]);
        if largest == self.largest_acked && acked.any(|p| p.in_flight) {
            let rtt = now - self.packets[largest as usize].time_sent;
            self.sample(rtt, now);
            report.rtt_sample = Some(rtt);
        }

        self.detect_losses(now, rttvar, &mut report);
        self.flight_size -= report.acked_bytes;
        self.forget(now);
        report
    }

    /// The loss detection timer fired.
    pub(super) fn timed_out(&mut self, now: Instant, rttvar: Duration) -> Report {
        let mut report = Report::default();
        if self.loss_time.is_some() {
            self.detect_losses(now, rttvar, &mut report);
        }
        report
    }

    pub(super) fn path_changed(
        &mut self, now: Instant, rttvar: Duration,
    ) -> Report {
        let mut report = Report::default();
        self.detect_losses(now, rttvar, &mut report);
        report
    }

    fn mark_acked(
        &mut self, ranges: &RangeSet, now: Instant, report: &mut Report,
    ) {
        let largest = ranges.last().unwrap().max(self.largest_acked);
        let mut reordering = None;

        for number in ranges.flatten() {
            let known = self.forgotten..self.packets.len();
            if !known.contains(&(number as usize)) {
                continue;
            }
            let packet = &mut self.packets[number as usize];
            if packet.is_acked {
                continue;
            }

            packet.is_acked = true;
            if packet.time_lost.is_some() {
                reordering.get_or_insert(largest - number + 1);
                continue;
            }
            if packet.in_flight {
                report.acked_bytes += packet.size;
            }
            report.acked.push(number);
        }

        self.forget(now);
        if let Some(reordering) = reordering {
            self.packet_threshold = self.packet_threshold.max(reordering.min(20));
            self.time_threshold = 5.0 / 4.0;
        }
    }

    fn sample(&mut self, rtt: Duration, now: Instant) {
        self.latest_rtt = rtt;
        self.smoothed_rtt = match self.first_sample {
            None => rtt,
            Some(_) => self.smoothed_rtt * 7 / 8 + rtt / 8,
        };
        self.first_sample.get_or_insert(now);
    }

    fn detect_losses(
        &mut self, now: Instant, rttvar: Duration, report: &mut Report,
    ) {
        let delay = self
            .latest_rtt
            .max(self.smoothed_rtt)
            .mul_f64(self.time_threshold)
            .max(GRANULARITY);
        let mut newly_lost = vec![];
        self.loss_time = None;

        for number in self.forgotten..self.packets.len() {
            if number as u64 > self.largest_acked {
                break;
            }
            let packet = &mut self.packets[number];
            if !packet.is_outstanding() {
                continue;
            }
            let is_late = packet.time_sent + delay <= now;
            let is_overtaken =
                self.largest_acked >= number as u64 + self.packet_threshold;
            if !is_late && !is_overtaken {
                self.loss_time = Some(packet.time_sent + delay);
                break;
            }

            packet.time_lost = Some(now);
            if packet.in_flight {
                self.flight_size -= packet.size;
            }
            if packet.is_mtu_probe {
                continue;
            }
            report.lost_packets += 1;
            if packet.in_flight {
                report.lost_bytes += packet.size;
                newly_lost.push(number);
            }
        }

        report.persistent = self.persistence(&newly_lost, rttvar);
        self.forget(now);
    }

    /// RFC 9002, 7.6.
    fn persistence(&self, newly_lost: &[usize], rttvar: Duration) -> Persistent {
        let Some(first_sample) = self.first_sample else {
            return Persistent::No;
        };
        let period = (self.smoothed_rtt + (rttvar * 4).max(GRANULARITY)) * 3;
        let mut verdict = Persistent::No;
        let latest = newly_lost.last().map(|n| self.packets[*n].time_sent);
        if latest.is_none_or(|latest| latest < first_sample + period) {
            return verdict;
        }

        for last in newly_lost {
            let end = self.packets[*last].time_sent;

            for first in (0..*last).rev() {
                let packet = &self.packets[first];
                if packet.is_acked || packet.time_sent < first_sample {
                    break;
                }
                if packet.time_lost.is_none() || !packet.in_flight {
                    continue;
                }

                let span = end - packet.time_sent;
                let is_clear = packet.time_sent > first_sample
                    && span > period
                    && newly_lost.contains(&first);
                if is_clear {
                    return Persistent::Yes;
                }
                if span >= period {
                    verdict = Persistent::Arguably;
                }
            }
        }
        verdict
    }

    /// Lost packets are remembered for one RTT.
    fn forget(&mut self, now: Instant) {
        while let Some(packet) = self.packets.get(self.forgotten) {
            let is_recent = packet
                .time_lost
                .is_some_and(|lost| lost > now - self.smoothed_rtt);
            if is_recent || packet.is_outstanding() {
                break;
            }
            self.forgotten += 1;
        }
    }
}
