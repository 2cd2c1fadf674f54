//! Counters of traffic: bytes, packets, losses and marks, which each connection updates at most once a
//! second and when it ends.

use std::time::Duration;
use std::time::Instant;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use quiche::ecn::EcnStats;
use quiche::Stats;

/// Interval at which a connection updates the counters.
const INTERVAL: Duration = Duration::from_secs(1);

/// Number of counters.
const COUNTS: usize = 10;

/// Places of bytes sent and lost in [`counts()`].
const SENT_BYTES: usize = 0;
const LOST_BYTES: usize = 5;

/// Counters, shared by the workers, in the order of [`counts()`].
#[derive(Clone, Default)]
pub struct TrafficMetrics {
    counters: [Counter; COUNTS],
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Direction {
    direction: &'static str,
}

/// Statistics of one connection that have not been added to the counters.
pub struct StatsDelta {
    counted: [u64; COUNTS],
    next: Instant,
}

/// What a connection has sent since its last report, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentBytes {
    pub sent: u64,
    pub lost: u64,
}

/// Returns the counted statistics of a connection, since its start.
fn counts(stats: &Stats, ecn: &EcnStats) -> [u64; COUNTS] {
    [
        stats.sent_bytes,
        stats.recv_bytes,
        stats.sent as u64,
        stats.recv as u64,
        stats.lost as u64,
        stats.lost_bytes,
        stats.spurious_lost as u64,
        stats.retrans as u64,
        ecn.reported.ce,
        ecn.received.ce,
    ]
}

impl TrafficMetrics {
    /// Registers the counters.
    pub fn register(registry: &mut Registry) -> Self {
        let directions = |family: &Family<Direction, Counter>| {
            ["sent", "received"]
                .map(|direction| family.get_or_create(&Direction { direction }).clone())
        };
        let (bytes, packets, marked) = (Family::default(), Family::default(), Family::default());
        let ([bytes_sent, bytes_received], [sent, received]) =
            (directions(&bytes), directions(&packets));
        registry.register("edge_server_bytes", "UDP payload of connections, in bytes", bytes);
        let [marked_sent, marked_received] = directions(&marked);
        registry.register("edge_server_packets", "QUIC packets of connections", packets);
        registry.register(
            "edge_server_packets_marked_ce",
            "Packets with a congestion mark (ECN): sent, as clients report, and received",
            marked,
        );

        let mut plain = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(format!("edge_server_{name}"), help, counter.clone());
            counter
        };
        Self {
            counters: [
                bytes_sent,
                bytes_received,
                sent,
                received,
                plain("packets_lost", "Packets declared lost"),
                plain("bytes_lost", "Bytes in packets declared lost"),
                plain("packets_lost_spuriously", "Packets declared lost and acknowledged later"),
                plain("packets_retransmitted", "Packets sent that repeat data"),
                marked_sent,
                marked_received,
            ],
        }
    }
}

impl StatsDelta {
    /// Returns the delta of a connection that begins `now`.
    pub fn new(now: Instant) -> Self {
        Self { counted: [0; COUNTS], next: now + INTERVAL }
    }

    /// Returns whether the interval has passed.
    pub fn is_due(&self, now: Instant) -> bool {
        self.next <= now
    }

    /// Adds what has changed since the last call to the counters, and returns it.
    pub fn report(
        &mut self,
        stats: &Stats,
        ecn: &EcnStats,
        metrics: &TrafficMetrics,
        now: Instant,
    ) -> SentBytes {
        self.next = now + INTERVAL;
        let counted = std::mem::replace(&mut self.counted, counts(stats, ecn));
        let changes: [u64; COUNTS] =
            std::array::from_fn(|i| self.counted[i].saturating_sub(counted[i]));
        for (counter, change) in metrics.counters.iter().zip(changes) {
            counter.inc_by(change);
        }
        SentBytes { sent: changes[SENT_BYTES], lost: changes[LOST_BYTES] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::metrics::tests::assert_exported;
    use quiche::ecn::Marks;

    #[test]
    fn stats_delta_is_added_once_per_interval() {
        let mut registry = Registry::default();
        let metrics = TrafficMetrics::register(&mut registry);
        let start = quiche::clock::now();
        let stats = |sent, lost| {
            let mut stats = Stats::default();
            (stats.sent, stats.lost, stats.sent_bytes) = (sent, lost, 10);
            stats
        };
        let (mut one, mut other) = (StatsDelta::new(start), StatsDelta::new(start));
        assert!(!one.is_due(start) && one.is_due(start + INTERVAL));
        let marks = |ce| Marks { ce, ..Default::default() };
        let ecn = |reported, received| EcnStats {
            reported: marks(reported),
            received: marks(received),
            ..Default::default()
        };
        one.report(&stats(5, 1), &ecn(2, 1), &metrics, start + INTERVAL);
        assert!(!one.is_due(start + INTERVAL));
        let more = one.report(&stats(7, 1), &ecn(3, 1), &metrics, start + 2 * INTERVAL);
        assert_eq!(more, SentBytes { sent: 0, lost: 0 });
        let mut lossy = stats(100, 2);
        lossy.lost_bytes = 7;
        let first = other.report(&lossy, &ecn(0, 4), &metrics, start + INTERVAL);
        assert_eq!(first, SentBytes { sent: 10, lost: 7 });

        let lines = [
            "packets_total{direction=\"sent\"} 107",
            "bytes_total{direction=\"sent\"} 20",
            "bytes_total{direction=\"received\"} 0",
            "packets_lost_total 3",
            "packets_marked_ce_total{direction=\"sent\"} 3",
            "packets_marked_ce_total{direction=\"received\"} 5",
        ];
        assert_exported(&registry, "edge_server_", &lines);
    }
}
